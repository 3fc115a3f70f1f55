"""The answer to a question as a form: its controls by the traits of the question's kind, and back to content."""

from __future__ import annotations

import difflib
import json
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from holdfast.blueprint.json_values import JSON, JSONObject, same
from holdfast.blueprint.jsonschemas import BadSchema, list_misfits
from holdfast.blueprint.questions import InvalidAnswer
from holdfast.client.forms import (
    ABSENT,
    HIDDEN_PREFIX,
    FormControl,
    Submission,
    Texts,
    change_list,
    check_typed,
    first_text,
    make_control,
    make_group,
    read_control,
    shows,
    texts_of_value,
)
from holdfast.client.reading import parse_value
from holdfast.protocol.answers import Refusal
from holdfast.protocol.questions import Question
from holdfast.protocol.values import make_digest
from holdfast.server.web.pages.filled_form import FilledForm

TOP = "f:"
"""The name of the whole value: problems that belong to no control stand there."""
CHOICE, OWN_WORDS, REASON = "choice", "own", "reason"
"""The names of controls that are no part of a value: options, own words, a reason."""
LONG_TEXT: JSONObject = {"type": "string", "format": "long"}
EDITED = "edited"
Pieces = Sequence[tuple[str, bool]]
"""A line, taken apart: each piece with whether it differs from the other line."""
MOST_WORDS = 1000
"""A longer line differs as a whole: comparing words takes the square of their number."""
_WORD = re.compile(r"\w+|\s+|[^\w\s]")
_UNSENT = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffd]")
"""Characters that no field of a browser sends as they were."""


@dataclass(frozen=True)
class AnswerForm:
    """The form that answers a question, as it is shown."""

    question: Question
    filled: FilledForm
    """The value: of a review the payload, of a breakpoint the context; without meaning where the kind has no value."""
    key: str = field(default_factory=lambda: secrets.token_hex(8))
    """The idempotency key: the form counts once, however often it is sent."""
    changes: Sequence[tuple[str, Pieces]] = ()
    """Of an edited payload the lines, each with `+`, `-` or a blank."""
    message: str = ""
    """Why the answer was refused, as a whole."""
    is_sent: bool = False
    """True of an answer that was sent by signal, and that no worker has received yet."""

    @property
    def takes_value(self) -> bool:
        """Return whether the value is asked for by controls: neither options, a consent nor a pause."""
        asked = self.question.asked
        return not (asked.choices or asked.scopes or asked.verdicts or asked.is_pause)

    @property
    def has_plain_fields(self) -> bool:
        """True of a form in which not everything is secret: what is typed there is shown, and kept."""
        return any(part.widget != "secret" for part in self.filled.control.parts)

    @property
    def is_edited(self) -> bool:
        """Return whether the value that is typed is another than the one that was shown."""
        return is_edited(self.question, self.filled.texts)

    @property
    def problems(self) -> Mapping[str, Sequence[str]]:
        return self.filled.problems


def new_form(question: Question) -> AnswerForm:
    """Return the form of a question before anything is typed."""
    control, value = _find_control(question)
    return AnswerForm(question, FilledForm(control, texts_of_value(control, value)))


def typed_form(question: Question, texts: Texts, problems: Mapping[str, Sequence[str]] | None = None) -> AnswerForm:
    """Return the form with what is typed in it; secret values are never shown again."""
    control, _ = _find_control(question)
    visible = {name: value for name, value in texts.items() if not name.startswith(HIDDEN_PREFIX)}
    key = next(iter(texts.get("key", ())), "") or secrets.token_hex(8)
    return AnswerForm(question, FilledForm(control, visible, problems or {}), key[:200])


def changed_form(question: Question, texts: Texts, change: str) -> AnswerForm:
    """Return the form after an item was added to one of its lists, or removed."""
    control, _ = _find_control(question)
    return typed_form(question, change_list(control, texts, change))


def restored_form(question: Question, texts: Texts) -> AnswerForm:
    """Return the form with its value as it was shown, and with everything else that is typed."""
    control, value = _find_control(question)
    other = {name: typed for name, typed in texts.items() if not name.startswith(TOP)}
    return typed_form(question, {**other, **texts_of_value(control, value)})


def edited_form(question: Question, texts: Texts) -> AnswerForm:
    """Return the form with what is typed, and what was changed in its value, or what is wrong with it."""
    problems = _read_edit(question, texts).problems
    form = typed_form(question, texts, problems)
    return form if problems else replace(form, changes=list_changes(question, texts))


def form_key(question: Question) -> str:
    """Return a text that is the same for questions that the same answer may fit."""
    options = [option.model_dump(mode="json") for option in question.options]
    return make_digest(question.kind, question.requestedSchema, options)


