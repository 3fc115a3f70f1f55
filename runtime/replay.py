"""Replay of recorded histories on this code: what a worker does for `holdfast replay`."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from temporalio.client import WorkflowHistory
from temporalio.converter import DefaultFailureConverter
from temporalio.runtime import Runtime, TelemetryConfig
from temporalio.worker import Replayer, WorkflowRunner
from temporalio.workflow import _Definition

from holdfast.blueprint.json_values import JSONObject
from holdfast.runtime.config import ConfigError, load_config
from holdfast.runtime.connection import find_payload_place, make_converter
from holdfast.runtime.encryption import KeyRing, find_key_ids, load_key_ring

_UNREADABLE = re.compile(r'.*message: "(.*?)", source: .*"(?:PayloadsUnreachable|NotDecrypted|NotReadable)"')
"""A failure to read a payload, in an error of the SDK's core: the last message, as others may be around it."""
_NOT_FOLLOWED = re.compile(r'message: "(\[TMPRL\d+\] .*?)", source: ')
"""A history that the code does not follow, in such an error."""


def replay(
    path: Path, workflows: Sequence[type], runner: WorkflowRunner, own_runner: WorkflowRunner, *, as_json: bool
) -> bool:
    """Replay the histories of a file on these workflows and print the results. Return whether all of them replay.

    Args:
        path: The file.
        workflows: The classes.
        runner: Of authors' classes.
        own_runner: Of classes outside the sandbox, as ours are.
        as_json: Print JSON.

    Raises:
        ConfigError: The file holds no histories, or the configuration cannot be used.
    """
    # Both would log the failures that are printed below, the SDK's core even to standard output.
    logging.getLogger("temporalio").setLevel(logging.CRITICAL)
    Runtime.set_default(Runtime(telemetry=TelemetryConfig(logging=None)))
    config = load_config()
    ring = load_key_ring(config)
    # Failures are kept readable: they are printed here, and go nowhere else.
    data_converter = replace(
        make_converter(find_payload_place(config), store=False, ring=ring),
        failure_converter_class=DefaultFailureConverter,
    )
    replayer = Replayer(
        workflows=workflows,
        workflow_runner=runner,
        unsandboxed_workflow_runner=own_runner,
        data_converter=data_converter,
    )
    types = {_read_type_name(workflow) for workflow in workflows}
    rows = asyncio.run(_replay_all(replayer, _read_histories(path), types, ring))
    if as_json:
        print(json.dumps(rows, indent=2))
    else:
        for row in rows:
            print(_write_line(row))
    return all(row["ok"] for row in rows)


def _read_type_name(workflow: type) -> str | None:
    """Return the type under which a workflow class is known to Temporal; None for one that takes any type."""
    return _Definition.must_from_class(workflow).name


def _write_line(row: JSONObject) -> str:
    """Return a result of `replay` as a line of text."""
    verdict = {True: "is followed", False: f"is NOT followed: {row['error']}"}.get(
        row["ok"], f"is not replayed: {row['error']}"
    )
    return f"{row['workflow']} ({row['run']}, {row['events']} events) {verdict}"


async def _replay_all(
    replayer: Replayer, histories: Sequence[WorkflowHistory], types: Collection[str | None], ring: KeyRing
) -> list[JSONObject]:
    return [await _replay(replayer, history, types, ring) for history in histories]


async def _replay(
    replayer: Replayer, history: WorkflowHistory, types: Collection[str | None], ring: KeyRing
) -> JSONObject:
    """Replay a history. One of a type that is not known here is left alone: it says nothing of this code."""
    type_ = history.events[0].workflow_execution_started_event_attributes.workflow_type.name
    if type_ not in types and None not in types:
        return _make_row(history, None, f"no workflow of type {type_!r} here; name its module by --workflows")
    if missing := _find_missing_keys(history, ring):
        # A worker with this configuration could not read it either: such a run would break.
        return _make_row(history, False, f"it is encrypted with the key {missing[0]!r}; add it to keys in [encryption]")
    result = await replayer.replay_workflow(history, raise_on_replay_failure=False)
    return _make_row(history, result.replay_failure is None, find_reason(result.replay_failure))


def _find_missing_keys(history: WorkflowHistory, ring: KeyRing) -> list[str]:
    """Return the ids of the keys that a history is encrypted with and that the ring does not have."""
    needed: set[str] = set().union(*(find_key_ids(event) for event in history.events))
    return sorted(id_ for id_ in needed if id_ not in ring)


def _make_row(history: WorkflowHistory, ok: bool | None, error: str | None) -> JSONObject:
    """Return a result; `ok` is None for a history that was not replayed."""
    return {
        "workflow": history.workflow_id,
        "run": history.run_id,
        "ok": ok,
        "events": len(history.events),
        "error": error,
    }


def find_reason(failure: Exception | None) -> str | None:
    """Return why a history does not replay: of what is known of the core's errors only the message."""
    if failure is None:
        return None
    text = str(failure)
    cause = _UNREADABLE.search(text) or _NOT_FOLLOWED.search(text)
    return cause[1] if cause else text


def _read_histories(path: Path) -> list[WorkflowHistory]:
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
