"""Answers that a graph gives back: those of a node that has failed on them, each with the reason. Used by its calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.activities.failure_types import is_retryable, replace_surrogates
from holdfast.activities.graphs.answers import DeliveredAnswers, FailedAnswer, describe_error
from holdfast.activities.graphs.stops import Stop
from holdfast.activities.registry import wrong
from holdfast.blueprint.json_values import JSONObject
from holdfast.blueprint.questions import Asked, brief
from holdfast.protocol.agents import InterruptAnswer
from holdfast.protocol.values import make_digest

LOST = "the node that had read it failed, and has to read it again"
"""Reason where the real one is lost with a worker."""
_LONGEST_ERROR = 300


@dataclass(frozen=True)
class GivenBack:
    """What a node has failed on."""

    ids: frozenset[str]
    """The interrupts at which it asks again at once."""
    from_first: bool
    """True if the node must run again to ask: the answers that it had read before are given back, too."""


class Returns:
    """The answers that one call of a graph gives back.

    Which of several answers of a node was wrong cannot be known, so all of them are, as far back as the node has called
    no tool or model in between.

    Args:
        tool: Name of the tool that the graph is.
        kept: What the call keeps between its attempts. Here: of each interrupt its task and how many calls the node had
            made before it; the reasons of answers that are given back once their node asks again; the last failure.
    """

    def __init__(self, tool: str, kept: JSONObject) -> None:
        self._tool = tool
        self._calls: JSONObject = kept.setdefault("calls", {})
        self._tasks: JSONObject = kept.setdefault("tasks", {})
        self._reasons: JSONObject = kept.setdefault("reasons", {})
        self._kept = kept

    def keep(self, stops: Sequence[Stop], calls: Counter[str]) -> None:
        """Keep where the graph has come to, before anybody answers."""
        self._tasks |= {stop.id: stop.task for stop in stops if stop.task}
        self._calls |= {stop.id: calls[stop.task] for stop in stops if calls[stop.task]}

    async def take(
        self, error: Exception, answers: DeliveredAnswers, made: Counter[str], place: str
    ) -> GivenBack | None:
        """Take the answers on which a node has failed out of the checkpoints; None if the error is none of theirs.

        Raises a failure if it comes of an answer that is not given back.
        """
        if is_retryable(error):
            return None
        failed = [one for one in await answers.find_failed(error) if made[one.task] <= self._calls.get(one.id, 0)]
        if not failed:
            return None
        returned = {one.task: self._list_returned(one) for one in failed}
        await answers.drop({one.task: len(returned[one.task]) - (not one.is_kept) for one in failed})
        for one in failed:
            self._refuse_repetition(error, one, returned[one.task], place)
            number = len(returned[one.task])
            self._reasons |= dict.fromkeys(returned[one.task], _describe(error, number))
        from_first = any(len(ids) > 1 for ids in returned.values())
        return GivenBack(frozenset(ids[0] for ids in returned.values()), from_first)

    def _list_returned(self, failed: FailedAnswer) -> list[str]:
        """Return the interrupts of a node whose answers are given back, in the order in which it reads them."""
        ids = [id_ for id_, task in self._tasks.items() if task == failed.task]
        ids = ids[: ids.index(failed.id) + 1] if failed.id in ids else [failed.id]
        if not failed.is_kept or len(ids) != len(failed.read):
            return [failed.id]
        return [id_ for id_ in ids if self._calls.get(id_, 0) == self._calls.get(failed.id, 0)]

    def _refuse_repetition(self, error: Exception, failed: FailedAnswer, returned: Sequence[str], place: str) -> None:
        if len(returned) == len(failed.read) or not failed.is_kept:
            return
        # The same failure on other answers: it is of one that is kept, and nothing that a person may say changes it.
        failure, answers = make_digest(failed.task, repr(error)), make_digest(*map(repr, failed.read))
        before = self._kept.get("failure")
        if before is not None and before[0] == failure and before[1] != answers:
            text = replace_surrogates(f"{self._tool}: node {place}: {type(error).__name__}: {error}")
            again = "on an answer that it read before it called a tool or a model"
            raise wrong("tool_error", f"{text} (it failed so before, {again})") from error
        self._kept["failure"] = [failure, answers]

    def explain(self, id_: str, asked: Asked | None, answer: InterruptAnswer | None, *, shows: bool) -> str:
        """Return why the answer to an interrupt is given back; `shows`: with that answer, which may have been right."""
        reason = str(self._reasons.get(id_, LOST))
        if not shows or answer is None or asked is None or asked.hidden:
            return reason
        return f"{reason}; this one was {brief(answer.content)}"


def _describe(error: Exception, number: int) -> str:
    """Return why answers could not be used, for the person; `number`: how many are given back."""
    if number == 1:
        return describe_error(error)
    text = f"{type(error).__name__}: {error}"[:_LONGEST_ERROR]
    return f"one of the {number} answers that this node has read could not be used ({text}), so each is asked again"
