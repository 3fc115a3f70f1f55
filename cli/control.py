"""The commands that steer a run, and send it an event: `pause`, `resume`, `cancel`, `tell`, `edit`, `send`."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import typer

from holdfast.blueprint.durations import read_duration
from holdfast.blueprint.json_values import JSON
from holdfast.cli.command import describe_failure, expected_failures, perform
from holdfast.cli.flags import All, AsJson, By, OfBlueprint, RunName, SomeRun
from holdfast.cli.output import DONE, FAILED, print_json, report, say
from holdfast.cli.session import open_session
from holdfast.client.reading import BadUsage, parse_input, parse_value, person
from holdfast.client.runs import Runs
from holdfast.client.states import Steered
from holdfast.client.stopping import at_once
from holdfast.client.texts import place
from holdfast.protocol.names import PIPELINE_WORKFLOW
from holdfast.protocol.undos import OpenUndo, UndoProgress

app = typer.Typer(rich_markup_mode=None)
QUIET_SECONDS = 2.0
"""Time after which `cancel` says that it is waiting."""
UNDOING_SECONDS = 1.0
"""Between two looks at what a run undoes."""


@app.command()
def pause(
    run: SomeRun = None, blueprint: OfBlueprint = None, all_: All = False, by: By = None, as_json: AsJson = False
) -> None:
    """Pause a run: no further step or activity starts. Answers are still accepted, deadlines still run."""
    perform(_each(Target(run, blueprint, all_), partial(_pause, person(by)), as_json), as_json)


@app.command()
def resume(
    run: SomeRun = None, blueprint: OfBlueprint = None, all_: All = False, by: By = None, as_json: AsJson = False
) -> None:
    """Resume a run after a pause, a hold, a stop or a tool's interrupt that needs no answer.

    It never approves anything. With several runs, it only ends pauses.
    """
    target = Target(run, blueprint, all_)
    action = _resume if target.is_one_run else _unpause
    perform(_each(target, partial(action, person(by)), as_json), as_json)


@app.command()
def tell(
    run: RunName,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The message for the agent.")],
    agent: Annotated[
        str | None,
        typer.Option(
            "--agent", metavar="STEP", help="The agent's step name or address; needed if several are at work."
        ),
    ] = None,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Send a message to an agent of a run, for its next turn."""
    perform(_tell(run, text, agent, person(by), as_json), as_json)


