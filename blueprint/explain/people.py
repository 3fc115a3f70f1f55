"""Questions in plain words: who is asked what, which answers there are, by when, and what happens otherwise."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from blueprint.explain.schemas import form
from blueprint.explain.words import Names, bare, constant, ended, filled, lasting, listed, one_line, value
from blueprint.grammar import Hitl, Option
from blueprint.people import GROUP, REQUESTER, USER

PREVIOUS = "{{ previous_step }}"


RESCUE = ("retry", "edit", "skip", "abort")
"""What a person may say of a failure."""


@dataclass(frozen=True)
class Ask:
    """One question that a run may ask; `step` and `at` say where it stands in the explanation."""

    kind: str
    message: str | None = None
    """In words; None where only the run knows."""
    choices: tuple[str, ...] = ()
    who: tuple[str, ...] = ("anyone",)
    quorum: int = 1
    by: float | None = None
    """Seconds from the moment of asking."""
    on_timeout: str | None = None
    on_decline: str | None = "fail"
    remind_every: float | None = None
    step: str = ""
    at: str = ""

    def standing(self, step: str, at: str) -> Ask:
        return replace(self, step=step, at=at)

    def to_json(self) -> dict[str, Any]:
        told = asdict(self)
        return {"step": told.pop("step"), "at": told.pop("at"), **told}


def ask_of(step: Hitl, names: Names) -> Ask:
    """The question of a `hitl` step, for programs."""
    by, on_timeout = deadline(step)
    return Ask(
        step.ask,
        None if step.ask == "hold" else bare(step.message, _asked_of(step, names)),
        tuple(option.id for option in step.options) if isinstance(step.options, list) else (),
        tuple(step.assignees) or ("anyone",)
        if isinstance(step.assignees, list)
        else (value_of(step.assignees, names),),
        step.quorum,
        by,
        on_timeout,
        {"permission": "denied", "review": "rejected", "hold": "abort"}.get(step.ask, step.on_decline),
        step.remind_every,
    )


def deadline(step: Hitl) -> tuple[float | None, str | None]:
    """When the question ends if nobody answers, and what happens then.

    With a ladder, a `timeout` that is not behind its last rung only says when the climbing begins.
    """
    if step.timeout is None or (step.escalate and step.timeout <= step.escalate[-1].after):
        return None, "escalate" if step.escalate else None
    if step.on_timeout == "escalate":
        return step.timeout, "fail" if step.default is None else "default"
    return step.timeout, step.on_timeout or "fail"


def _named(people: list[str] | str, names: Names) -> tuple[str, ...]:
    return (value_of(people, names),) if isinstance(people, str) else tuple(people)


def asked(step: Hitl, names: Names) -> str:
    """What a `hitl` step does."""
    said = [_asks(step, names), _choices(step, names), _agreement(step), *_deadline(step, names), _declined(step)]
    return " ".join(sentence for sentence in said if sentence)


def _message(step: Hitl, names: Names) -> str:
    return filled(step.message, _asked_of(step, names))


def _asked_of(step: Hitl, names: Names) -> Names:
    """The names in a question, behind its input."""
    return names.after(filled(step.input, names))


def _asks(step: Hitl, names: Names) -> str:
    who, message = _who(step, names), _message(step, names)
    match step.ask:
        case "hold":
            return f"waits until {who} lets the run go on."
        case "permission":
            return f"asks {who} for an explicit yes: {ended(message)}"
        case "review":
            shown = filled(step.input, names)
            told = "." if step.message == PREVIOUS or message == shown else f": {ended(message)}"
            like = f" It must stay {form(step.input_schema)}." if step.input_schema else ""
            return f"shows {shown} to {who}, who may change or reject it{told}{like}"
        case "secret":
            wanted = "a secret" if step.input_schema is None else _secrets(step.input_schema)
            return f"asks {who} for {wanted}, to be seen by tools alone: {ended(message)}"
        case "clarification":
            return f"asks {who}: {ended(message)}"
    if step.options:
        return f"asks {who} to choose{_several(step)}: {ended(message)}"
    wanted = "text" if step.input_schema is None else form(step.input_schema)
    return f"asks {who} for {wanted}: {ended(message)}"


def _secrets(schema: dict[str, Any]) -> str:
    """
    >>> _secrets({"required": ["KEY"], "properties": {"KEY": {}, "ID": {}}})
    'the secrets KEY and ID (optional)'
    """
    needed, names = schema.get("required", []), schema["properties"]
    told = [one_line(name, 60) + ("" if name in needed else " (optional)") for name in names]
    return f"the secret{'s' if len(told) > 1 else ''} {listed(told)}"


def _several(step: Hitl) -> str:
    match step.multiple:
        case True:
            return " one or more"
        case int(most) if most > 1:
            return f" up to {most}"
    return ""


def _choices(step: Hitl, names: Names) -> str:
    if not step.options:
        return ""
    if isinstance(step.options, str):
        offered = value_of(step.options, names)
    else:
        offered = listed([_option(option, names) for option in step.options], "or")
    own = step.ask == "clarification" if step.allow_custom is None else step.allow_custom
    word = "Suggestions" if step.ask == "clarification" and own else "Choices"
    return f"{word}: {offered}{'; or own words' if own else ''}."


def _option(option: Option, names: Names) -> str:
    """An option with what it means, and what speaks for or against it.

    >>> _option(Option(id="pay", label="Pay it", risk="Gone", recommended=True), Names({}))
    'pay (Pay it; recommended; risk: Gone)'
    """
    label = [bare(option.label, names)] if option.label and option.label != option.id else []
    about = [bare(option.description, names)] if option.description else []
    weights = {"risk": option.risk, "cost": option.cost, "time": option.time}
    notes = [f"{name}: {one_line(text, 60)}" for name, text in weights.items() if text]
    risks = [f"risks: {one_line(', '.join(option.risks), 80)}"] if option.risks else []
    told = [*label, *about, *(["recommended"] if option.recommended else []), *notes, *risks]
    return one_line(option.id, 60) + (f" ({'; '.join(told)})" if told else "")


def _who(step: Hitl, names: Names) -> str:
    excluded = _people(step.not_by, names)
    but = f" (but not {excluded})" if excluded else ""
    return (_people(step.assignees, names) or "a person") + but


def _people(named: list[str] | str, names: Names) -> str:
    """
    >>> _people(["user:ana", "group:editors"], Names({})), _people([], Names({}))
    ('ana or somebody of editors', '')
    """
    if isinstance(named, str):
        return f"those whom {value_of(named, names)} names"
    return listed([person(one, names) for one in named], "or") if named else ""


def person(name: str, names: Names) -> str:
    """Somebody, as a person would say it."""
    if name == REQUESTER:
        return "who started the run"
    if name.startswith(GROUP):
        return f"somebody of {bare(name.removeprefix(GROUP), names)}"
    return bare(name.removeprefix(USER), names)


def _agreement(step: Hitl) -> str:
    if step.quorum == 1:
        return ""
    same = "choose the same" if step.options else "agree"
    return f"{step.quorum} different people must {same}."


def _deadline(step: Hitl, names: Names) -> list[str]:
    said = [f"Reminded every {_each(step.remind_every)}."] if step.remind_every is not None else []
    for rung in step.escalate:
        who = _people(rung.assignees, names)
        said.append(f"If nobody answers within {lasting(rung.after)}, {who} is asked instead.")
    by, then = deadline(step)
    return (
        [*said, f"If nobody answers within {lasting(by)}, {_expired(step, then, names)}."] if by is not None else said
    )


def _each(seconds: float) -> str:
    """
    >>> _each(3600), _each(5400)
    ('hour', '1 hour 30 minutes')
    """
    said = lasting(seconds)
    return said.removeprefix("1 ") if said.count(" ") == 1 else said


def _expired(step: Hitl, then: str | None, names: Names) -> str:
    match then:
        case "default" | "skip" if step.ask == "hold":
            return "the run goes on"
        case "default":
            given = step.default
            taken = constant(given) if isinstance(given, str) and "{" not in given else filled(given, names)
            return f"the answer is {taken}"
        case "skip":
            return "the run goes on without an answer"
    return "the step fails"


def _declined(step: Hitl) -> str:
    match step.ask:
        case "permission":
            return "Declining is a no."
        case "review":
            return "Declining is a rejection."
        case "hold":
            return "Declining ends the run."
    match step.on_decline:
        case "continue":
            return "Declining goes on without an answer."
        case "abort":
            return "Declining ends the run."
    return "Declining fails the step."


def value_of(template: str, names: Names) -> str:
    """A template of a value, or an expression of one."""
    return filled(template, names) if "{" in template else value(template, names)
