"""A command loads what it needs and no more: its start is most of what it costs."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from holdfast.blueprint.kinds import Step
from holdfast.blueprint.parts import Part
from holdfast.blueprint.questions import Asked
from holdfast.protocol.events import EventData

LANGUAGE = (
    "holdfast.blueprint.load",
    "holdfast.blueprint.check",
    "holdfast.blueprint.plan",
    "holdfast.blueprint.explain",
)
HEAVY = (
    "holdfast.blueprint.kinds",
    "holdfast.protocol.runs",
    "holdfast.protocol.children",
    "holdfast.protocol.events",
    "jinja2",
    "yaml",
    "cryptography",
)
"""What a command may load only where it shows a step or an event, or starts a run."""
SERVING = ("holdfast.server", "sqlalchemy", "starlette", "prompt_toolkit")
STEERING = ("holdfast.client.facets.control", "holdfast.client.facets.assignment", "holdfast.protocol.assignment")
ENGINE = ("temporalio", "grpc", "holdfast.client.runs")
BLUEPRINT = "name: ask\nsteps: [{kind: hitl, name: go, message: Go on?}]\n"
PROGRAM = """
import sys
from holdfast.cli.app import import_commands, run_command
name, *words = sys.argv[1:]
if name:
    import_commands(name)
if words or name == "schema":
    assert run_command([name, *words] if name else words) == 0
print(*sys.modules, sep="\\n", file=sys.stderr)
"""


@cache
def read_loaded(folder: Path | None, *words: str) -> set[str]:
    """Return the modules that a process has loaded after a command; with its name alone after its import."""
    command = [sys.executable, "-c", PROGRAM, *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


@pytest.mark.parametrize(
    "words",
    [
        "validate ask.yaml",
        "explain ask.yaml",
        "graph ask.yaml",
        "schema",
        "create new --template revise_text",
    ],
)
@pytest.mark.first_row
def test_a_command_about_a_file_loads_no_client(words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TEMPORAL_ADDRESS", raising=False)
    (tmp_path / "ask.yaml").write_text(BLUEPRINT)
    loaded = read_loaded(tmp_path, *words.split())
    assert loaded.isdisjoint({*ENGINE, *SERVING})


@pytest.mark.parametrize("name", ["answer", "questions", "runs", "pause", "history", "claim"])
@pytest.mark.slow
def test_a_command_about_a_run_loads_no_language_and_no_server(name: str) -> None:
    assert read_loaded(None, name).isdisjoint({*LANGUAGE, *SERVING})


@pytest.mark.parametrize(
    "name", ["answer", "questions", "runs", "result", "pause", "resume", "cancel", "send", "claim"]
)
@pytest.mark.first_row
def test_a_command_that_shows_no_step_loads_neither_kinds_nor_events(name: str) -> None:
    assert read_loaded(None, name).isdisjoint(HEAVY)


def read_modules(*names: str) -> set[str]:
    """Return the modules that a process has loaded once it has imported these."""
    program = f"import sys, {', '.join(names)}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    return set(done.stdout.split())


@pytest.mark.slow
def test_who_reads_a_history_loads_no_language() -> None:
    loaded = read_modules("holdfast.cli.history", "holdfast.cli.record")
    assert loaded.isdisjoint({*LANGUAGE, "holdfast.blueprint.kinds", "jinja2", "yaml"})


@pytest.mark.slow
@pytest.mark.parametrize("name", ["show", "follow"])
@pytest.mark.first_row
def test_a_command_that_shows_a_run_loads_no_kinds(name: str) -> None:
    assert read_loaded(None, name).isdisjoint({*LANGUAGE, *HEAVY} - {"holdfast.protocol.events"})


def test_who_starts_a_run_loads_neither_prompts_nor_events_nor_plans_nor_what_workflows_give_each_other() -> None:
    attending = {"rich.console", "holdfast.cli.prompts", "holdfast.protocol.events", "holdfast.client.trace"}
    running = {"holdfast.protocol.children", "holdfast.protocol.agents", "holdfast.blueprint.plan.compile"}
    assert read_modules("holdfast.cli.start", "holdfast.client.starting").isdisjoint({*attending, *running, *STEERING})


@pytest.mark.parametrize("words", ["--version", "--help"])
@pytest.mark.first_row
def test_what_needs_no_command_loads_none(words: str) -> None:
    loaded = read_loaded(None, "", words)
    assert loaded.isdisjoint({*ENGINE, *SERVING, *HEAVY, "pydantic", "asyncio"})


@pytest.mark.slow
def test_who_reads_the_record_loads_no_migrations() -> None:
    assert "alembic" not in read_modules("holdfast.server.record.record")


def test_bases_of_many_models_write_their_class_variables_as_types() -> None:
    for base in (EventData, Part, Step, Asked):  # texts would be evaluated again for each model derived from them
        assert [type(hint) for hint in base.__annotations__.values() if isinstance(hint, str)] == []


def test_a_command_that_is_given_an_answer_loads_what_that_needs() -> None:
    asking = {"rich", "holdfast.cli.prompts", "holdfast.cli.offer", "holdfast.client.views"}
    assert read_loaded(None, "answer").isdisjoint({*asking, "holdfast.protocol.activity_request"})