@app.command()
def edit(
    run: RunName,
    changes: Annotated[
        list[str],
        typer.Option(
            "--set", metavar="PATH=JSON", help="A path in the context and its new value as JSON, else text; repeatable."
        ),
    ],
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Change the context of a run that has stopped before or after a step, and resume it."""
    perform(_edit(run, changes, person(by), as_json), as_json)


@app.command()
def cancel(
    run: SomeRun = None,
    blueprint: OfBlueprint = None,
    all_: All = False,
    wait: Annotated[
        str,
        typer.Option(
            "--wait", metavar="TIME", help="How long to wait until the run and everything below it has ended."
        ),
    ] = "30s",
    force: Annotated[
        bool, typer.Option("--force", help="Terminate the run: no clean-up, running activities are not notified.")
    ] = False,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Cancel a run and everything below it; its questions are closed. Cancelling twice is fine.

    Temporal's request and the record say who did it; no token proves it.

    Workflows that have not ended in time are listed with the reason, and the exit code is 1. What blocks say how to
    undo is undone first; --force undoes nothing, and lists what it leaves.
    """
    perform(_each(Target(run, blueprint, all_), partial(_cancel, _seconds(wait), force, person(by)), as_json), as_json)


@app.command()
def send(
    run: RunName,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The event's name, as the step waits `for` it.")],
    key: Annotated[str, typer.Argument(metavar="KEY", help="The event's key.")],
    payload: Annotated[str | None, typer.Argument(metavar="PAYLOAD", help="JSON, else text; @FILE is read.")] = None,
    id_: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="The event's id: sent twice, it counts once.")
    ] = None,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Send an event of another system to a run, for a step of kind `wait`. An early event is kept for a day."""
    perform(_send(run, (name, key, payload), id_, by, as_json), as_json)


@dataclass(frozen=True)
class Target:
    """The runs that a command is for: one run, those of a blueprint, or all that have not ended."""

    run: str | None
    blueprint: str | None
    all: bool

    @property
    def is_one_run(self) -> bool:
        """Return whether a single run was named. Raises `BadUsage` unless exactly one of the three was."""
        if [self.run is not None, self.blueprint is not None, self.all].count(True) != 1:
            raise BadUsage("name one run, or give --blueprint NAME or --all")
        return self.run is not None

    async def names(self, runs: Runs) -> list[str]:
        """Return the full ids of the runs."""
        if self.is_one_run:
            return [await runs.resolve(self.run or "")]
        return await runs.lists.find_running(self.blueprint)


Effect = tuple[Steered, str]
"""The effect of a command on a run, and what people are told of it."""


async def _each(target: Target, action: Callable[[Runs, str], Awaitable[Effect]], as_json: bool) -> int:
    """Apply the action to each of the runs; the exit code says whether every workflow was reached."""
    is_one_run = target.is_one_run
    runs = (await open_session()).runs
    act = partial(_act_on_one if is_one_run else _act_on_one_of_several, action, runs)
    results = await at_once(act, await target.names(runs))
    if as_json:
        print_json(results[0].written if is_one_run else [result.written for result in results])
    else:
        for line in [line for result in results for line in result.lines]:
            say(line)
        if not results:
            say("No matching run is running.")
    return DONE if all(result.is_done for result in results) else FAILED


@dataclass(frozen=True)
class _RunEffect:
    """What came of a command for one run."""

    written: Mapping[str, Any]
    """As `--json` has it."""
    lines: list[str]
    is_done: bool
    """Whether every workflow of the run was reached."""


async def _act_on_one(action: Callable[[Runs, str], Awaitable[Effect]], runs: Runs, run: str) -> _RunEffect:
    steered, text = await action(runs, run)
    workflows = [f"  {workflow.workflow}: {workflow.reason}" for workflow in [*steered.left, *steered.undone]]
    return _RunEffect(steered.to_json(), [text, *workflows], not steered.left)


async def _act_on_one_of_several(action: Callable[[Runs, str], Awaitable[Effect]], runs: Runs, run: str) -> _RunEffect:
    """Apply the action to a run; that it is refused, or has ended since it was listed, keeps no other from it."""
    try:
        return await _act_on_one(action, runs, run)
    except expected_failures() as error:
        _, failure = describe_failure(error)
        if failure["type"] == "run_closed":
            return _RunEffect(Steered(run, "closed").to_json(), [str(failure["message"])], True)
        return _RunEffect({"run": run, "error": failure}, [f"run {run}: {failure['message']}"], False)


async def _pause(by: str, runs: Runs, run: str) -> Effect:
    steered = await runs.control.pause(run, by)
    if steered.left:
        return steered, f"run {run} was asked to pause; not reached:"
    text = f"run {run} is paused; resume it with: holdfast resume {shlex.quote(run)}"
    if (type_ := (await runs.find(run)).workflow_type) != PIPELINE_WORKFLOW:
        text += f". Its questions and blueprints are paused; everything else in {type_} continues"
    return steered, text


async def _unpause(by: str, runs: Runs, run: str) -> Effect:
    return _tell_of_resume(await runs.control.unpause(run, by))


async def _resume(by: str, runs: Runs, run: str) -> Effect:
    return _tell_of_resume(await runs.control.resume(run, by))


def _tell_of_resume(steered: Steered) -> Effect:
    run, held = steered.run, steered.answered
    if steered.left:
        return steered, f"run {run} was asked to go on; not reached:"
    if held is None:
        return steered, f"run {run} goes on"
    places = ", ".join(place(question.address) for question in held)
    return steered, f"goes on: {places}" if held else f"run {run} was not held; it is {steered.status}"


async def _tell(run: str, text: str, agent: str | None, by: str, as_json: bool) -> int:
    if not text.strip():
        raise BadUsage("TEXT is blank: give the message for the agent")
    session = await open_session()
    run = await session.runs.resolve(run)
    address = await session.runs.control.tell(run, text, agent=agent, by=by)
    return report({"run": run, "agent": address}, f"{place(address)} gets the message in its next turn", as_json)


async def _edit(run: str, changes: list[str], by: str, as_json: bool) -> int:
    values = dict(map(read_change, changes))
    session = await open_session()
    run = await session.runs.resolve(run)
    receipts = await session.runs.control.edit(run, values, by)
    return report(
        [receipt.model_dump(mode="json") for receipt in receipts],
        f"run {run} goes on; changed: {', '.join(values)}",
        as_json,
    )


_PYTHON_WORDS = {"True": "true", "False": "false", "None": "null"}


def read_change(text: str) -> tuple[str, JSON]:
    """Return the path and the value of a PATH=JSON; a value that is not JSON is text.

    Raises `BadUsage` for Python's words for JSON values: as a text each of them would be true.
    """
    path, equals, value = text.partition("=")
    if not equals or not path.strip():
        raise BadUsage(f"--set {text}: write PATH=JSON, such as --set stats.total=3")
    if (meant := _PYTHON_WORDS.get(value.strip())) is not None:
        raise BadUsage(
            f"--set {text}: {value} is a word of Python; in JSON it is {meant}, and the text is '\"{value}\"'"
        )
    return path.strip(), parse_value(value, None)


async def _cancel(seconds: float, force: bool, by: str, runs: Runs, run: str) -> Effect:
    warn = partial(_warn_of_undos, run)
    work = asyncio.create_task(runs.control.cancel(run, wait=seconds, force=force, by=by, warn=warn))
    await asyncio.wait([work], timeout=QUIET_SECONDS)
    if not work.done():
        say(f"waiting up to {seconds:g} s for run {run} to end")
        await show_undoing(runs, run, work)
    steered = await work
    text = f"run {run} is {steered.status}"
    if steered.left:
        hint = "" if force else f" (holdfast cancel {shlex.quote(run)} --force terminates it)"
        asked = "was asked to end" if steered.undoing is None else f"is {steered.undoing}"
        text = f"run {run} {asked}; these have not ended{hint}:"
    elif force:
        text = f"run {run} was terminated; "
        text += "these may not be finished:" if steered.undone else "no activity was running"
    elif steered.undone:
        text += "; these were at work:"
    return steered, text


def _warn_of_undos(run: str, undos: list[OpenUndo] | None) -> None:
    """Tell what a run leaves that is about to be terminated."""
    if undos is None:
        say(f"no worker answers: it is not known what run {run} has done that will not be undone")
    elif undos:
        say(f"run {run} has done this, which will not be undone:")
        for undo in undos:
            say(f"  {place(undo.address)} (undone by {undo.tool})")


async def show_undoing(runs: Runs, run: str, work: asyncio.Future[Steered]) -> None:
    """Say how far the run has come with what it undoes whenever that has changed, until the work is done."""
    told: UndoProgress | None = None
    while not work.done():
        undoing = await runs.control.read_undoing(run)
        if undoing not in (None, told):
            say(str(undoing))
            told = undoing
        await asyncio.wait([work], timeout=UNDOING_SECONDS)


def _seconds(text: str) -> float:
    try:
        return 0.0 if text in ("0", "0s") else read_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--wait") from None


_OUTCOMES = {
    "taken": "The event {event} was taken.",
    "kept": "No step waits for it yet: the run keeps the event {event} for a day.",
    "sent": "No worker answers: the event {event} was sent, and is taken when a worker starts.",
}


async def _send(run: str, event: tuple[str, str, str | None], id_: str | None, by: str | None, as_json: bool) -> int:
    name, key, text = event
    payload = parse_input(text, None)
    runs = (await open_session()).runs
    receipt = await runs.external_events.send(await runs.resolve(run), name, key, payload, id=id_, by=person(by))
    return report(receipt.model_dump(mode="json"), _OUTCOMES[receipt.status].format(event=receipt.event), as_json)
