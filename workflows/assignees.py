"""The people whom a step asks: its assignees and escalation rungs, rendered in the step's frame."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds import AskingStep, Step
from holdfast.blueprint.kinds.hitl_fields import HitlFields
from holdfast.blueprint.kinds.question_times import QuestionTimes
from holdfast.blueprint.people import REQUESTER, canonical_name, is_person
from holdfast.blueprint.questions import brief
from holdfast.protocol.people import People, Rung, read_user, say_unreachable
from holdfast.workflows.failures import failure
from holdfast.workflows.frame import Frame
from holdfast.workflows.template_values import render_quorum, render_rungs, render_times


def render_people(step: HitlFields, frame: Frame) -> tuple[People, QuestionTimes]:
    """Return who may answer a step, and when. The frame is the one in which its message is rendered."""
    times = render_times(step, rungs := render_rungs(step, frame), frame)
    assignees = _render_assignees(step.assignees, step, frame)
    not_by = [
        _read_requester(step, frame) if name == REQUESTER else name
        for name in _render_names("not_by", step.not_by, step, frame)
    ]
    ladder = [
        Rung(after=after, assignees=_render_assignees(rung.assignees, step, frame, f"escalate[{index}].assignees"))
        for index, (rung, after) in enumerate(zip(step.escalate, rungs, strict=True))
    ]
    people = People(
        assignees=assignees,
        not_by=not_by,
        quorum=render_quorum(step, frame),
        proof=step.proof,
        remind_every=times.remind_every,
        ladder=ladder,
        notify=None if step.notify is True else step.notify or [],
    )
    if problem := say_unreachable(people):  # it would be asked for ever
        raise failure("bad_quorum", f"quorum of {step.name}: {problem}", frame.address)
    return people, times


def render_asked_people(step: AskingStep, frame: Frame) -> People:
    """Return who may answer what is asked while a step runs."""
    return People(assignees=_render_assignees(step.assignees, step, frame)) if step.assignees != [] else frame.people


def render_reviewers(step: Step, frame: Frame) -> People:
    """Return who may decide about a failure of the step: those whom it asks, as they could give its output, too."""
    match step:
        case HitlFields():
            return render_people(step, frame)[0]
        case AskingStep():
            return render_asked_people(step, frame)
    return frame.people


def _render_assignees(named: Sequence[str] | str, step: Step, frame: Frame, key: str = "assignees") -> list[str]:
    assignees = [] if named == [] else _render_names(key, named, step, frame)
    if named != [] and not assignees:
        message = f"{key} of {step.name} are an empty list, so nobody could answer"
        raise failure("bad_assignees", message, frame.address)
    return assignees


def _render_names(key: str, value: Sequence[str] | str, step: Step, frame: Frame) -> list[str]:
    """Return users and groups, each once; any other name fails the step, as nobody would ever answer.

    An entry may give several, such as those who made up a quorum. One that gives nobody fails the step: without it the
    question would be open to more people than its author wrote.
    """
    names: list[JSON] = []
    for index, entry in enumerate([value] if isinstance(value, str) else value):
        rendered = frame.render(entry)
        place = key if isinstance(value, str) else f"{key}[{index}]"
        if rendered in (None, "") or (rendered == [] and not isinstance(value, str)):
            message = f"{place} of {step.name}, {entry}, gives nobody: it is {brief(rendered)}"
            raise failure("bad_assignees", message, frame.address)
        names += rendered if isinstance(rendered, list) else [rendered]
    for name in names:
        if not (isinstance(name, str) and (is_person(name) or (key == "not_by" and name == REQUESTER))):
            message = f"{key} of {step.name}: {brief(name)} is neither user:NAME nor group:NAME"
            raise failure("bad_assignees", message, frame.address)
    return list(dict.fromkeys(map(canonical_name, names)))


def _read_requester(step: HitlFields, frame: Frame) -> str:
    """Return who started the run. If that is unknown, the step fails: nobody could be kept from their own request."""
    if (user := read_user(frame.host.identity.started_by)) is None:
        message = f"not_by of {step.name} names the requester, but it is not known who started this run"
        raise failure("requester_unknown", f"{message}; start it with started_by, or --by", frame.address)
    return user
