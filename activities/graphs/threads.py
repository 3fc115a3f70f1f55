"""The threads of graphs' checkpoints: one a call, which takes over what an earlier run had kept for the same call.

A call never writes into the thread of another run: that one may go on, or be gone on from once more.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json
from temporalio import activity

from holdfast.activities.graphs.store import CheckpointStore
from holdfast.protocol.agents import ToolRequest

if TYPE_CHECKING:  # LangGraph need not be installed
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple


def name_thread(request: ToolRequest) -> str:
    """Return the thread of a call: the same for each of its attempts, and for those after its questions.

    It is of one run of one workflow, as no call outlasts a continue-as-new; and of its input, as a person who edits the
    input wants another run of the graph.
    """
    return _join(activity.info().workflow_run_id or "", request)


def list_earlier(request: ToolRequest) -> list[str]:
    """Return the threads in which an earlier run may have kept the same call, the newest first.

    One is that in which the call had failed or was under way, the other that of the last questions which were met.
    """
    kept = request.states.get("")
    asked_in = kept.get("thread") if isinstance(kept, dict) else None
    made_in = _join(request.made_in, request) if request.made_in else None
    return [thread for thread in (made_in, asked_in) if isinstance(thread, str) and thread != name_thread(request)]


def _join(run_id: str, request: ToolRequest) -> str:
    # Without its first segment, as a mended blueprint may have another name.
    place = request.address.partition(";")[2] or activity.info().activity_id
    digest = hashlib.sha256(to_json([place, request.tool, request.input])).hexdigest()
    return f"{run_id}/{digest[:32]}"


async def copy_records(store: CheckpointStore, earlier: Sequence[str], thread: str) -> None:
    """Copy the first of these threads that has records, unless the thread has records of its own."""
    for source in earlier:
        if records := await store.read(source):
            own = await store.read(thread)
            if own == records[: len(own)]:  # also where a worker was lost while it copied
                for number in range(len(own), len(records)):
                    await store.append(thread, number, records[number])
            return


async def copy_checkpoints(
    saver: BaseCheckpointSaver[Any], earlier: Sequence[str], thread: str, *, in_thread: bool
) -> None:
    """Do the same with a checkpointer of the graph's own; `in_thread`: it has no async methods."""
    own = {_read_id(one) for one in await _list(saver, thread, in_thread=in_thread)}
    for source in earlier:
        if kept := await _list(saver, source, in_thread=in_thread):
            if own <= {_read_id(one) for one in kept}:
                for one in sorted(kept, key=lambda one: str(one.checkpoint["id"])):
                    await _put(saver, one, thread, in_thread=in_thread)
            return


async def _list(saver: BaseCheckpointSaver[Any], thread: str, *, in_thread: bool) -> list[CheckpointTuple]:
    config: RunnableConfig = {"configurable": {"thread_id": thread}}
    if in_thread:
        return await asyncio.to_thread(lambda: list(saver.list(config)))
    return [one async for one in saver.alist(config)]


async def _put(saver: BaseCheckpointSaver[Any], kept: CheckpointTuple, thread: str, *, in_thread: bool) -> None:
    place = {"thread_id": thread, "checkpoint_ns": kept.config["configurable"].get("checkpoint_ns", "")}
    above = {} if kept.parent_config is None else {"checkpoint_id": _read_checkpoint_id(kept.parent_config)}
    parent: RunnableConfig = {"configurable": place | above}
    own: RunnableConfig = {"configurable": {**place, "checkpoint_id": kept.checkpoint["id"]}}
    writes: dict[str, list[tuple[str, Any]]] = {}
    for task, channel, value in kept.pending_writes or ():
        writes.setdefault(task, []).append((channel, value))
    versions = kept.checkpoint["channel_versions"]
    if in_thread:
        await asyncio.to_thread(saver.put, parent, kept.checkpoint, kept.metadata, versions)
    else:
        await saver.aput(parent, kept.checkpoint, kept.metadata, versions)
    for task, written in writes.items():
        if in_thread:
            await asyncio.to_thread(saver.put_writes, own, written, task)
        else:
            await saver.aput_writes(own, written, task)


def _read_checkpoint_id(config: RunnableConfig) -> str:
    return str(config["configurable"]["checkpoint_id"])


def _read_id(kept: CheckpointTuple) -> tuple[str, str]:
    return str(kept.config["configurable"].get("checkpoint_ns", "")), str(kept.checkpoint["id"])
