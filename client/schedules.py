"""Runs that Temporal starts by itself, at times or in intervals. `holdfast schedule` and programs use it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, get_args

from temporalio.client import (
    Schedule,
    ScheduleActionExecutionStartWorkflow,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleHandle,
    ScheduleIntervalSpec,
    ScheduleListDescription,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
    ScheduleState,
)
from temporalio.common import SearchAttributePair, TypedSearchAttributes
from temporalio.service import RPCError, RPCStatusCode

from holdfast.blueprint.json_values import JSONObject
from holdfast.blueprint.kinds import Blueprint
from holdfast.client.runs import Runs
from holdfast.client.starting import BLUEPRINT_KEY, check_start, define_run, make_attributes
from holdfast.protocol.names import ACCESS_MEMO, PIPELINE_WORKFLOW
from holdfast.protocol.runs import PipelineState, write_summary
from holdfast.runtime.errors import BadInput, is_missing, make_server_error, raise_server_errors

Overlap = Literal["skip", "buffer_one", "buffer_all", "cancel_other", "terminate_other", "allow_all"]
OVERLAPS: tuple[Overlap, ...] = get_args(Overlap)
MOMENT = len("-2026-11-22T09:00:00Z")
"""Bytes that Temporal puts behind the schedule's name to make the id of a run."""


@dataclass(frozen=True)
class Times:
    """The times at which a schedule starts runs."""

    cron: tuple[str, ...] = ()
    """Cron expressions, such as `0 9 * * 1-5`."""
    every: float | None = None
    """Seconds between two runs."""
    time_zone: str | None = None
    """IANA name for the cron expressions; None: UTC."""
    jitter: float | None = None
    """Seconds by which each start may be late, at random."""


@dataclass(frozen=True)
class ScheduleRow:
    """A schedule in a list."""

    name: str
    blueprint: str
    is_paused: bool
    times: list[str]
    next: datetime | None
    last: datetime | None
    last_run: str | None

    def to_json(self) -> JSONObject:
        """Return the row as `holdfast schedule list --json` prints it."""
        moments = {"next": self.next, "last": self.last}
        return {
            "schedule": self.name,
            "blueprint": self.blueprint,
            "paused": self.is_paused,
            "times": self.times,
            **{key: moment.isoformat() if moment else None for key, moment in moments.items()},
            "last_run": self.last_run,
        }


