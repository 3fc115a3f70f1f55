"""Read a plan from a value, of a planner or of a person who edits it. Reports all problems."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace

from holdfast.blueprint.core import write_core
from holdfast.blueprint.errors import BlueprintError, Problem
from holdfast.blueprint.expressions.texts import NoJson
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.kinds import Agent, Plan, PlanBody
from holdfast.blueprint.load.files import parse
from holdfast.blueprint.plan.document import ASSIGNEES, INSIDE, path_in_plan
from holdfast.blueprint.plan.layout import Fault
from holdfast.blueprint.plan.recovery import from_text, mistakes_in, recover_plan, without_envelope
from holdfast.blueprint.plan.text_lists import WAY_OUT, describe_look, read_instructions
from holdfast.blueprint.plan.tools import check_tools

_AUTHORS = ("from", "confirm", "max_revisions", "max_replans", "done", ASSIGNEES)
"""Keys that only the author of a blueprint may write."""
_OVERRULING = ("agent", "language", "max_parallel", "fail_fast")
"""Keys by which the author overrules the plan."""
_STAND_IN = {"model": "echo"}
FILE = "plan"
LONGEST = 256 * 1024
"""Characters: a workflow reads a plan that a person edits three times at once, and has two seconds for all of it."""


def read_plan(
    value: JSON,
    author: PlanBody,
    agents: Mapping[str, Agent],
    *,
    current: PlanBody | None = None,
    by_model: bool = False,
    goal: str = "",
    tools: bool = True,
) -> PlanBody:
    """Return the plan in a value. Raises `BlueprintError` with every problem, each by its path in the plan.

    Args:
        value: the plan, as an object or as a text with JSON in it.
        author: the plan as its step holds it; its agent, driver and speed overrule the plan.
        agents: the agents that the plan may name.
        current: for a change of a plan, the plan as it is; then an overruled key is a problem.
        by_model: True for a plan of a model, which may hold notes, or be a list of steps for the `goal`.
        tools: False if the author's own plan is not known, so that its tools cannot be checked.
    """
    document = _without_written_agents(_object_in(value, by_model, goal), author)
    assigned = _list_assignees(author, current if by_model else None)
    problems = [*_check_reserved(document, author), *_written_agents(document)]
    problems += _check_reassigned(document, assigned, by_model=by_model)
    if by_model and current is None:  # a step that has begun may well be said to be done
        problems += [_problem(path, "bad_value", message, hint) for path, message, hint in mistakes_in(document)]
    problems += [] if current is None else _check_overruled(document, author)
    # As a blueprint, for the same rules and the same words: what a model writes is checked like what an author writes.
    parsed = parse(_as_blueprint(document, agents), file=FILE)
    problems += [
        replace(problem, line=0, column=0, path=path_in_plan(problem.path))
        for problem in parsed.problems
        if problem.path.startswith(INSIDE) or not problem.path
    ]
    if parsed.blueprint is None or problems:
        raise BlueprintError(problems if current is None else [_tell_removed(problem, current) for problem in problems])
    [step] = parsed.blueprint.steps
    assert isinstance(step, Plan)
    plan = _with_author(step.plan, author, assigned)
    if tools and (lacking := list_problems(check_tools(plan, author, agents))):
        raise BlueprintError(lacking)
    return plan


def _tell_removed(problem: Problem, current: PlanBody) -> Problem:
    """Return the problem, with its way out if what it lacks is a step or a loop that the change has removed."""
    names = [repr(step.id) for step in current.steps] + [repr(name) for name in current.loop_blocks]
    if problem.code != "unknown_name" or not any(problem.message.endswith(f" {name}") for name in names):
        return problem
    return replace(problem, hint="the change removes it; put it back: what has begun, or is named here, must stay")


def _as_blueprint(document: JSONObject, agents: Mapping[str, Agent]) -> str:
    """Return a blueprint that runs the plan, as JSON. Raises `BlueprintError` if it is too long."""
    text = json.dumps(
        {
            "agents": {name: _STAND_IN for name in agents},
            "steps": [{"kind": "plan", "name": "plan", "plan": _with_ids(_without(document, *_AUTHORS))}],
        },
        ensure_ascii=False,
    )
    if len(text) > LONGEST:
        message = f"the plan has {len(text):,} characters, more than {LONGEST:,}"
        raise BlueprintError([_problem("", "bad_value", message, "keep long texts in the context or in files")])
    return text


def _with_ids(document: JSONObject) -> JSONObject:
    """Return the plan with an empty id for each step that has none, so that the problems of all steps are found."""
    steps = document.get("steps")
    if not isinstance(steps, list):
        return document
    return {**document, "steps": [{"id": "", **step} if isinstance(step, dict) else step for step in steps]}


def list_problems(faults: Iterable[Fault]) -> list[Problem]:
    """Return the problems of a plan that is in no file."""
    return [_problem(*fault) for fault in faults]


def plain_plan(plan: PlanBody) -> JSONObject:
    """Return the plan as it is written in JSON, for people and models: without agents that are written in it."""
    document = _without(write_core(plan), *_AUTHORS, "agent", "driver")
    for step in document.get("steps", []):
        if isinstance(step.get("agent"), dict):
            del step["agent"]
    return document


def _with_author(plan: PlanBody, author: PlanBody, assigned: Mapping[str, list[str]]) -> PlanBody:
    """Return the plan with the author's agent, driver and speed, and with what the author wrote in its steps."""
    agents = {step.id: step.agent for step in author.steps if isinstance(step.agent, Agent)}
    steps = [
        step.model_copy(update={"agent": agents[step.id]}) if step.agent is None and step.id in agents else step
        for step in plan.steps
    ]
    steps = [step.model_copy(update={ASSIGNEES: assigned[step.id]}) if step.id in assigned else step for step in steps]
    return plan.model_copy(update={**_pick_overruling(author), "driver": author.driver, "steps": steps})