@dataclass(frozen=True)
class ReadAnswer:
    """The content that a form holds, or what is wrong in it."""

    content: JSON = None
    problems: Mapping[str, Sequence[str]] = field(default_factory=dict)
    is_answer: bool = True
    """False where no button of this question was pressed."""


def read_answer(question: Question, do: str, texts: Texts) -> ReadAnswer:
    """Return the content of an accepted answer.

    Args:
        question: The question.
        do: The button: `answer`, `go_on` (without a value), `no`, `grant:SCOPE`, or `verdict:VERDICT`.
        texts: What is typed.
    """
    verb, _, which = do.partition(":")
    reason = first_text(texts, REASON).strip()
    match verb:
        case "go_on" if not question.asked.needs_data:
            return ReadAnswer()
        case "no":
            return _check(question, question.asked.no(reason))
        case "grant" if which in question.asked.scopes:
            return _check(question, {"granted": True, "scope": which, **({"reason": reason} if reason else {})})
        case "verdict" if which in question.asked.verdicts:
            return _read_verdict(question, which, reason, texts)
    if verb != "answer" or question.asked.scopes or question.asked.verdicts:
        return ReadAnswer(is_answer=False)
    if question.asked.choices:
        return _read_choice(question, texts)
    return _read_value(question, texts)


def is_edited(question: Question, texts: Texts) -> bool:
    """Return whether the value that is typed is another than the one that was shown; false where none is typed.

    A browser sends ends of lines in its own way, and some characters not at all: that is no edit.
    """
    if not any(name.startswith(TOP) for name in texts):
        return False
    control, value = _find_control(question)
    before, after = (read_control(control, _as_sent(shown)).value for shown in (texts_of_value(control, value), texts))
    return not same(before, after)


def drops_edit(question: Question, do: str, texts: Texts) -> bool:
    """Return whether a button sends nothing of the value, though that was edited."""
    verb, _, which = do.partition(":")
    sends_none = (verb == "go_on" and not question.asked.needs_data) or (verb == "verdict" and which != EDITED)
    return sends_none and is_edited(question, texts)


def _as_sent(texts: Texts) -> Texts:
    return {
        name: [_UNSENT.sub("", text.replace("\r\n", "\n").replace("\r", "\n")) for text in values]
        for name, values in texts.items()
    }


def list_changes(question: Question, texts: Texts) -> list[tuple[str, Pieces]]:
    """Return the lines in which the payload that is typed differs from the one that was shown, as a diff has them."""
    control, payload = _find_control(question)
    edited = read_control(control, texts).value
    before, after = (_lines(value) for value in (payload, edited))
    lines = [(line[:1], line[1:]) for line in list(difflib.unified_diff(before, after, lineterm="", n=3))[2:]]
    parts = [(differs, list(part)) for differs, part in groupby(lines, lambda line: line[0] in "+-")]
    return [line for differs, part in parts for line in (_compare_words(part) if differs else _as_they_are(part))]


def _as_they_are(lines: Sequence[tuple[str, str]]) -> list[tuple[str, Pieces]]:
    return [(mark, [(text, False)]) for mark, text in lines]


def _compare_words(lines: Sequence[tuple[str, str]]) -> list[tuple[str, Pieces]]:
    """Return removed lines and those in their places, with the words that differ, where there are as many of both."""
    removed, added = ([text for mark, text in lines if mark == wanted] for wanted in "-+")
    if len(removed) != len(added):
        return _as_they_are(lines)
    pairs = [_compare_line(*pair) for pair in zip(removed, added, strict=True)]
    return [("-", before) for before, _ in pairs] + [("+", after) for _, after in pairs]


def _compare_line(before: str, after: str) -> tuple[Pieces, Pieces]:
    old, new = _WORD.findall(before), _WORD.findall(after)
    if max(len(old), len(new)) > MOST_WORDS:
        return [(before, False)], [(after, False)]
    parts = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    removed = [("".join(old[start:end]), kind != "equal") for kind, start, end, _, _ in parts]
    added = [("".join(new[start:end]), kind != "equal") for kind, _, _, start, end in parts]
    return removed, added


def _lines(value: object) -> list[str]:
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False, default=str)
    return text.splitlines()


# The controls


def _find_control(question: Question) -> tuple[FormControl, object]:
    """Return the control of the value that a question asks for, and the value that it begins with."""
    asked = question.asked
    if asked.hidden:
        if not asked.fields:
            return make_control({"type": "string", "writeOnly": True}), ABSENT
        return make_group(asked.fields, question.requestedSchema.get("required", [])), ABSENT
    if asked.is_breakpoint:
        return make_control({}), question.info
    if asked.verdicts:
        return _control_of_payload(question)
    schema = asked.value_schema
    if _is_free_text(schema):
        return make_control(LONG_TEXT), ABSENT
    return make_control(schema), ABSENT if asked.first_content is None else asked.first_content


