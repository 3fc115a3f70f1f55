"""What a model refuses, in words for people: pydantic's own speak of Python."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, Field, ValidationError, field_validator

from holdfast.blueprint.model_problems import describe_problem
from holdfast.client.tree import UnknownRun
from holdfast.runtime.errors import RunExists
from holdfast.server.web.problems import Unfit, make_problem
from holdfast.server.web.requests import validate


class Form(BaseModel):
    """A body with a rule that no schema says."""

    answers: list[str] = Field(["a"], min_length=1)
    wait: float = 1
    title: str = ""
    n: int = 2

    @field_validator("n")
    @classmethod
    def _even(cls, n: int) -> int:
        if n % 2:
            raise ValueError("must be even")
        return n


def test_a_caller_of_the_api_is_told_no_command() -> None:
    for error in (UnknownRun("r"), RunExists("r")):
        told = make_problem(error).message
        assert "'r'" in told
        assert "holdfast" not in told and "--id" not in told


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"answers": []}, "answers: must not be empty"),
        ({"wait": "soon"}, "wait: must be a number"),
        ({"title": 3}, "title: must be a text"),
        ({"answers": 3}, "answers: must be a list"),
        ({"n": 3}, "n: must be even"),
    ],
)
def test_a_refusal_is_in_plain_words(given: dict[str, object], told: str) -> None:
    with pytest.raises(ValidationError) as refused:
        Form.model_validate(given)
    assert describe_problem(refused.value) == told
    with pytest.raises(Unfit, match=told):
        validate(Form, given)
