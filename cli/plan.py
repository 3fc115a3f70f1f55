"""The command `plan`: show the plan of a run, and change the steps that have not begun."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from holdfast.blueprint.json_values import JSON
from holdfast.cli.command import perform
from holdfast.cli.flags import AsJson, RunName
from holdfast.cli.output import DONE, USAGE, print_json, say
from holdfast.cli.plan_text import plan_text
from holdfast.cli.render import MOST_ITERATIONS
from holdfast.cli.session import Session, open_session
from holdfast.cli.tables import console
from holdfast.client.reading import BadUsage, from_json, person, text_of_file, text_of_input
from holdfast.client.views.plans import PlanView
from holdfast.protocol.answers import Refusal
from holdfast.runtime.embedded import Startup

app = typer.Typer(rich_markup_mode=None)
NO_EDITOR = "no editor is set: set VISUAL or EDITOR, or send a file with --file NEW.json"
STDIN = Path("-")


@app.command()
def plan(
    run: RunName,
    address: Annotated[
        str | None,
        typer.Option("--plan", metavar="ADDRESS", help="The plan's address or name, if the run has several."),
    ] = None,
    edit: Annotated[
        bool, typer.Option("--edit", help="Change the plan in your editor: $VISUAL, else $EDITOR.")
    ] = False,
    file: Annotated[
        Path | None,
        typer.Option("--file", metavar="NEW.json", help="Replace the plan with this file; - reads standard input."),
    ] = None,
    reason: Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="The reason for the change.")] = None,
    by: Annotated[
        str | None,
        typer.Option("--by", metavar="USER", help="Who you are; default: HOLDFAST_USER, else your login."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Show every item of a loop, not only the last ones.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the plan of a run and the status of each step; with --edit or --file, change the steps that have not begun.

    Steps that have begun or ended must stay as they are; all others may be changed, added or removed. A change that is
    refused, or that comes after another person's change, leaves the plan as it was: the exit code is 4, and your text
    is kept in a file whose name is printed.
    """
    if edit and file is not None:
        say("--edit and --file cannot be combined: choose one")
        raise typer.Exit(USAGE)
    if edit or file is not None:
        change = _ChangeCommand(run, address, reason or "", person(by), as_json)
        perform(_edit(change) if file is None else _send_file(change, file), as_json)
    if reason is not None or by is not None:
        say("--reason and --by need --edit or --file")
        raise typer.Exit(USAGE)
    perform(_show(run, address, None if every else MOST_ITERATIONS, as_json), as_json)


async def _show(run: str, address: str | None, last: int | None, as_json: bool) -> int:
    session = await open_session(Startup.NOTHING)
    name = await session.runs.resolve(run)
    planned = await session.runs.plans.read(name, address, last=None if last is None else 100)
    if as_json:
        print_json(planned.to_json())
    else:
        console(sys.stdout).print(plan_text(planned, last), end="")
    return DONE


@dataclass(frozen=True)
class _ChangeCommand:
    """A change of a plan: the arguments of the command."""

    run: str
    address: str | None
    reason: str
    by: str
    as_json: bool

    async def read(self, session: Session) -> PlanView:
        """Return the current plan. Raises `Refusal` if it has ended, or has not been approved yet."""
        planned = await session.runs.plans.read(await session.runs.resolve(self.run), self.address)
        if planned.is_over:
            raise Refusal("run_closed", f"the plan has ended ({planned.status}) and cannot be changed")
        if planned.snapshot.status == "waiting":
            raise Refusal(
                "not_allowed", f"the plan is not approved yet; see: holdfast questions {shlex.quote(planned.run)}"
            )
        return planned

    async def send(self, session: Session, planned: PlanView, text: str, kept: Path | None) -> int:
        """Send the new plan; if it is refused, name the file that keeps its text."""
        try:
            revision = await session.runs.plans.change(
                planned.run,
                _read_plan(text),
                planned.address,
                reason=self.reason,
                by=self.by,
                revision=planned.snapshot.revision,
            )
        except Refusal as refusal:
            kept = kept or _keep(text, planned)
            again = shlex.join(["holdfast", "plan", planned.run, "--plan", planned.address, "--file", str(kept)])
            message = f"{refusal}\nyour text is in {kept}; send it again with: {again}"
            raise Refusal(refusal.code, message) from None
        if self.as_json:
            print_json({"run": planned.run, "address": planned.address, "revision": revision})
        else:
            say(f"the plan of {planned.run} is at revision {revision}")
        return DONE


async def _send_file(change: _ChangeCommand, file: Path) -> int:
    text = text_of_input() if file == STDIN else text_of_file(file)
    session = await open_session()
    return await change.send(session, await change.read(session), text, None if file == STDIN else file)


async def _edit(change: _ChangeCommand) -> int:
    """Open the plan in the editor and send the new text; delete the file if it was accepted or is unchanged."""
    editor = _editor()
    session = await open_session()
    planned = await change.read(session)
    before = json.dumps(planned.snapshot.plan, indent=2, ensure_ascii=False) + "\n"
    kept = _keep(before, planned)
    say(f"editing {kept}; the file is kept if the change is refused")
    _run_editor(editor, kept)
    text = text_of_file(kept)
    if text == before:
        say("No changes.")
        code = DONE
    else:
        code = await change.send(session, planned, text, kept)
    kept.unlink()
    return code


def _read_plan(text: str) -> JSON:
    try:
        plan = from_json(text)
    except ValueError as error:
        raise Refusal("invalid_answer", f"the plan was not changed: this is not JSON: {error}") from None
    if isinstance(plan, dict) and isinstance(plan.get("plan"), dict):
        way = "send the value of its key `plan`, such as that of jq .plan"
        raise Refusal("invalid_answer", f"the plan was not changed: this is what `holdfast plan --json` prints; {way}")
    return plan


def _keep(text: str, planned: PlanView) -> Path:
    """Write the text to a new temporary file and return its path."""
    handle, name = tempfile.mkstemp(prefix=f"plan-{planned.run}-", suffix=".json")
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(text)
    return Path(name)


def _editor() -> list[str]:
    words = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "")
    if not words:
        raise BadUsage(NO_EDITOR)
    return words


def _run_editor(editor: list[str], file: Path) -> None:
    """Run the editor until it is closed. Raises `BadUsage` if it cannot be started or exits with an error."""
    stdout = None if sys.stdout.isatty() else sys.stderr  # standard output is for the result
    try:
        code = subprocess.run([*editor, str(file)], stdout=stdout).returncode
    except OSError as error:
        raise BadUsage(f"the editor {editor[0]} cannot be started: {error.strerror}") from error
    if code != 0:
        raise BadUsage(f"the editor {editor[0]} ended with code {code}")
