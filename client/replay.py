"""Replay of recorded histories on this code: what a worker does for `holdfast replay`."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Sequence
from pathlib import Path

from temporalio.client import WorkflowHistory
from temporalio.runtime import Runtime, TelemetryConfig
from temporalio.worker import Replayer, WorkflowReplayResult, WorkflowRunner

from holdfast.blueprint.json_values import JSONObject
from holdfast.client.config import ConfigError, load_config
from holdfast.client.connection import converter, payload_place


def replay(path: Path, workflows: Sequence[type], runner: WorkflowRunner, *, as_json: bool) -> bool:
    """Replay the histories of a file on these workflows and print the results. Return whether all of them replay.

    Raises:
        ConfigError: The file holds no histories, or the configuration cannot be used.
    """
    # Both would log the failures that are printed below, the SDK's core even to standard output.
    logging.getLogger("temporalio").setLevel(logging.CRITICAL)
    Runtime.set_default(Runtime(telemetry=TelemetryConfig(logging=None)))
    data_converter = converter(payload_place(load_config()), store=False)
    replayer = Replayer(workflows=workflows, workflow_runner=runner, data_converter=data_converter)
    rows = [_row(result) for result in asyncio.run(_replay_all(replayer, _histories(path)))]
    if as_json:
        print(json.dumps(rows, indent=2))
    else:
        for row in rows:
            verdict = "is followed" if row["ok"] else f"is NOT followed: {row['error']}"
            print(f"{row['workflow']} ({row['run']}, {row['events']} events) {verdict}")
    return all(row["ok"] for row in rows)


async def _replay_all(replayer: Replayer, histories: Sequence[WorkflowHistory]) -> list[WorkflowReplayResult]:
    return [await replayer.replay_workflow(history, raise_on_replay_failure=False) for history in histories]


def _row(result: WorkflowReplayResult) -> JSONObject:
    return {
        "workflow": result.history.workflow_id,
        "run": result.history.run_id,
        "ok": result.replay_failure is None,
        "events": len(result.history.events),
        "error": _reason(result.replay_failure),
    }


def _reason(failure: Exception | None) -> str | None:
    """Return why a history does not replay; for a missing payload only its message, without the core's Rust error."""
    text = str(failure) if failure else None
    unreachable = re.search(r'message: "(.*?)", source: .*"PayloadsUnreachable"', text or "")
    return unreachable[1] if unreachable else text


def _histories(path: Path) -> list[WorkflowHistory]:
    """Return the histories of a file: one, as Temporal saves it, or a list with workflow ids. Raises `ConfigError`."""
    try:
        value = json.loads(path.read_bytes())
        entries = [value] if "events" in value else value["histories"]
        if not all(_is_complete(entry["events"]) for entry in entries):
            raise ValueError("a history does not begin with its start, or leaves events out")
        return [
            WorkflowHistory.from_json(entry.get("workflow", path.stem), {"events": entry["events"]})
            for entry in entries
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        shape = '{"events": […]} or {"histories": [{"workflow": ID, "events": […]}, …]}'
        raise ConfigError(f"{path} holds no histories: {error}; expected {shape}") from error


def _is_complete(events: list[JSONObject]) -> bool:
    # Checked here because the SDK's core panics, and then hangs, on an incomplete history.
    numbers = [int(event["eventId"]) for event in events]
    return "workflowExecutionStartedEventAttributes" in events[0] and numbers == list(range(1, len(events) + 1))
