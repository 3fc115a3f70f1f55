"""Answers that a graph gets: told whether a node has failed on one, and dropped so that its question is asked again.

LangGraph keeps an answer in the checkpoint as soon as a node reads it, so every later run of the node would meet it.
Imported with the first graph that is called.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.outputs import LLMResult
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, RESUME
from langgraph.errors import is_invalid_resume

from holdfast.activities.failure_types import explain_unused
from holdfast.activities.reported_usage import report_usage
from holdfast.blueprint.json_values import JSON

_COMMAND = "00000000-0000-0000-0000-000000000000"
"""The task under which LangGraph keeps an answer that names no interrupt."""


@dataclass(frozen=True)
class FailedAnswer:
    """An answer on which a node has failed."""

    id: str
    """Id of the interrupt."""
    task: str
    """Id of the task of the node."""
    read: Sequence[JSON] = ()
    """What the node has read since its last checkpoint, in its order; an answer that does not fit its form is last."""
    is_kept: bool = True
    """False for an answer that does not fit the form of `interrupt`: no checkpoint has it."""


class CallCounter(BaseCallbackHandler):
    """Counts the calls of models and tools that each task begins, also in the graphs inside it, and what models use."""

    run_inline = True

    def __init__(self) -> None:
        self.made: Counter[str] = Counter()
        """By id of the task."""

    def on_tool_start(self, *args: Any, **how: Any) -> None:
        """Count a call of a tool."""
        self._count(how.get("metadata"))

    def on_chat_model_start(self, *args: Any, **how: Any) -> None:
        """Count a call of a model."""
        self._count(how.get("metadata"))

    def on_llm_start(self, *args: Any, **how: Any) -> None:
        """Count a call of a model without messages."""
        self._count(how.get("metadata"))

    def on_llm_end(self, response: LLMResult, **how: Any) -> None:
        """Report what a model has used."""
        for [first, *_] in response.generations:
            message = getattr(first, "message", None)
            used, about = getattr(message, "usage_metadata", None) or {}, getattr(message, "response_metadata", {})
            model = ":".join(filter(None, (about.get("model_provider"), about.get("model_name"))))
            report_usage(model, input_tokens=used.get("input_tokens", 0), output_tokens=used.get("output_tokens", 0))

    def _count(self, metadata: Mapping[str, Any] | None) -> None:
        nodes = str((metadata or {}).get("langgraph_checkpoint_ns", ""))
        self.made.update(node.rpartition(":")[2] for node in nodes.split("|"))


class DeliveredAnswers:
    """The answers that a graph was resumed with, as its checkpoints have them once it has failed.

    Args:
        saver: The graph's checkpointer.
        thread: The thread of the call.
        delivered: The answers by interrupt.
        in_thread: The checkpointer has no async methods.
    """

    def __init__(
        self, saver: BaseCheckpointSaver[Any], thread: str, delivered: Mapping[str, JSON], *, in_thread: bool
    ) -> None:
        self._saver, self._delivered, self._in_thread = saver, delivered, in_thread
        self._config: RunnableConfig = {"configurable": {"thread_id": thread}}

    async def find_failed(self, error: BaseException) -> list[FailedAnswer]:
        """Return the answers on which a node has failed: it read one, raised the error, and kept nothing between."""
        ids = {id_ for _, id_ in find_failed_tasks(error)}
        # An answer that does not fit the form of `interrupt` is kept nowhere.
        unkept = is_invalid_resume(error)
        found: dict[str, FailedAnswer] = {}
        for checkpoint in reversed(await self._latest()):  # subgraphs last: a graph has the interrupts of its subgraphs
            for task, writes in _by_task(checkpoint).items():
                if task in ids and (RESUME in writes or unkept):
                    read = writes.get(RESUME, [])
                    for id_ in self._list_answered(writes):
                        every = [*read, self._delivered[id_]] if unkept else read
                        found[id_] = FailedAnswer(id_, task, every, not unkept)
        return list(found.values())

    async def drop(self, counts: Mapping[str, int]) -> None:
        """Take answers from every node that has not ended, so that it interrupts as before.

        Args:
            counts: How many are taken from these tasks, the last ones first; from any other the answer of this run.
        """
        for checkpoint in await self._latest():
            tasks = _by_task(checkpoint)
            stopped = {id_: writes for id_, writes in tasks.items() if ERROR in writes and RESUME in writes}
            for task, writes in stopped.items():
                # The last is that of this run: a node reads its earlier answers first.
                if count := counts.get(task, len(self._list_answered(writes))):
                    await self._write(checkpoint, task, writes[RESUME][:-count])
            if stopped and RESUME in tasks.get(_COMMAND, {}):
                await self._write(checkpoint, _COMMAND, None)

    def _list_answered(self, writes: Mapping[str, Any]) -> list[str]:
        return [interrupt.id for interrupt in writes.get(INTERRUPT, ()) if interrupt.id in self._delivered]

    async def _latest(self) -> list[CheckpointTuple]:
        """Return the newest checkpoint of the graph and of each of its subgraphs, the innermost first."""
        if self._in_thread:
            every = await asyncio.to_thread(lambda: list(self._saver.list(self._config)))
        else:
            every = [one async for one in self._saver.alist(self._config)]
        newest: dict[str, CheckpointTuple] = {}
        for checkpoint in every:
            newest.setdefault(checkpoint.config["configurable"].get("checkpoint_ns", ""), checkpoint)
        return [newest[place] for place in sorted(newest, key=len, reverse=True)]

    async def _write(self, checkpoint: CheckpointTuple, task: str, answers: Sequence[JSON] | None) -> None:
        # A checkpointer keeps one of these writes a task: the new one takes the place of the old.
        writes = [(RESUME, answers)]
        if self._in_thread:
            await asyncio.to_thread(self._saver.put_writes, checkpoint.config, writes, task)
        else:
            await self._saver.aput_writes(checkpoint.config, writes, task)


def find_failed_tasks(error: BaseException) -> list[tuple[str, str]]:
    """Return name and id of the tasks in which an error was raised, the innermost first, by LangGraph's notes.

    One whose input is refused has not begun: its id is empty.
    """
    notes = getattr(error, "__notes__", ())  # Python sets them with the first `add_note`
    matches = [re.match(r"(?:During|Before) task with name '(.+?)' and (?:id '(.+?)')?", note) for note in notes]
    return [(match[1], match[2] or "") for match in matches if match]


def describe_error(error: BaseException) -> str:
    """Return why an answer could not be used, for the person."""
    if is_invalid_resume(error):
        lines = [line.strip() for line in str(error).splitlines()]
        return "; ".join(lines[1:3]) or type(error).__name__
    return explain_unused(error)


def _by_task(checkpoint: CheckpointTuple) -> dict[str, dict[str, Any]]:
    """Return what each task has written, by channel."""
    tasks: dict[str, dict[str, Any]] = defaultdict(dict)
    for task, channel, value in checkpoint.pending_writes or ():
        tasks[task][channel] = value
    return tasks
