"""`plan`: the plan of a run as it stands, and changing what is left of it."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from client.cli.flags import AsJson, RunName
from client.cli.output import DONE, USAGE, print_json, say
from client.cli.perform import perform
from client.cli.session import Session, open_session
from client.plan_text import plan_text
from client.plans import Planned
from client.reading import BadUsage, from_json, person, text_of_file, text_of_input
from client.render import MOST_ITERATIONS, console
from protocol.answers import Refusal

app = typer.Typer(rich_markup_mode=None)
NO_EDITOR = "no editor is known: set VISUAL or EDITOR, or send a file with --file NEW.json"
STDIN = Path("-")


@app.command()
def plan(
    run: RunName,
    address: Annotated[
        str | None, typer.Option("--plan", metavar="ADDRESS", help="Which one, if the run has several; a name will do.")
    ] = None,
    edit: Annotated[bool, typer.Option("--edit", help="Change it in your editor: $VISUAL, else $EDITOR.")] = False,
    file: Annotated[
        Path | None, typer.Option("--file", metavar="NEW.json", help="Change it to what stands there; - is piped in.")
    ] = None,
    reason: Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why it is changed.")] = None,
    by: Annotated[
        str | None,
        typer.Option("--by", metavar="USER", help="Who changes it; default: HOLDFAST_USER, else your login."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All items of every loop, not the last ones.")] = False,
    as_json: AsJson = False,
) -> None:
    """The plan of a run and where each step stands, also when it is over; with --edit or --file, change what is left.

    What has begun or is over must stay as it is; every other step may be changed, added or taken out. A change that is
    refused, with exit code 4, leaves the plan as it was, and what you wrote in a file that is named. So does one that
    comes too late: the plan was changed by somebody else after you began.
    """
    if edit and file is not None:
        say("--edit and --file are two ways to say what the plan is to be: choose one")
        raise typer.Exit(USAGE)
    if edit or file is not None:
        change = _Change(run, address, reason or "", person(by), as_json)
        perform(_edit(change) if file is None else _send_file(change, file), as_json)
    if reason is not None or by is not None:
        say("--reason and --by tell of a change: they go with --edit or --file")
        raise typer.Exit(USAGE)
    perform(_show(run, address, None if every else MOST_ITERATIONS, as_json), as_json)


async def _show(run: str, address: str | None, last: int | None, as_json: bool) -> int:
    session = await open_session()
    found = await session.runs.plan(await session.runs.resolve(run), address, last=None if last is None else 100)
    if as_json:
        print_json(found.to_json())
    else:
        console(sys.stdout).print(plan_text(found, last), end="")
    return DONE


@dataclass(frozen=True)
class _Change:
    """A change of a plan, as it was typed."""

    run: str
    address: str | None
    reason: str
    by: str
    as_json: bool

    async def found(self, session: Session) -> Planned:
        """The plan that is to be changed. Raises `Refusal` if it cannot be any more, or not yet."""
        found = await session.runs.plan(await session.runs.resolve(self.run), self.address)
        if found.is_over:
            raise Refusal("run_closed", f"the plan is over ({found.status}); it cannot be changed any more")
        if found.view.status == "waiting":
            raise Refusal("not_allowed", f"the plan is not agreed on yet; see: holdfast questions {found.run}")
        return found

    async def send(self, session: Session, found: Planned, text: str, kept: Path | None) -> int:
        """Send what was written; if it is not taken, say where it is kept."""
        try:
            revision = await session.runs.change_plan(
                found.run,
                _plan_of(text),
                found.address,
                reason=self.reason,
                by=self.by,
                revision=found.view.revision,
            )
        except Refusal as refusal:
            kept = kept or _kept(text, found)
            again = shlex.join(["holdfast", "plan", found.run, "--plan", found.address, "--file", str(kept)])
            told = f"{refusal}\nwhat you wrote is in {kept}; send it again with: {again}"
            raise Refusal(refusal.code, told) from None
        if self.as_json:
            print_json({"run": found.run, "address": found.address, "revision": revision})
        else:
            say(f"the plan of {found.run} is at revision {revision}")
        return DONE


async def _send_file(change: _Change, file: Path) -> int:
    text = text_of_input() if file == STDIN else text_of_file(file)
    session = await open_session()
    return await change.send(session, await change.found(session), text, None if file == STDIN else file)


async def _edit(change: _Change) -> int:
    """Let the person write, and send what they wrote; their file goes when it was taken, or says nothing new."""
    editor = _editor()
    session = await open_session()
    found = await change.found(session)
    before = json.dumps(found.view.plan, indent=2, ensure_ascii=False) + "\n"
    kept = _kept(before, found)
    say(f"you edit {kept}; it stays if the change is not taken")
    _run_editor(editor, kept)
    text = text_of_file(kept)
    if text == before:
        say("nothing was changed")
        code = DONE
    else:
        code = await change.send(session, found, text, kept)
    kept.unlink()
    return code


def _plan_of(text: str) -> Any:
    try:
        return from_json(text)
    except ValueError as error:
        raise Refusal("invalid_answer", f"the plan stays as it is: this is no JSON: {error}") from None


def _kept(text: str, found: Planned) -> Path:
    """A file of its own that holds a text."""
    handle, name = tempfile.mkstemp(prefix=f"plan-{found.run}-", suffix=".json")
    with os.fdopen(handle, "w", encoding="utf-8") as opened:
        opened.write(text)
    return Path(name)


def _editor() -> list[str]:
    words = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "")
    if not words:
        raise BadUsage(NO_EDITOR)
    return words


def _run_editor(editor: list[str], file: Path) -> None:
    """Until the person closes it. Raises `BadUsage` if it does not run, or says that it was given up."""
    shown = None if sys.stdout.isatty() else sys.stderr  # standard output is for the result
    try:
        code = subprocess.run([*editor, str(file)], stdout=shown).returncode
    except OSError as error:
        raise BadUsage(f"the editor {editor[0]} cannot be started: {error.strerror}") from error
    if code != 0:
        raise BadUsage(f"the editor {editor[0]} ended with code {code}")
