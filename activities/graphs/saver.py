"""The checkpointer of LangGraph over Holdfast's store of checkpoints. Imported with the first graph that needs it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata, get_checkpoint_metadata
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.base import SerializerProtocol
from temporalio.api.common.v1 import Payload
from temporalio.converter import PayloadCodec

from holdfast.activities.graphs.store import CheckpointStore


class StoredSaver(InMemorySaver):
    """The checkpoints of one thread: in memory to read, and appended to the store before a write returns.

    Each record holds only what is new, so that a thread takes as much room as its values do.
    """

    def __init__(
        self, thread: str, store: CheckpointStore, codec: PayloadCodec | None, serde: SerializerProtocol
    ) -> None:
        super().__init__(serde=serde)
        self._thread, self._store, self._codec = thread, store, codec
        self._loop = asyncio.get_running_loop()
        self._appending = asyncio.Lock()
        self._records = 0

    async def load(self) -> None:
        """Read what earlier attempts have kept."""
        for record in await self._store.read(self._thread):
            if record:
                self._restore(await self._decode(record))
            else:
                super().delete_thread(self._thread)
            self._records += 1

    def _restore(self, record: dict[str, Any]) -> None:
        config: RunnableConfig = {"configurable": {"thread_id": self._thread, **record["at"]}}
        if "writes" in record:
            super().put_writes(config, record["writes"], record["task"], record["path"])
        else:
            super().put(config, record["checkpoint"], record["metadata"], record["versions"])

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Keep a checkpoint; see base class."""
        metadata = get_checkpoint_metadata(config, metadata)
        kept = super().put(self._plain(config), checkpoint, metadata, new_versions)
        values = {key: value for key, value in checkpoint["channel_values"].items() if key in new_versions}
        new = {**checkpoint, "channel_values": values}
        await self._append(
            {"at": self._place(config), "checkpoint": new, "metadata": metadata, "versions": new_versions}
        )
        return kept

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Keep what a node has written; see base class."""
        super().put_writes(self._plain(config), writes, task_id, task_path)
        record = {"at": self._place(config), "writes": list(writes), "task": task_id, "path": task_path}
        await self._append(record)

    async def adelete_thread(self, thread_id: str) -> None:
        """Forget the thread; see base class."""
        super().delete_thread(thread_id)
        await self._write(b"")

    # A node that is a plain function runs in a thread, and may invoke a graph there, which calls these.

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """See `aput`."""
        kept: RunnableConfig = self._from_thread(self.aput(config, checkpoint, metadata, new_versions))
        return kept

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """See `aput_writes`."""
        self._from_thread(self.aput_writes(config, writes, task_id, task_path))

    def _from_thread(self, write: Coroutine[Any, Any, Any]) -> Any:
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run_coroutine_threadsafe(write, self._loop).result()
        write.close()
        name = "the worker's" if running is self._loop else "another"
        raise RuntimeError(f"a graph is invoked in {name} event loop, which would block it; use `await graph.ainvoke`")

    def _plain(self, config: RunnableConfig) -> RunnableConfig:
        return {"configurable": {"thread_id": self._thread, **self._place(config)}}

    def _place(self, config: RunnableConfig) -> dict[str, str]:
        place = config["configurable"]
        at = {"checkpoint_ns": place.get("checkpoint_ns", "")}
        return at | ({"checkpoint_id": place["checkpoint_id"]} if place.get("checkpoint_id") else {})

    async def _append(self, record: dict[str, Any]) -> None:
        await self._write(await self._encode(record))

    async def _write(self, encoded: bytes) -> None:
        async with self._appending:  # one by one: a killed worker must leave no gap in the numbers
            await self._store.append(self._thread, self._records, encoded)
            self._records += 1

    async def _encode(self, record: dict[str, Any]) -> bytes:
        kind, data = self.serde.dumps_typed(record)
        payload = Payload(metadata={"encoding": b"binary/langgraph", "type": kind.encode()}, data=data)
        if self._codec is not None:
            [payload] = await self._codec.encode([payload])
        return payload.SerializeToString()

    async def _decode(self, raw: bytes) -> dict[str, Any]:
        payload = Payload.FromString(raw)
        if self._codec is not None:
            [payload] = await self._codec.decode([payload])
        record: dict[str, Any] = self.serde.loads_typed((payload.metadata["type"].decode(), payload.data))
        return record
