"""The command line: the table of commands, and the group that loads the one that is used.

A command's file is imported when the command is used, by `Commands.get_command` and nowhere else: Temporal, pydantic
and rich take half a second to import, and `holdfast --help` should take a third of that.
"""

from __future__ import annotations

import gc
import importlib
import signal
import sys
from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperGroup

from holdfast.runtime.distribution import installed_version

USAGE = 2
UNSUPPORTED = ("win32", "cygwin")
"""Systems without the locks, signals and inherited sockets that the local server needs."""
BROKEN_PIPE = 141
"""Exit code that a shell reports for a process ended by SIGPIPE."""
GROUPS = {
    "Run": {
        "run": ("run", "Start a run, answer its questions, print its result."),
        "start": ("run", "Start a run and print its id."),
        "attach": ("run", "Continue a run in this terminal."),
        "schedule": ("schedule", "Start runs at given times or intervals."),
    },
    "Answer": {
        "questions": ("answer", "List open questions; with RUN, those of that run."),
        "answer": ("answer", "Answer a question of a run."),
        "send": ("send", "Send an event of another system to a run."),
        "claim": ("assignments", "Claim a question: nobody else may answer it for a while."),
        "release": ("assignments", "End a claim."),
        "delegate": ("assignments", "Delegate your answer to somebody else."),
        "reassign": ("assignments", "Replace the assignees of a question."),
        "comment": ("record", "Add a comment to a question, in the record."),
        "history": ("history", "List what people did in a run; export and verify the record."),
    },
    "Look": {
        "runs": ("runs", "List runs, newest first."),
        "show": ("runs", "Show a run as a tree: status, questions, steps, context."),
        "follow": ("runs", "Print the events of a run as they happen."),
        "result": ("runs", "Print the result of a run, or its status."),
    },
    "Steer": {
        "pause": ("control", "Pause a run: no further step starts."),
        "resume": ("control", "Resume a run after a pause, a hold or a stop."),
        "cancel": ("control", "Cancel a run."),
        "tell": ("control", "Send a message to an agent of a run."),
        "edit": ("control", "Change the context of a run that has stopped."),
        "plan": ("plan", "Show the plan of a run, or change what has not begun."),
    },
    "Write": {
        "create": ("create", "Create a blueprint from an example, your answers or a plan."),
        "validate": ("validate", "Check a blueprint and list every problem."),
        "explain": ("validate", "Explain in plain words what a blueprint will do."),
        "graph": ("runs", "Print a blueprint as a Mermaid flowchart; --run adds statuses."),
        "test": ("test", "Run the tests of blueprints."),
        "schema": ("validate", "Print the language's JSON Schema, for editors."),
        "docs": ("docs", "List the pages of the documentation, or print one."),
    },
    "Serve": {
        "serve": ("serve", "Serve the inbox and the API for people and programs."),
        "mcp": ("mcp", "Serve runs and questions to an assistant, by MCP."),
        "token": ("serve", "Create, list and revoke API tokens of the server."),
        "dev": ("operations", "Run a local Temporal, its UI and a worker in the foreground."),
        "worker": ("operations", "Run a worker in the foreground, as python worker.py does."),
        "notify": ("notify", "List the notification channels, and test one."),
        "secret": ("secrets", "List, rotate and remove the secrets that people have entered."),
        "doctor": ("doctor", "Find what is wrong with a deployment, and how to fix it."),
        "setup": ("operations", "Prepare a Temporal namespace: search attributes, retention."),
        "replay": ("replay", "Replay recorded histories, or all open runs, on the current code."),
        "erase": ("record", "Erase the contents of a run from the record."),
        "gc": ("operations", "Remove stored large values that no history refers to."),
        "down": ("operations", "Stop the embedded server."),
    },
}
COMMANDS = {name: module for group in GROUPS.values() for name, (module, _) in group.items()}

EXTRAS = {
    **dict.fromkeys(("comment", "erase", "notify", "serve", "token"), "serve"),
    "mcp": "mcp,serve",
}
"""The extra that a command needs."""


class Commands(TyperGroup):
    """A group that knows every command by name and imports the file of the one that is used."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = dict.fromkeys(COMMANDS)  # type: ignore[assignment]  # the names alone, for "did you mean"

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """See base class. Refuses arguments that are not UTF-8: they hold surrogates, which cannot be encoded."""
        for number, word in enumerate(args, 1):
            if any("\ud800" <= character <= "\udfff" for character in word):
                raise typer.BadParameter(f"argument {number} ({ascii(word)}) is not UTF-8 text")
        # The list of commands tells a newcomer more than that one is missing; a shell completes without any.
        if not args and not ctx.resilient_parsing:
            typer.echo(ctx.get_help(), err=True)
            raise typer.Exit(USAGE)
        if args[:1] == ["--json"] and len(args) > 1:  # --json is an option of each command, not of the group
            args = [args[1], "--json", *args[2:]]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """See base class; a closed pipe exits with 141, where typer would report a failure with 1."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise typer.Exit(BROKEN_PIPE) from None

    def list_commands(self, ctx: Any) -> list[str]:
        """See base class."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """See base class."""
        if cmd_name not in COMMANDS:
            return None
        try:
            module = importlib.import_module(f"holdfast.cli.{COMMANDS[cmd_name]}")
        except ModuleNotFoundError as error:
            if cmd_name not in EXTRAS or (error.name or "").startswith("holdfast"):
                raise
            typer.echo(
                f"holdfast {cmd_name} needs more: pip install 'holdfast[{EXTRAS[cmd_name]}]' ({error})", err=True
            )
            raise typer.Exit(USAGE) from None
        gc.freeze()
        gc.enable()
        _take_ctrl_c()
        return typer.main.get_group(module.app).commands[cmd_name]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """See base class; reads the table, so that nothing is imported."""
        for title, group in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:9}", text) for name, (_, text) in group.items()])


def _take_ctrl_c() -> None:
    """Have Ctrl-C raise KeyboardInterrupt from here on, where all is imported: `cli/__main__.py` has it kill."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


app = typer.Typer(cls=Commands, rich_markup_mode=None, add_completion=True, pretty_exceptions_enable=False)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"holdfast {installed_version() or '(a source tree that is not installed)'}")
        raise typer.Exit


@app.callback(
    epilog="Exit codes: 0 done, 1 failed or cancelled, 2 usage, 3 waits for a person, 4 refused, 5 no server."
)
def holdfast(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Durable agent pipelines on Temporal that stop for people."""


def run_command(words: Sequence[str]) -> int:
    """Run the command line in this process, and return its exit code."""
    if sys.platform in UNSUPPORTED:
        typer.echo(
            "Holdfast runs on Linux and macOS. On Windows use it in WSL: https://learn.microsoft.com/windows/wsl",
            err=True,
        )
        return USAGE
    try:
        typer.main.get_command(app)(list(words), prog_name="holdfast")
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except KeyboardInterrupt:
        return 130
    return 0
