"""Blueprints that an author's workflow runs without having written them: of one agent, and of a loop."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from pydantic import BaseModel, ValidationError
from temporalio.exceptions import ApplicationError

from holdfast.blueprint.expressions.error import ExpressionError
from holdfast.blueprint.expressions.evaluation import check_expression
from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds import AnyStep, Blueprint, Loop, LoopBlock, PlainStep
from holdfast.blueprint.model_problems import describe_problem
from holdfast.protocol.address import Address
from holdfast.workflows.failures import failure

if TYPE_CHECKING:
    from holdfast.blueprint.build.agents import NamedAgent


class LoopEnd(TypedDict, total=False):
    """When a loop ends; see docs/loops.md."""

    until: str
    """The exit: an expression, tested after each iteration."""
    max_loops: int
    """The most iterations."""
    on_max_loops: Literal["fail", "finish", "ask"]
    checkpoint_every: int
    """Iterations in one history at most."""


def wrap_agent(agent: NamedAgent[Any], name: str, address: Address) -> Blueprint:
    """Return the blueprint of one step, in which the agent works on the run's input. Raises a failure for the name."""
    agents = {each.name: each.definition for each in agent.family.values()}
    try:
        return Blueprint(name=name, agents=agents, steps=[PlainStep(kind="step", name=name, agent=agent.name)])
    except ValidationError as error:
        raise _refuse(error, f"the name {name!r}", address) from None


def wrap_loop(body: Blueprint, name: str, end: LoopEnd, address: Address) -> Blueprint:
    """Return the blueprint whose one step repeats the steps of another. Raises a failure for an end that is none."""
    if not {"until", "max_loops"} & set(end):
        raise failure("bad_loop", f"the loop {name!r} has no end: give `until` or `max_loops`", address)
    keys: dict[str, Any] = dict(end)
    until = keys.pop("until", None)
    try:
        if until is not None:
            check_expression(until)
        block = LoopBlock(body=_list_steps(body), exit_expression=until, max_parallel=body.max_parallel, **keys)
        loop = Loop(kind="loop", name=name, loop=block)
    except ValidationError as error:
        raise _refuse(error, f"the loop {name!r}", address) from None
    except ExpressionError as error:
        raise failure("bad_loop", f"the loop {name!r}: until: {error}", address) from None
    return body.model_copy(update={"name": name, "steps": [loop], "output": None, "max_parallel": None})


def _list_steps(body: Blueprint) -> list[AnyStep]:
    """Return the steps of a blueprint, with its output as the last one, if it says one."""
    if body.output is None:
        return body.steps
    taken = {step.name for step in body.steps}
    name = next(name for n in count(1) if (name := "output" if n == 1 else f"output-{n}") not in taken)
    return [*body.steps, PlainStep(kind="step", name=name, input=body.output)]


def read_output(model: type[BaseModel] | None, output: JSON, address: Address) -> Any:
    """Return an output as its model has it, if there is one. Raises a failure if it breaks a rule of the model."""
    if model is None:
        return output
    try:
        return model.model_validate(output)
    except ValidationError as error:
        text = f"the output is no {model.__name__}: {describe_problem(error)}"
        raise failure("output_invalid", text, address, output=output) from None


def _refuse(error: ValidationError, what: str, address: Address) -> ApplicationError:
    return failure("bad_value", f"{what}: {describe_problem(error)}", address)
