"""The workflow classes: how deep they are, what they take, and that nothing is registered at run time."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from temporalio import workflow

from benchmarks.measure import nodes_of
from holdfast.workflows import WORKFLOWS, HumanInTheLoop
from holdfast.workflows.handlers.forwarders import list_handlers
from holdfast.workflows.lookup import LookUpWorkflow
from holdfast.workflows.run import RunWorkflow

ROOM = Path(__file__).parent.parent.parent / "workflows"


def count_levels(class_: type) -> int:
    return 0 if class_ is object else 1 + max(map(count_levels, class_.__bases__))


@pytest.mark.parametrize("class_", [*WORKFLOWS, HumanInTheLoop], ids=lambda class_: class_.__name__)
def test_a_workflow_class_has_three_levels_at_most(class_: type) -> None:
    assert count_levels(class_) <= 3


@pytest.mark.parametrize("class_", [one for one in WORKFLOWS if one is not LookUpWorkflow])
def test_every_workflow_of_a_run_takes_the_same_messages(class_: type) -> None:
    taken = {handler.takes for handler in list_handlers(class_)}
    assert taken >= {handler.takes for handler in list_handlers(RunWorkflow)}


def test_every_update_says_what_it_is_for() -> None:
    """Temporal's UI shows it."""
    silent = [handler for handler in list_handlers(RunWorkflow) if handler.kind != "signal"]
    assert [handler.takes for handler in silent if not handler.definition.description] == []


@pytest.mark.slow
def test_no_handler_is_set_at_run_time() -> None:
    """Such a handler gets what comes with a history's first task in another order, and has no description."""
    setters = {name for name in dir(workflow) if name.startswith("set_") and name.endswith("_handler")}
    calls = [
        (path.name, node.lineno)
        for path in sorted(ROOM.rglob("*.py"))
        for node in nodes_of(path)
        if isinstance(node, ast.Attribute) and node.attr in setters
    ]
    assert setters and calls == []
