"""Phrases that several kinds share: agents, attempts, writes to the context, results, limits."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.blueprint.amounts import say_count
from holdfast.blueprint.durations import say_duration
from holdfast.blueprint.kinds.agents import Agent
from holdfast.blueprint.kinds.operations import Operation
from holdfast.blueprint.kinds.references import model
from holdfast.blueprint.parts import AskForAccess, CallAgain, Retry, ToolErrors
from holdfast.blueprint.words.text import Vocabulary, as_sentence, enumerate_words, one_line, say_template

AT_MOST = {
    "fail": "if that is not enough, it fails",
    "finish": "then it goes on with what there is",
    "ask": "then a person decides whether to go on",
}
"""What happens at a limit."""


def agent_phrase(agent: str | Agent) -> str:
    return f"the agent {agent}" if isinstance(agent, str) else f"an agent ({model(agent.title)})"


def attempts(timeout: float | None, retry: Retry | None) -> str:
    if retry is None:
        return f" It may take {say_duration(timeout)}." if timeout is not None else ""
    each = f" of {say_duration(timeout)}" if timeout is not None else ""
    limit = f"{say_count(retry.attempts, 'attempt')}{each} at most"
    return f" {limit}."


_AFTER_ERROR = {
    "ask": "a person is asked to give access",
    "find": "another tool is looked for",
    "fail": "it fails",
}


def error_sentences(rules: ToolErrors | None) -> list[str]:
    """Return the sentence about what follows errors of tools; none without rules.

    >>> error_sentences(ToolErrors(missing="find", business=CallAgain(retry=1)))
    ['After an error of a tool: missing: another tool is looked for; business: it calls again, at most 1 time.']
    """
    if rules is None:
        return []
    phrases = []
    for kind in type(rules).model_fields:
        match getattr(rules, kind):
            case CallAgain(retry=most):
                phrases.append(f"{kind.replace('_', ' ')}: it calls again, at most {say_count(most, 'time')}")
            case AskForAccess(ask=most):
                phrases.append(f"{kind.replace('_', ' ')}: {_AFTER_ERROR['ask']}, at most {say_count(most, 'time')}")
            case int(most):
                phrases.append(f"in all it calls again at most {say_count(most, 'time')}")
            case str(action):
                phrases.append(f"{kind.replace('_', ' ')}: {_AFTER_ERROR[action]}")
    return [f"After an error of a tool: {'; '.join(phrases)}."]


def result_sentences(template: str | None, output: object, mapper: str | None, names: Vocabulary) -> list[str]:
    if mapper is not None:
        return [f"It returns the result of the function {mapper}."]
    if template is None and output is None:
        return []
    return [as_sentence(f"It returns {say_template(output if template is None else template, names)}")]


def writes_sentences(operations: Sequence[Operation], when: str, names: Vocabulary) -> list[str]:
    if not operations:
        return []
    return [f"{when} it {enumerate_words([_write_phrase(operation, names) for operation in operations])}."]


def _write_phrase(operation: Operation, names: Vocabulary) -> str:
    path, new_value = context_path(operation.write.target), say_template(operation.write.value, names)
    name = names.keys.get(("context", *path.split(".")))
    place = name or f"{path} in the context"
    match operation.verb:
        case "set":
            return f"sets {place} to {new_value}"
        case "append":
            return f"adds {new_value} to {place}"
        case "merge":
            return f"merges {new_value} into {place}"


def context_path(path: str) -> str:
    return one_line(path.removeprefix("context."), 60)


def colon_or_nothing(steps: Sequence[object]) -> str:
    return ":" if steps else ": nothing."


def capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]