@raise_server_errors
class Schedules:
    """The schedules of one deployment.

    Args:
        runs: The runs that they start; what is started is guarded, limited and signed as theirs.
    """

    def __init__(self, runs: Runs) -> None:
        self.runs, self.client = runs, runs.client

    async def create(
        self,
        name: str,
        blueprint: Blueprint,
        times: Times,
        input: object = None,
        *,
        overlap: Overlap = "skip",
        paused: bool = False,
        started_by: str | None = None,
    ) -> None:
        """Create a schedule. It keeps the blueprint as it is now: editing the file does not change what it starts.

        Args:
            name: Its name; a run's id is the name and the time of its start.
            blueprint: What it runs.
            times: When.
            input: The input of every run; it must fit the blueprint's `inputs`.
            overlap: What happens if the run before has not ended, as Temporal names it.
            paused: Start nothing until it is resumed.
            started_by: The person for whom the runs are started, such as `user:ana`.

        Raises:
            BadInput: The name is taken, or a value cannot be used. Nothing has been created.
        """
        check_start(blueprint, input, f"{name}{'-' * MOMENT}", self.runs.answering.limits.input)
        if not times.cron and times.every is None:
            raise BadInput("a schedule needs a time: --cron '0 9 * * 1-5', or --every 1h")
        action = self._action(name, blueprint, input, started_by)
        schedule = Schedule(
            action=action,
            spec=_spec(times),
            policy=SchedulePolicy(overlap=ScheduleOverlapPolicy[overlap.upper()]),
            state=ScheduleState(paused=paused),
        )
        attributes = TypedSearchAttributes([SearchAttributePair(BLUEPRINT_KEY, blueprint.name)])
        try:
            await self.client.create_schedule(name, schedule, search_attributes=attributes)
        except ScheduleAlreadyRunningError:
            raise BadInput(f"schedule {name!r} exists; remove it first: holdfast schedule delete {name}") from None
        except RPCError as error:
            if error.status != RPCStatusCode.INVALID_ARGUMENT or make_server_error(error).code == "not_set_up":
                raise
            raise BadInput(f"the server does not take schedule {name!r}: {error.message}") from None

    def _action(self, name: str, blueprint: Blueprint, input: object, by: str | None) -> ScheduleActionStartWorkflow:
        # Each run takes the id that Temporal gives it.
        definition = define_run(self.client, self.runs.answering, blueprint, run="")
        state = PipelineState(input=input, started_by=self.runs.answering.find_sender(by))
        access = self.runs.access.describe_start(blueprint, by).model_copy(update={"signed_in": False})
        return ScheduleActionStartWorkflow(
            PIPELINE_WORKFLOW,
            args=[definition, state],
            id=name,
            task_queue=self.runs.task_queue,
            static_summary=write_summary(f"{blueprint.name}, by schedule {name}"),
            typed_search_attributes=make_attributes(access),
            memo={ACCESS_MEMO: access},
        )

    async def list(self) -> list[ScheduleRow]:
        """Return the schedules that start runs of blueprints, by name."""
        rows = [_row(listed) async for listed in await self.client.list_schedules() if _is_ours(listed)]
        return sorted(rows, key=lambda row: row.name)

    async def pause(self, name: str) -> None:
        """Start nothing until it is resumed; runs under way go on. Raises `BadInput` if there is no such schedule."""
        async with self._handle(name) as handle:
            await handle.pause()

    async def resume(self, name: str) -> None:
        """End a pause; what was missed is not made up for. Raises as `pause`."""
        async with self._handle(name) as handle:
            await handle.unpause()

    async def trigger(self, name: str) -> None:
        """Start a run now, or when the run before has ended, as the overlap rule says.

        Raises as `pause`, and `BadInput` where the rule is `skip` and a run is under way: nothing would start.
        """
        async with self._handle(name) as handle:
            there = await handle.describe()
            starts = [
                one for one in there.info.running_actions if isinstance(one, ScheduleActionExecutionStartWorkflow)
            ]
            if starts and there.schedule.policy.overlap == ScheduleOverlapPolicy.SKIP:
                run, hint = starts[0].workflow_id, "cancel it first, or start one beside it: holdfast start FILE"
                raise BadInput(f"schedule {name!r} starts nothing while its run {run} is under way (overlap); {hint}")
            await handle.trigger()

    async def delete(self, name: str) -> None:
        """Remove it; runs under way go on. Raises as `pause`."""
        async with self._handle(name) as handle:
            await handle.delete()

    @asynccontextmanager
    async def _handle(self, name: str) -> AsyncIterator[ScheduleHandle]:
        try:
            yield self.client.get_schedule_handle(name)
        except RPCError as error:
            if not is_missing(error):
                raise
            raise BadInput(f"no schedule {name!r}; `holdfast schedule list` lists them") from None


def _spec(times: Times) -> ScheduleSpec:
    return ScheduleSpec(
        cron_expressions=list(times.cron),
        intervals=[] if times.every is None else [ScheduleIntervalSpec(every=timedelta(seconds=times.every))],
        time_zone_name=times.time_zone,
        jitter=None if times.jitter is None else timedelta(seconds=times.jitter),
    )


def _is_ours(listed: ScheduleListDescription) -> bool:
    action: Any = listed.schedule.action if listed.schedule else None
    return action is not None and action.workflow == PIPELINE_WORKFLOW


def _row(listed: ScheduleListDescription) -> ScheduleRow:
    assert listed.schedule is not None and listed.info is not None
    last = listed.info.recent_actions[-1] if listed.info.recent_actions else None
    started: Any = last.action if last else None
    return ScheduleRow(
        listed.id,
        listed.typed_search_attributes.get(BLUEPRINT_KEY) or "",
        listed.schedule.state.paused,
        _times_text(listed.schedule.spec),
        next(iter(listed.info.next_action_times), None),
        last.started_at if last else None,
        started.workflow_id if started else None,
    )


def _times_text(spec: ScheduleSpec) -> list[str]:
    """Return the times in words; the server gives cron expressions back as calendars, with the text as a comment."""
    calendars = [calendar.comment or "calendar" for calendar in spec.calendars]
    zone = f" ({spec.time_zone_name})" if spec.time_zone_name else ""
    times = [f"{text}{zone}" for text in (*spec.cron_expressions, *calendars)]
    return [*times, *(f"every {interval.every}" for interval in spec.intervals)]