def _is_free_text(schema: JSONObject) -> bool:
    """Return whether a schema asks for any text, or for anything: then a person writes in a field of many lines."""
    return not schema or (
        schema.get("type") == "string" and schema.keys() <= {"type", "title", "minLength", "maxLength"}
    )


def _control_of_payload(question: Question) -> tuple[FormControl, object]:
    """Return the control of a payload: a form if that shows all of it, text for text, else JSON."""
    payload = _find_payload(question)
    schema = _payload_schema(question)
    if schema.keys() - {"$defs"}:
        control = make_control(schema)
        if control.widget in ("group", "list", "lines", "choice", "choices") and shows(control, payload):
            return control, payload
    return make_control(LONG_TEXT if isinstance(payload, str) else {}), payload


def _find_payload(question: Question) -> JSON:
    return (question.info or {}).get("payload")


def _payload_schema(question: Question) -> JSONObject:
    schema = question.requestedSchema
    payload = schema.get("properties", {}).get("payload", {})
    return {**payload, "$defs": schema["$defs"]} if "$defs" in schema else payload


# From what is typed to content


def _read_choice(question: Question, texts: Texts) -> ReadAnswer:
    chosen = [code for code in texts.get(CHOICE, ()) if code]
    own = first_text(texts, OWN_WORDS)
    if own.strip() and question.asked.takes_own_words:
        chosen.append(own)
    if question.asked.most_choices > 1:
        return _check(question, chosen, CHOICE)
    if len(chosen) != 1:
        problem = "choose one" if not chosen else "choose an option, or write your own words: not both"
        return ReadAnswer(problems={CHOICE: [problem]})
    return _check(question, chosen[0], CHOICE)


def _read_value(question: Question, texts: Texts) -> ReadAnswer:
    control, _ = _find_control(question)
    if question.asked.is_breakpoint and not first_text(texts, TOP).strip():
        return ReadAnswer()
    submission = read_control(control, texts)
    value = submission.value
    if isinstance(value, str) and not question.asked.value_schema:
        value = parse_value(value, None)  # anything is asked for: JSON is taken as its value, as on the command line
    if value is not ABSENT:
        check_typed(control, texts, submission, question.find_problems(value))
    return ReadAnswer(value, submission.problems)


def _read_verdict(question: Question, verdict: str, reason: str, texts: Texts) -> ReadAnswer:
    content: JSONObject = {"verdict": verdict, **({"reason": reason} if reason else {})}
    if verdict != EDITED:
        return _check(question, content, REASON)
    submission = _read_edit(question, texts)
    if submission.problems:
        return ReadAnswer(problems=submission.problems)
    return _check(question, {**content, "payload": submission.value})


def _read_edit(question: Question, texts: Texts) -> Submission:
    """Return the value that is typed in place of the one that was shown, with everything that is wrong in it."""
    control, _ = _find_control(question)
    submission = read_control(control, texts)
    if submission.value is not ABSENT:
        value = submission.value
        problems = _payload_problems(question, value) if question.asked.verdicts else question.find_problems(value)
        check_typed(control, texts, submission, problems)
    return submission


def place_refusal(question: Question, texts: Texts, refusal: Refusal) -> Mapping[str, Sequence[str]]:
    """Return what a workflow says does not fit, by the name of the control that shows its place; empty if it does not.

    Only the workflow can judge some content, such as the references of an edited plan.
    """
    control, _ = _find_control(question)
    if question.asked.choices:
        return {CHOICE: [reason for _, reason in refusal.problems]} if refusal.problems else {}
    inside = "payload" if question.asked.verdicts else ""
    below = [
        (path.removeprefix(inside).removeprefix("."), reason)
        for path, reason in refusal.problems
        if path.startswith(inside)
    ]
    if len(below) < len(refusal.problems):  # of the reason, or of the verdict, which no control shows
        return {}
    submission = Submission()
    check_typed(control, texts, submission, below)
    return submission.problems


def _payload_problems(question: Question, payload: object) -> Sequence[tuple[str, str]]:
    try:
        return list_misfits(_payload_schema(question), payload)
    except BadSchema:  # the question itself reports what does not fit
        return []


def _check(question: Question, content: object, place: str = TOP) -> ReadAnswer:
    """Return the content, or the reason why the question would refuse it."""
    try:
        question.accept(content)
    except (InvalidAnswer, BadSchema) as error:
        return ReadAnswer(problems={place: [str(error)]})
    return ReadAnswer(content)
