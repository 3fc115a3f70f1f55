"""Read a plan from a value: of a planner, of a person who edits it, or in another notation. Reports all problems."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from holdfast.blueprint.core import core_of
from holdfast.blueprint.errors import BlueprintError, Problem, in_order
from holdfast.blueprint.expressions.texts import NoJson
from holdfast.blueprint.kinds import Agent, Plan, PlanBody
from holdfast.blueprint.load.files import parse, parse_document
from holdfast.blueprint.plan.document import INSIDE, path_in_plan
from holdfast.blueprint.plan.layout import Fault
from holdfast.blueprint.plan.notations import plan_in
from holdfast.blueprint.plan.recovery import from_text, recovered, without_envelope
from holdfast.blueprint.plan.tools import check_tools
from holdfast.blueprint.source import plain

_AUTHORS = ("from", "confirm", "max_revisions")
"""Keys that only the author of a blueprint may write."""
_OWN = ("agent", "language", "max_parallel", "fail_fast")
"""Keys by which the author overrules the plan."""
_STANDS_IN = {"model": "echo"}
FILE = "plan"
LONGEST = 256 * 1024
"""Characters: a workflow reads a plan that a person edits three times at once, and has two seconds for all of it."""


def read_plan(
    value: Any,
    author: PlanBody,
    agents: Mapping[str, Agent],
    *,
    changing: bool = False,
    by_model: bool = False,
    goal: str = "",
    tools: bool = True,
) -> PlanBody:
    """The plan in a value, with what its author says of it; `agents` are those that it may name.

    Where the author has said how fast it goes, that counts; one who is `changing` the plan is told so. What was written
    `by_model` may have notes of the model's own, or be a list of steps for the `goal`.

    Without `tools` it is not asked which tools the plan may use: that takes the author's own plan.

    Raises `BlueprintError` with every problem, each by its path in the plan.
    """
    document = _without_own_agents(_object(value, by_model, goal), author)
    problems = [*_not_allowed(document, author), *_agents_written_in(document)]
    problems += _overruled(document, author) if changing else []
    text = json.dumps(
        {
            "agents": {name: _STANDS_IN for name in agents},
            "steps": [{"kind": "plan", "name": "plan", "plan": _without(document, *_AUTHORS)}],
        },
        ensure_ascii=False,
    )
    if len(text) > LONGEST:
        told = f"the plan has {len(text):,} characters, more than {LONGEST:,}"
        raise BlueprintError([Problem(FILE, 0, 0, "", "bad_value", told, "keep long texts in the context or in files")])
    parsed = parse(text, file=FILE)
    problems += [
        replace(one, line=0, column=0, path=path_in_plan(one.path)) for one in parsed.problems if _is_ours(one)
    ]
    if parsed.blueprint is None or problems:
        raise BlueprintError(problems)
    [step] = parsed.blueprint.steps
    assert isinstance(step, Plan)
    plan = _with_author(step.plan, author)
    if tools and (lacking := problems_of(check_tools(plan, author, agents))):
        raise BlueprintError(lacking)
    return plan


def imported(text: str, *, goal: str | None = None, file: str = "<text>") -> dict[str, Any]:
    """Return the plan that a text in another planner's notation means, as it is written in JSON.

    Without a goal it has that of the text, if any. Raises `BlueprintError` with every problem, at its place.

    >>> imported('1. search("tea")\\n2. sum_up($1)', goal="Tea")["steps"][1]
    {'id': '2', 'instruction': 'Call sum_up with: RESULT_FROM_1', 'tools': ['sum_up'], 'dependencies': ['1']}
    """
    document = plan_in(text, goal, file)
    if problems := parse_document(document).problems:
        raise BlueprintError(in_order(problems))
    found: dict[str, Any] = plain(document)
    return found


def problems_of(faults: Iterable[Fault]) -> list[Problem]:
    """Return what is wrong with a plan that stands in no file."""
    return [Problem(FILE, 0, 0, fault.path, fault.code, fault.message, fault.hint) for fault in faults]


def plain_plan(plan: PlanBody) -> dict[str, Any]:
    """The plan as it is written in JSON, for people and models: without agents that are written in it."""
    shown = _without(core_of(plan), *_AUTHORS, "agent", "driver")
    for step in shown.get("steps", []):
        if isinstance(step.get("agent"), dict):
            del step["agent"]
    return shown


def _with_author(plan: PlanBody, author: PlanBody) -> PlanBody:
    """What the author has written of agent, driver and speed counts; the plan may say the rest."""
    written = {step.id: step.agent for step in author.steps if isinstance(step.agent, Agent)}
    steps = [
        step.model_copy(update={"agent": written[step.id]}) if step.agent is None and step.id in written else step
        for step in plan.steps
    ]
    return plan.model_copy(update={**_own(author), "driver": author.driver, "steps": steps})


def _own(author: PlanBody) -> dict[str, Any]:
    """What the author has said of the whole plan."""
    return {key: value for key, value in author.__dict__.items() if key in _OWN and key in author.model_fields_set}


def _object(value: Any, by_model: bool, goal: str) -> dict[str, Any]:
    if isinstance(value, str):
        try:
            value = from_text(value)
        except NoJson as error:
            raise BlueprintError(
                [_problem("", "bad_value", f"no plan: this is no JSON ({error})", "give one JSON object")]
            ) from None
    value = recovered(value, goal) if by_model else without_envelope(value)
    if not isinstance(value, dict):
        what = "a list" if isinstance(value, list) else json.dumps(value)[:60]
        hint = 'give an object: {"goal": …, "steps": […], "loop_blocks": {…}}'
        raise BlueprintError([_problem("", "bad_value", f"a plan is an object, not {what}", hint)])
    return value


def _without_own_agents(document: dict[str, Any], author: PlanBody) -> dict[str, Any]:
    """The plan without the agents that the author wrote in it, where they are named as there: they stay anyway."""
    steps = {step.id: step for step in author.steps}
    own = _without(document, "agent") if _is_named(document.get("agent"), author.agent) else document
    if not isinstance(own.get("steps"), list):
        return own
    written = [
        _without(step, "agent")
        if isinstance(step, dict)
        and (before := steps.get(str(step.get("id")))) is not None
        and _is_named(step.get("agent"), before.agent)
        else step
        for step in own["steps"]
    ]
    return {**own, "steps": written}


def _is_named(written: Any, agent: str | Agent | None) -> bool:
    """Whether a text names the model of an agent; of a script that lies in a folder, as its file says it."""
    if not isinstance(written, str) or not isinstance(agent, Agent):
        return False
    kind, _, name = written.partition(":")
    return written == agent.model or (agent.model.startswith(f"{kind}:") and agent.model.endswith(f"/{name}"))


def _not_allowed(document: dict[str, Any], author: PlanBody) -> Iterable[Problem]:
    for key in _AUTHORS:
        if document.get(key):
            yield _problem(key, "conflict", f"{key!r} is said in the blueprint, not in a plan", "leave it out")
    if document.get("driver") not in (None, author.driver):
        told = f"who drives the plan is said in the blueprint ({author.driver})"
        yield _problem("driver", "conflict", told, "leave it out")


def _overruled(document: dict[str, Any], author: PlanBody) -> Iterable[Problem]:
    for key, said in _own(author).items():
        if key in document and document[key] != said and not isinstance(said, Agent):
            told = f"{key!r} is said in the blueprint ({said}), and counts"
            yield _problem(key, "conflict", told, "leave it out")


def _agents_written_in(document: dict[str, Any]) -> Iterable[Problem]:
    """A plan that was not written by the author names agents: one of its own could send data anywhere."""
    steps = document.get("steps")
    holders = [("", document)]
    holders += [(f"steps[{n}].", step) for n, step in enumerate(steps if isinstance(steps, list) else [])]
    for path, holder in holders:
        if isinstance(holder, dict) and isinstance(holder.get("agent"), dict):
            told = "a plan that is read may only name agents of the blueprint"
            yield _problem(f"{path}agent", "conflict", told, "write its name")


def _is_ours(problem: Problem) -> bool:
    return problem.path.startswith(INSIDE) or not problem.path


def _problem(path: str, code: str, message: str, hint: str) -> Problem:
    return Problem(FILE, 0, 0, path, code, message, hint)


def _without(document: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key not in keys}
