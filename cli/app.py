"""The command line: the table of commands, and the group that loads the one that is used.

A command's file is imported when the command is used, by `import_commands` and nowhere else: Temporal, pydantic and
rich take half a second to import, and `holdfast --help` should take a third of that.
"""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperGroup

from holdfast.runtime.distribution import find_version

USAGE = 2
UNSUPPORTED = ("win32", "cygwin")
"""Systems without the locks, signals and inherited sockets that the local server needs."""
OBJECTS_BETWEEN_COLLECTIONS = 50_000
"""Python's 700 cost a command that starts a run a twentieth of its time: what it loads then is not garbage."""
BROKEN_PIPE = 141
"""Exit code that a shell reports for a process ended by SIGPIPE."""
GROUPS = {
    "Run": {
        "run": "Start a run, answer its questions, print its result.",
        "start": "Start a run and print its id.",
        "attach": "Continue a run in this terminal.",
        "schedule": "Start runs at given times or intervals.",
    },
    "Answer": {
        "questions": "List open questions; with RUN, those of that run.",
        "answer": "Answer a question of a run.",
        "send": "Send an event of another system to a run.",
        "claim": "Claim a question: nobody else may answer it for a while.",
        "release": "End a claim.",
        "delegate": "Delegate your answer to somebody else.",
        "reassign": "Replace the assignees of a question.",
        "comment": "Add a comment to a question, in the record.",
        "history": "List what people did in a run; export and verify the record.",
    },
    "Look": {
        "runs": "List runs, open ones first, then the newest.",
        "show": "Show a run as a tree: status, questions, steps, context.",
        "follow": "Print the events of a run as they happen.",
        "result": "Print the result of a run, or its status.",
        "diff": "Compare two runs, step by step.",
    },
    "Steer": {
        "pause": "Pause a run: no further step starts.",
        "resume": "Resume a run after a pause, a hold or a stop.",
        "cancel": "Cancel a run.",
        "retry": "Go on with a run that has failed, where it failed.",
        "fork": "Begin a run in the middle of another one.",
        "tell": "Send a message to an agent of a run.",
        "edit": "Change the context of a run that has stopped.",
        "plan": "Show the plan of a run, or change what has not begun.",
    },
    "Write": {
        "create": "Create a blueprint from an example, your answers or a plan.",
        "validate": "Check a blueprint and list every problem.",
        "explain": "Explain in plain words what a blueprint will do.",
        "graph": "Print a blueprint as a Mermaid flowchart; --run adds statuses.",
        "test": "Run the tests of blueprints.",
        "schema": "Print a JSON Schema of files, for editors.",
        "docs": "List the pages of the documentation, or print one.",
    },
    "Serve": {
        "serve": "Serve the inbox and the API for people and programs.",
        "mcp": "Serve runs and questions to an assistant, by MCP.",
        "token": "Create, list and revoke API tokens of the server.",
        "dev": "Run a local Temporal, its UI and a worker in the foreground.",
        "worker": "Run a worker in the foreground, as python worker.py does.",
        "notify": "List the notification channels, and test one.",
        "secret": "List, rotate and remove the secrets that people have entered.",
        "doctor": "Find what is wrong with a deployment, and how to fix it.",
        "setup": "Prepare a Temporal namespace: search attributes, retention.",
        "replay": "Replay recorded histories, or all open runs, on the current code.",
        "erase": "Erase the contents of a run from the record.",
        "gc": "Remove stored large values that no history refers to.",
        "down": "Stop the embedded server.",
    },
}
COMMANDS = [name for group in GROUPS.values() for name in group]

EXTRAS = {
    **dict.fromkeys(("comment", "erase", "notify", "serve", "token"), "serve"),
    "mcp": "mcp,serve",
}
"""The extra that a command needs."""


def import_commands(name: str) -> typer.Typer:
    """Import the file of a command and return the commands in it."""
    commands = _import_commands_for_runs(name) or _import_other_commands(name)
    if commands is None:
        raise LookupError(f"{name} is in GROUPS, and no file has it")
    return commands


