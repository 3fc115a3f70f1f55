"""Questions of `hitl` steps in plain words: assignees, choices, deadline, and what happens without an answer."""

from __future__ import annotations

from typing import TypeVar

from holdfast.blueprint.amounts import say_count
from holdfast.blueprint.durations import say_duration
from holdfast.blueprint.json_values import JSONObject
from holdfast.blueprint.kinds.description import PREVIOUS, Ask
from holdfast.blueprint.kinds.hitl_fields import HitlFields
from holdfast.blueprint.kinds.people_lists import people_asked, people_phrase
from holdfast.blueprint.kinds.phrases import agent_phrase, capitalize
from holdfast.blueprint.parts import Option
from holdfast.blueprint.questions.custom import KindDefinition
from holdfast.blueprint.words.schemas import fields, form
from holdfast.blueprint.words.text import (
    Vocabulary,
    as_sentence,
    constant,
    describe_span,
    enumerate_words,
    one_line,
    say_template,
    say_unquoted,
    say_value,
)

_Constant = TypeVar("_Constant", int, float)


def describe_ask(step: HitlFields, names: Vocabulary) -> Ask:
    """Return the question of a `hitl` step as data."""
    by, on_timeout = deadline(step)
    question = step.question
    return Ask(
        question.shown_kind,
        None if question.is_pause else say_unquoted(step.message, _names_in_question(step, names)),
        tuple(option.id for option in step.options) if isinstance(step.options, list) else (),
        people_asked(step.get_assignees(), names),
        _describe_template(step.quorum, names),
        None if by is None else _describe_template(by, names),
        on_timeout,
        step.on_decline or question.declined_as,
        None if step.remind_every is None else _describe_template(step.remind_every, names),
    )


def _describe_template(value: _Constant | str, names: Vocabulary) -> _Constant | str:
    """Return a constant as it is, and a template in words."""
    return say_unquoted(value, names) if isinstance(value, str) else value


def deadline(step: HitlFields) -> tuple[float | str | None, str | None]:
    """Return the seconds until an unanswered question ends, or their template, and what happens then.

    A `timeout` up to the last rung of `escalate` only starts the escalation; the question itself then has no end.
    """
    is_template = isinstance(step.timeout, str)
    if step.timeout is None or not (is_template or step.known_times.ends):
        return None, "escalate" if step.escalate else None
    if step.on_timeout == "escalate":
        return step.timeout, "fail" if step.default is None else "default"
    return step.timeout, step.on_timeout or "fail"


def describe_question(step: HitlFields, names: Vocabulary) -> str:
    """Return the description of a `hitl` step."""
    sentences = [
        _request(step, names),
        _attachments_sentence(step, names),
        _choices_sentence(step, names),
        _risk_sentence(step, names),
        _quorum_sentence(step, names),
        "Only people who have signed in may answer." if step.proof is not None else "",
        *_deadline_sentences(step, names),
        _verify_sentence(step),
        _notice_sentence(step),
        _decline_sentence(step),
    ]
    return " ".join(sentence for sentence in sentences if sentence)


def _message(step: HitlFields, names: Vocabulary) -> str:
    return say_template(step.message, _names_in_question(step, names))


def _names_in_question(step: HitlFields, names: Vocabulary) -> Vocabulary:
    """Return the vocabulary of a question's message, which is read after the step's input."""
    return names.after(say_template(step.input, names))


def _request(step: HitlFields, names: Vocabulary) -> str:
    message, subject = _message(step, names), say_template(step.input, names)
    is_about_more = step.message != PREVIOUS and message != subject
    template = step.question.request_to_choose if step.options else step.question.request
    return template.format(
        who=_assignees(step, names),
        message=as_sentence(message),
        many=_how_many(step),
        what=_describe_answer(step),
        subject=subject,
        about=f": {as_sentence(message)}" if is_about_more else ".",
        form=f" It must stay {form(step.input_schema)}." if step.input_schema else "",
    )


def _describe_answer(step: HitlFields) -> str:
    """Return the description of the answer: text, a form, secrets, or what the schema of a kind calls itself."""
    schema, hidden = step.answer_schema, step.question.hidden
    if schema is None:
        return "a secret" if hidden else "text"
    if isinstance(step.ask, KindDefinition) and isinstance(title := schema.get("title"), str):
        inside = _secrets(schema) if hidden else fields(schema)
        return f"{one_line(title, 80)} ({inside})" if inside else one_line(title, 80)
    return _secrets(schema) if hidden else form(schema)


def _secrets(schema: JSONObject) -> str:
    """Return the description of the secrets in a form, and of its other fields.

    >>> _secrets({"required": ["KEY"], "properties": {"KEY": {}, "ID": {}, "USER": {"secret": False}}})
    'the secrets KEY and ID (optional), and USER (optional) in clear'
    """
    needed, fields = schema.get("required", []), schema["properties"]
    labels = {name: one_line(name, 60) + ("" if name in needed else " (optional)") for name in fields}
    plain = [name for name, field in fields.items() if isinstance(field, dict) and field.get("secret") is False]
    hidden = [label for name, label in labels.items() if name not in plain]
    clear = f", and {enumerate_words([labels[name] for name in plain])} in clear" if plain else ""
    return f"the secret{'s' if len(hidden) > 1 else ''} {enumerate_words(hidden)}{clear}"


