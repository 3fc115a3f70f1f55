"""Questions of a plan: their text and options, and the outcome of an answer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal

from holdfast.blueprint.expressions.texts import fold
from holdfast.blueprint.json_values import JSONObject
from holdfast.blueprint.kinds.plan_body import PlanOption, PlanStep
from holdfast.blueprint.plan.references import BadText, references_in
from holdfast.blueprint.questions.agreement import (
    NEGATIONS,
    NO_WORDS,
    YES_WORDS,
    Language,
    agrees,
    choose_words,
    refuses,
)

CONFIRM, INFO = "CONFIRM_ACTION", "ASK_INFO"
_MARK = re.compile(rf"[\s*_`]*(?P<mark>{CONFIRM}|{INFO})[\s*_`]*[:\uff1a][\s*_`]*", re.IGNORECASE)
_MARK_INSIDE = re.compile(rf"\b({CONFIRM}|{INFO})\b", re.IGNORECASE)
Outcome = Literal["confirmed", "cancelled", "other"]
REFUSE: Final = 0
ACCEPT: Final = 1
OTHER: Final = 2
OUTCOMES: dict[int, Outcome] = {ACCEPT: "confirmed", REFUSE: "cancelled", OTHER: "other"}
_WORD = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)?")


def asks(step: PlanStep) -> bool:
    """Return whether the step is a question to a person."""
    return step.pause_for_response or _mark(step) is not None


def confirms(step: PlanStep) -> bool:
    """Return whether the question asks for a yes or a no."""
    return _mark(step) == CONFIRM


def wants_a_yes(step: PlanStep) -> bool:
    """Return whether something is done only after a yes: a confirmation, and a question with tools."""
    return confirms(step) or (step.pause_for_response and bool(step.tools) and not informs(step))


def informs(step: PlanStep) -> bool:
    """Return whether the question asks for something that is not known."""
    return _mark(step) == INFO


def _mark(step: PlanStep) -> str | None:
    match = _MARK.match(step.instruction)
    return None if match is None else match["mark"].upper()


def question_text(instruction: str) -> str:
    """Return the text that the person reads: the instruction without its mark.

    >>> question_text("CONFIRM_ACTION: Send them?"), question_text("**Confirm_action :** Les envoyer ?")
    ('Send them?', 'Les envoyer ?')
    """
    mark = _MARK.match(instruction)
    return instruction[0 if mark is None else mark.end() :].strip()


def list_options(step: PlanStep, language: Language | None = None) -> list[PlanOption]:
    """Return the options; a question that wants a yes, and names none, has two in the plan's language."""
    if step.options or not wants_a_yes(step):
        return step.options
    words = choose_words(language)
    return [PlanOption(text=words.accept, type=ACCEPT), PlanOption(text=words.refuse, type=REFUSE)]


def read_meaning(option: PlanOption) -> int:
    """Return the meaning of an option: as its author says, else by its first word that says yes or no.

    >>> [read_meaning(PlanOption(text=text)) for text in ("Oui, envoyer", "Non, annuler", "Later")]
    [1, 0, 2]
    """
    return means(option.text) if option.type is None else option.type


def never_a_yes(step: PlanStep) -> bool:
    """Return whether no option can mean yes; an option with a reference in it can, once it is filled in."""
    return all(read_meaning(option) != ACCEPT and not _refers(option) for option in list_options(step))


def _refers(option: PlanOption) -> bool:
    try:
        return bool(references_in(option.text))
    except BadText:
        return True


def means(text: str) -> int:
    """Return the meaning of an option's words: a yes begins with one and denies nothing; a no stands anywhere.

    >>> [means(text) for text in ("Yes, send", "Do not send", "Ok, don't", "Send later", "Oui, annuler la fête")]
    [1, 0, 0, 2, 1]
    """
    words = _words(text)
    denies = not NEGATIONS.isdisjoint(words)
    if words and words[0] in YES_WORDS and not denies:
        return ACCEPT
    return REFUSE if denies or not NO_WORDS.isdisjoint(words) else OTHER


def means_by_itself(text: str) -> int:
    """Return the meaning of a person's own words, which are no option: only a whole answer is a yes.

    >>> [means_by_itself(text) for text in ("Oui, envoyer", "Ok, stop", "Yes, but wait", "No!", "Perfekt")]
    [1, 2, 2, 0, 1]
    """
    if agrees(text):
        return ACCEPT
    return REFUSE if refuses(text) else OTHER


def _words(text: str) -> list[str]:
    return _WORD.findall(fold(text).replace("\u2019", "'"))


def read_plan_answer(text: str, options: list[PlanOption], *, by_words: bool = False) -> JSONObject:
    """Return the result of an answer: the words, the outcome, and which option it was.

    Own words come out as `other`, unless `by_words` says that they may be a yes or a no.

    >>> read_plan_answer("Oui, envoyer", [PlanOption(text="Oui, envoyer"), PlanOption(text="Non")])
    {'response': 'Oui, envoyer', 'outcome': 'confirmed', 'option_index': 0, 'option_type': 1}
    """
    for index, option in enumerate(options):
        if option.text == text:
            type_ = read_meaning(option)
            return {"response": text, "outcome": OUTCOMES[type_], "option_index": index, "option_type": type_}
    outcome = OUTCOMES[means_by_itself(text)] if by_words else "other"
    return {"response": text, "outcome": outcome, "option_index": None, "option_type": None}


Mistake = tuple[str, str, str, str]
"""Key, code, message and hint."""


def check_question(step: PlanStep, language: Language | None = None) -> Iterator[Mistake]:
    """Yield the mistakes in a step's question."""
    if _mark(step) is None and (mark := _MARK_INSIDE.search(step.instruction)) is not None:
        hint = f"begin the instruction with {mark[1].upper()}: and the question"
        yield "instruction", "bad_value", f"{mark[1]} does not make the step a question in this place", hint
    if not asks(step):
        for key in ("options", "timeout", "on_timeout", "default"):
            if getattr(step, key):
                yield key, "conflict", f"{key!r} belongs to questions", "add pause_for_response: true, or remove it"
        return
    if not question_text(step.instruction):
        yield "instruction", "missing_key", "the question is empty", "write the question after the mark"
    yield from _check_options(step)
    yield from _check_default(step, language)


def _check_options(step: PlanStep) -> Iterator[Mistake]:
    texts = [fold(option.text) for option in step.options]
    for index, text in enumerate(texts):
        if text in texts[:index]:
            message = f"the option {step.options[index].text!r} appears twice"
            yield f"options[{index}]", "duplicate_name", message, "remove one of them"
    if step.tools and not informs(step) and step.options and never_a_yes(step):
        message = "none of the options means yes, so the tools would never run"
        yield "options", "bad_value", message, 'mark the one that does: {"text": "…", "type": 1}'


def _check_default(step: PlanStep, language: Language | None) -> Iterator[Mistake]:
    if step.on_timeout is not None and step.timeout is None:
        yield "timeout", "missing_key", "'on_timeout' needs a 'timeout'", "say how long to wait, such as 2d"
    if step.on_timeout == "default" and step.default is None:
        yield "default", "missing_key", "on_timeout: default needs a 'default'", "say which answer counts then"
    offered = [fold(option.text) for option in list_options(step, language)]
    if step.default is not None and offered and fold(step.default) not in offered:
        yield "default", "bad_value", f"{step.default!r} is not one of the options", "write one of them"
