"""The files that the wizard writes: the answers set into the files of `patterns/`, and a model's scripted replies."""

from __future__ import annotations

from collections.abc import Callable
from importlib import resources
from string import Template
from typing import Literal

from pydantic import BaseModel, ConfigDict

from holdfast.cli.wizard.questions import NEVER
from holdfast.cli.wizard.scalars import literal, scalar

SCRIPTED = "scripted"
_COMMENTS_FROM = 43


class WizardAnswers(BaseModel):
    """A person's answers to the wizard; fields that the pattern does not need are empty."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    name: str
    goal: str
    pattern: Literal["clarify", "feedback", "approval", "conversation", "items"]
    model: str = ""
    question: str = ""
    deadline: str = NEVER
    unanswered: str = "fail"
    facts: str = ""
    items: str = ""

    @property
    def is_scripted(self) -> bool:
        """True if the model's replies come from a file written beside the blueprint."""
        return self.model == SCRIPTED


def blueprint_text(answers: WizardAnswers, replies: str = "") -> str:
    """Return the blueprint's YAML; `replies` is the file name of its scripted replies."""
    values = {"name": scalar(answers.name), "description": scalar(answers.goal)}
    return Template(_text(f"{answers.pattern}.yaml")).substitute(values, **_VALUES[answers.pattern](answers, replies))


def replies_text(answers: WizardAnswers) -> str | None:
    """Return the text of the scripted replies; None if no model, or a real one, is used."""
    if not answers.is_scripted:
        return None
    header = f"# The model's replies, step by step; the last one repeats. A real model: `model:` in {answers.name}.\n"
    return header + _text(f"{answers.pattern}.replies.yaml")


def _text(file: str) -> str:
    """Return one of the pattern files: YAML with `$name` where an answer goes."""
    return resources.files("holdfast.cli.wizard").joinpath("patterns", file).read_text(encoding="utf-8")


def _clarify(answers: WizardAnswers, _: str) -> dict[str, str]:
    names = _names(answers.facts)
    questions = {name: name.replace("_", " ").capitalize() + "?" for name in names}
    lines = [f"        {scalar(name)}: {{type: string, description: {scalar(questions[name])}}}" for name in names]
    return {"goal": scalar(literal(answers.goal)), "facts": _flow_list(names), "properties": "\n".join(lines)}


def _feedback(answers: WizardAnswers, replies: str) -> dict[str, str]:
    return {
        "model": _model(answers, replies),
        "instructions": _instructions(answers, "Take the feedback into account."),
        "question": _question(answers, "\n\n{{ context.draft }}"),
        "deadline": _deadline(answers, 10, {"keep": "good"}),
    }


def _approval(answers: WizardAnswers, _: str) -> dict[str, str]:
    about = "{% if input %}\n{{ input }}{% endif %}"
    return {
        "question": _question(answers, about),
        "deadline": _deadline(answers, 4, {"refuse": "refuse"}),
        "done": scalar(f"Done: {literal(answers.goal)}"),
        "left": scalar(f"Not done: {literal(answers.goal)}"),
    }


def _conversation(answers: WizardAnswers, replies: str) -> dict[str, str]:
    go_on = {"decide": "Decide for me."}
    return {
        "model": _model(answers, replies),
        "asking": _instructions(answers, "Ask one short question at a time. Finish when you know enough."),
        "instructions": _instructions(answers, "Write the result from the conversation."),
        "question": _question(answers),
        "deadline_first": _deadline(answers, 4, go_on),
        "deadline": _deadline(answers, 10, go_on),
    }


def _items(answers: WizardAnswers, replies: str) -> dict[str, str]:
    return {
        "items": _flow_list(_names(answers.items)),
        "model": _model(answers, replies),
        "instructions": _instructions(answers, "You get one item."),
        "question": _question(answers, "\n\n{{ item }}: {{ steps.draft.output }}"),
        "deadline": _deadline(answers, 10, {"keep": "keep", "drop": "drop"}),
    }


_VALUES: dict[str, Callable[[WizardAnswers, str], dict[str, str]]] = {
    "clarify": _clarify,
    "feedback": _feedback,
    "approval": _approval,
    "conversation": _conversation,
    "items": _items,
}


def _names(typed: str) -> list[str]:
    """Return the names between the commas, each once.

    >>> _names("tea, milk,, tea ")
    ['tea', 'milk']
    """
    return list(dict.fromkeys(filter(None, map(str.strip, typed.split(",")))))


def _flow_list(texts: list[str]) -> str:
    return f"[{', '.join(map(scalar, texts))}]"


def _model(answers: WizardAnswers, replies: str) -> str:
    return scalar(f"scripted:{replies}" if answers.is_scripted else answers.model)


def _instructions(answers: WizardAnswers, more: str) -> str:
    """Return the goal as a sentence, followed by the pattern's instructions."""
    goal = literal(answers.goal.strip())
    return scalar(f"{goal}{'' if goal.endswith(('.', '!', '?')) else '.'} {more}")


def _question(answers: WizardAnswers, about: str = "") -> str:
    """Return the person's question, followed by its subject (a template)."""
    return scalar(literal(answers.question) + about)


def _deadline(answers: WizardAnswers, indent: int, defaults: dict[str, str]) -> str:
    """Return the lines of a question for its timeout and default answer; empty without a deadline."""
    if answers.deadline == NEVER:
        return ""
    default = defaults.get(answers.unanswered)
    if default is None:
        return "\n" + _comment(indent, f"timeout: {answers.deadline}", "then the run fails")
    answer = _comment(indent, f"default: {scalar(default)}", "what counts as the answer then")
    return f"\n{' ' * indent}timeout: {answers.deadline}\n{answer}"


def _comment(indent: int, line: str, why: str) -> str:
    return f"{' ' * indent + line:{_COMMENTS_FROM - 2}}  # {why}"