def _pick_overruling(author: PlanBody) -> JSONObject:
    return {
        key: value for key, value in author.__dict__.items() if key in _OVERRULING and key in author.model_fields_set
    }


def _object_in(value: JSON, by_model: bool, goal: str) -> JSONObject:
    if isinstance(value, str):
        try:
            value = from_text(value)
        except NoJson as error:
            if (instructions := read_instructions(value)) is None:
                message = f"not a plan: this is not JSON ({error}), but looks like {describe_look(value)}"
                raise BlueprintError([_problem("", "bad_value", message, WAY_OUT)]) from None
            value = [*instructions]
    value = recover_plan(value, goal) if by_model else without_envelope(value)
    if not isinstance(value, dict):
        message = f"not a plan: this looks like {describe_look(value)}"
        raise BlueprintError([_problem("", "bad_value", message, WAY_OUT)])
    return value


def _without_written_agents(document: JSONObject, author: PlanBody) -> JSONObject:
    """Return the plan without names of agents that the author wrote in it: `_with_author` puts these back."""
    agents = {step.id: step.agent for step in author.steps}

    def without(holder: JSON, agent: str | Agent | None) -> JSON:
        return _without(holder, "agent") if _names(holder.get("agent"), agent) else holder

    plan: JSONObject = without(document, author.agent)
    if not isinstance(plan.get("steps"), list):
        return plan
    steps = [
        without(step, agents.get(str(step.get("id")))) if isinstance(step, dict) else step for step in plan["steps"]
    ]
    return {**plan, "steps": steps}


def _names(reference: JSON, agent: str | Agent | None) -> bool:
    """Return whether a text names the model of an agent; a script in a folder by its file's name."""
    if not isinstance(reference, str) or not isinstance(agent, Agent):
        return False
    kind, _, name = reference.partition(":")
    return reference == agent.title or (agent.model.startswith(f"{kind}:") and agent.model.endswith(f"/{name}"))


def _check_reserved(document: JSONObject, author: PlanBody) -> Iterable[Problem]:
    """Yield the keys that only the author of a blueprint may write."""
    for key in _AUTHORS:
        if document.get(key):
            yield _problem(key, "conflict", f"{key!r} belongs in the blueprint, not in a plan", "remove it")
    if document.get("driver") not in (None, author.driver):
        message = f"the blueprint decides who drives the plan ({author.driver})"
        yield _problem("driver", "conflict", message, "remove it")


def _check_overruled(document: JSONObject, author: PlanBody) -> Iterable[Problem]:
    for key, value in _pick_overruling(author).items():
        if key in document and document[key] != value and not isinstance(value, Agent):
            yield _problem(key, "conflict", f"{key!r} is set in the blueprint ({value}), which counts", "remove it")


def _list_assignees(author: PlanBody, current: PlanBody | None) -> dict[str, list[str]]:
    """Return the assignees that stay, by the id of the step: the author's, and for a model those of the plan as it is.

    Whoever could change them could have themselves asked, and agree.
    """
    plans = [author] if current is None else [current, author]
    return {step.id: step.assignees for plan in plans for step in plan.steps if step.assignees}


def _check_reassigned(document: JSONObject, assigned: Mapping[str, list[str]], *, by_model: bool) -> Iterable[Problem]:
    steps = document.get("steps")
    for index, step in enumerate(steps if isinstance(steps, list) else []):
        named = step.get(ASSIGNEES) if isinstance(step, dict) else None
        id_ = str(step.get("id")) if named else ""
        if named and named != assigned.get(id_) and (by_model or id_ in assigned):
            whose = "the blueprint" if id_ in assigned else "a person"
            message = f"{whose} decides who is asked, which cannot be changed here"
            yield _problem(f"steps[{index}].{ASSIGNEES}", "conflict", message, "remove it")


def _written_agents(document: JSONObject) -> Iterable[Problem]:
    """Yield agents that are written in a plan that is read: one of its own could send data anywhere."""
    steps = document.get("steps")
    holders = [("", document)]
    holders += [(f"steps[{index}].", step) for index, step in enumerate(steps if isinstance(steps, list) else [])]
    for path, holder in holders:
        if isinstance(holder, dict) and isinstance(holder.get("agent"), dict):
            message = "a plan that is read may only name agents of the blueprint"
            yield _problem(f"{path}agent", "conflict", message, "write its name")


def _problem(path: str, code: str, message: str, hint: str | None) -> Problem:
    return Problem(FILE, 0, 0, path, code, message, hint)


def _without(document: JSONObject, *keys: str) -> JSONObject:
    return {key: value for key, value in document.items() if key not in keys}
