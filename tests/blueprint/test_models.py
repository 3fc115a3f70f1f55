"""A list of models: the first, and those that are asked if it fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.blueprint.core import expand
from holdfast.blueprint.load import loads
from tests.blueprint.written import problems

AGENT = "agents: {{a: {{{0}}}}}\nsteps: [{{name: s, agent: a}}]"


def test_a_list_is_the_model_and_its_fallbacks() -> None:
    agent = loads(AGENT.format("model: [fast, echo]")).agents["a"]
    assert (agent.model, agent.fallback_models) == ("fast", ["echo"])


def test_the_core_form_names_them_apart() -> None:
    text = expand(loads(AGENT.format("model: [fast, echo]")))
    assert "model: fast" in text and "fallback_models:" in text


def test_scripts_are_found_from_the_folder_of_the_blueprint(tmp_path: Path) -> None:
    text = AGENT.format("model: ['scripted:a.yaml', 'scripted:b.yaml']")
    agent = loads(text, folder=tmp_path, file="x.yaml").agents["a"]
    assert [agent.model, *agent.fallback_models] == [f"scripted:{tmp_path}/{name}.yaml" for name in "ab"]


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("model: []", "agents.a.model: bad_value: 'model' is an empty list"),
        ("model: [fast], fallback_models: [echo]", "agents.a.model: conflict"),
        ("model: [fast, 3]", "agents.a.fallback_models[0]"),
        ("model: [a, b, c, d, e, f, g]", "agents.a.fallback_models"),
    ],
)
def test_what_is_no_list_of_models_is_told_at_its_place(written: str, problem: str) -> None:
    assert problems(AGENT.format(written))[0].startswith(problem)