def _how_many(step: HitlFields) -> str:
    match step.multiple:
        case True:
            return " one or more"
        case int(most) if most > 1:
            return f" up to {most}"
    return ""


def _choices_sentence(step: HitlFields, names: Vocabulary) -> str:
    if not step.options:
        return ""
    if isinstance(step.options, str):
        offered = say_value(step.options, names)
    else:
        offered = enumerate_words([_option(option, names) for option in step.options], "or")
    own = step.question.takes_own_words
    word = step.question.offers if own else "Choices"
    return f"{word}: {offered}{'; or own words' if own else ''}."


def _option(option: Option, names: Vocabulary) -> str:
    """Return the description of an option: its label, meaning, risk, cost and time.

    >>> _option(Option(id="pay", label="Pay it", risk="Gone", recommended=True), Vocabulary({}))
    'pay (Pay it; recommended; risk: Gone)'
    """
    label = [say_unquoted(option.label, names)] if option.label and option.label != option.id else []
    about = [say_unquoted(option.description, names)] if option.description else []
    weights = {"risk": option.risk, "cost": option.cost, "time": option.time}
    notes = [f"{name}: {one_line(text, 60)}" for name, text in weights.items() if text]
    risks = [f"risks: {one_line(', '.join(option.risks), 80)}"] if option.risks else []
    details = [*label, *about, *(["recommended"] if option.recommended else []), *notes, *risks]
    return one_line(option.id, 60) + (f" ({'; '.join(details)})" if details else "")


def _assignees(step: HitlFields, names: Vocabulary) -> str:
    excluded = people_phrase(step.not_by, names)
    but = f" (but not {excluded})" if excluded else ""
    return (people_phrase(step.assignees, names) or "a person") + but


def _attachments_sentence(step: HitlFields, names: Vocabulary) -> str:
    if not step.attachments:
        return ""
    inside = _names_in_question(step, names)
    return f"Attached: {enumerate_words([say_unquoted(source.name, inside) for source in step.attachments])}."


def _risk_sentence(step: HitlFields, names: Vocabulary) -> str:
    inside = _names_in_question(step, names)
    action = "" if step.action is None else f"It permits: {say_template(step.action, inside)}."
    details = (
        "" if step.details is None or not step.question.permits else f"Details: {say_template(step.details, inside)}."
    )
    risk = "" if step.risk is None else f"Risk: {say_value(step.risk, names) if '{' in step.risk else step.risk}."
    return " ".join(sentence for sentence in (action, details, risk) if sentence)


def _quorum_sentence(step: HitlFields, names: Vocabulary) -> str:
    if step.quorum == 1:
        return ""
    same = "choose the same" if step.options else "agree"
    if isinstance(step.quorum, str):
        return f"How many different people must {same}: {say_value(step.quorum, names)}."
    return f"{step.quorum} different people must {same}."


def _deadline_sentences(step: HitlFields, names: Vocabulary) -> list[str]:
    sentences = [_reminder_sentence(step.remind_every, names)] if step.remind_every is not None else []
    for rung in step.escalate:
        assignees = people_phrase(rung.assignees, names)
        verb = "are" if isinstance(rung.assignees, str) else "is"
        span = describe_span(rung.after, names)
        sentences.append(f"If nobody answers within {span}, {assignees} {verb} asked instead.")
    by, then = deadline(step)
    return (
        [*sentences, f"If nobody answers within {describe_span(by, names)}, {_timeout_clause(step, then, names)}."]
        if by is not None
        else sentences
    )


def _reminder_sentence(every: float | str, names: Vocabulary) -> str:
    if isinstance(every, str):
        return f"Reminders at intervals of {say_unquoted(every, names)}."
    return f"Reminders every {_interval(every)}."


def _interval(seconds: float) -> str:
    """Return a duration as it reads after "every".

    >>> _interval(3600), _interval(5400)
    ('hour', '1 hour 30 minutes')
    """
    text = say_duration(seconds)
    return text.removeprefix("1 ") if text.count(" ") == 1 else text


def _timeout_clause(step: HitlFields, then: str | None, names: Vocabulary) -> str:
    match then:
        case "default" | "skip" if step.question.is_pause:
            return "the run goes on"
        case "default":
            default = step.default
            taken = (
                constant(default) if isinstance(default, str) and "{" not in default else say_template(default, names)
            )
            return f"the answer is {taken}"
        case "skip" if step.question.skipping:
            return step.question.skipping
        case "skip":
            without = step.question.output_without_answer
            return f"the run goes on {'without an answer' if without is None else f'with {constant(without)}'}"
    return "the step fails"


def _verify_sentence(step: HitlFields) -> str:
    if step.verify is None:
        return ""
    agent, most = capitalize(agent_phrase(step.verify.agent)), say_count(step.verify.rounds, "time")
    return f"{agent} checks the answer, and may return it with a reason, {most} at most; then it counts."


def _notice_sentence(step: HitlFields) -> str:
    if step.notify is True:
        return ""
    return f"Notices go only to {enumerate_words(step.notify)}." if step.notify else "No notice is sent."


def _decline_sentence(step: HitlFields) -> str:
    question = step.question
    if step.on_decline is None and question.declining:
        return question.declining
    who = "A no, or declining," if question.yes_or_no else "Declining"
    match step.on_decline:
        case "continue" if question.yes_or_no:
            return question.declining
        case "continue":
            return "Declining goes on without an answer."
        case "abort":
            return f"{who} ends the run."
    return f"{who} fails the step."