def _import_commands_for_runs(name: str) -> typer.Typer | None:
    commands: typer.Typer | None = None
    match name:
        case "run" | "attach":
            from holdfast.cli.run import app as commands  # noqa: PLC0415  see the head of this file
        case "start":
            from holdfast.cli.start import app as commands  # noqa: PLC0415  see the head of this file
        case "retry" | "fork" | "diff":
            from holdfast.cli.going_back import app as commands  # noqa: PLC0415  see the head of this file
        case "schedule":
            from holdfast.cli.schedule import app as commands  # noqa: PLC0415  see the head of this file
        case "questions":
            from holdfast.cli.questions import app as commands  # noqa: PLC0415  see the head of this file
        case "answer":
            from holdfast.cli.answer import app as commands  # noqa: PLC0415  see the head of this file
        case "send" | "pause" | "resume" | "cancel" | "tell" | "edit":
            from holdfast.cli.control import app as commands  # noqa: PLC0415  see the head of this file
        case "claim" | "release" | "delegate" | "reassign":
            from holdfast.cli.assignments import app as commands  # noqa: PLC0415  see the head of this file
        case "comment" | "erase":
            from holdfast.cli.record import app as commands  # noqa: PLC0415  see the head of this file
        case "history":
            from holdfast.cli.history import app as commands  # noqa: PLC0415  see the head of this file
        case "runs" | "result":
            from holdfast.cli.runs import app as commands  # noqa: PLC0415  see the head of this file
        case "show" | "follow":
            from holdfast.cli.show import app as commands  # noqa: PLC0415  see the head of this file
        case "plan":
            from holdfast.cli.plan import app as commands  # noqa: PLC0415  see the head of this file
    return commands


def _import_other_commands(name: str) -> typer.Typer | None:
    commands: typer.Typer | None = None
    match name:
        case "create":
            from holdfast.cli.create import app as commands  # noqa: PLC0415  see the head of this file
        case "validate" | "test":
            from holdfast.cli.validate import app as commands  # noqa: PLC0415  see the head of this file
        case "explain" | "graph":
            from holdfast.cli.explain import app as commands  # noqa: PLC0415  see the head of this file
        case "schema":
            from holdfast.cli.schemas import app as commands  # noqa: PLC0415  see the head of this file
        case "docs":
            from holdfast.cli.docs import app as commands  # noqa: PLC0415  see the head of this file
        case "serve" | "token":
            from holdfast.cli.serve import app as commands  # noqa: PLC0415  see the head of this file
        case "mcp":
            from holdfast.cli.mcp import app as commands  # noqa: PLC0415  see the head of this file
        case "dev" | "worker" | "setup" | "gc" | "down":
            from holdfast.cli.operations import app as commands  # noqa: PLC0415  see the head of this file
        case "notify":
            from holdfast.cli.notify import app as commands  # noqa: PLC0415  see the head of this file
        case "secret":
            from holdfast.cli.secrets import app as commands  # noqa: PLC0415  see the head of this file
        case "doctor":
            from holdfast.cli.doctor import app as commands  # noqa: PLC0415  see the head of this file
        case "replay":
            from holdfast.cli.replay import app as commands  # noqa: PLC0415  see the head of this file
    return commands


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
        """See base class; a closed pipe exits with 141, where typer would report a failure with 1.

        A configuration that cannot be used is told in its own words where a command only reads a file, too.
        """
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")  # pydantic's, by which typer reads a choice
            raise
        except BrokenPipeError:
            raise typer.Exit(BROKEN_PIPE) from None
        except ValueError as error:
            from holdfast.runtime.config import ConfigError  # noqa: PLC0415  see the head of this file

            if not isinstance(error, ConfigError):
                raise
            typer.echo(str(error), err=True)
            raise typer.Exit(USAGE) from None

    def list_commands(self, ctx: Any) -> list[str]:
        """See base class."""
        return COMMANDS

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """See base class."""
        if cmd_name not in COMMANDS:
            return None
        try:
            commands = import_commands(cmd_name)
        except ModuleNotFoundError as error:
            if cmd_name not in EXTRAS or (error.name or "").startswith("holdfast"):
                raise
            typer.echo(
                f"holdfast {cmd_name} needs more: pip install 'holdfast[{EXTRAS[cmd_name]}]' ({error})", err=True
            )
            raise typer.Exit(USAGE) from None
        gc.freeze()
        gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
        gc.enable()
        _take_ctrl_c()
        return typer.main.get_group(commands).commands[cmd_name]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """See base class; reads the table, so that nothing is imported."""
        for title, group in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:9}", text) for name, text in group.items()])


def _take_ctrl_c() -> None:
    """Have Ctrl-C raise KeyboardInterrupt from here on, where all is imported: `cli/__main__.py` has it kill."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


app = typer.Typer(cls=Commands, rich_markup_mode=None, add_completion=True, pretty_exceptions_enable=False)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"holdfast {find_version() or '(a source tree that is not installed)'}")
        raise typer.Exit


@app.callback(
    epilog="Exit codes: 0 done, 1 failed or cancelled, 2 usage, 3 waits for a person, 4 refused, 5 no server, "
    "130 Ctrl-C."
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
