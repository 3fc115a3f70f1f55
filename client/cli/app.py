"""Wires the commands together, and loads the one that is typed.

A command's file is imported when the command is used, by `Commands.get_command` and nowhere else: Temporal, pydantic
and rich take half a second to import, and `holdfast --help` should take a third of that.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from typing import Any

import typer
from typer.core import TyperGroup

BROKEN_PIPE = 141
"""As a shell says it of a process that SIGPIPE ended."""
GROUPS = {
    "Run": {
        "run": ("running", "Start a run, answer what it asks, print its result."),
        "start": ("running", "Start a run and print its id."),
        "attach": ("running", "Go on with a run in this terminal."),
    },
    "Answer": {
        "questions": ("answering", "What waits for whom; with RUN, what that run asks."),
        "answer": ("answering", "Answer a question of a run."),
        "history": ("answering", "Who answered what, when."),
    },
    "Look": {
        "runs": ("looking", "The runs, newest first."),
        "show": ("looking", "A run as a tree: status, questions, steps, context."),
        "follow": ("looking", "The events of a run as they come."),
        "result": ("looking", "How a run ended, or how it stands."),
    },
    "Steer": {
        "pause": ("steering", "Start no further step of a run."),
        "resume": ("steering", "Go on after a pause, a hold or a stop."),
        "cancel": ("steering", "End a run."),
        "tell": ("steering", "Say something to an agent of a run."),
        "edit": ("steering", "Change the context of a run that has stopped."),
        "plan": ("planning", "The plan of a run: see where it stands, change what is left."),
    },
    "Write": {
        "create": ("creating", "A first blueprint: of your answers, or of a plan."),
        "validate": ("authoring", "Check a blueprint; every problem at once."),
        "explain": ("authoring", "What a blueprint will do, in plain words."),
        "graph": ("looking", "A blueprint as a Mermaid flowchart; with --run, where it stands."),
        "test": ("testing", "Run the tests of blueprints."),
        "schema": ("authoring", "The language's JSON Schema, for editors."),
    },
    "Serve": {
        "dev": ("serving", "Local Temporal, its UI and a worker in the foreground."),
        "worker": ("serving", "A worker in the foreground; the same as: python worker.py."),
        "setup": ("serving", "Prepare a Temporal namespace: search attributes, retention."),
        "replay": ("serving", "Replay recorded histories on the code as it is now."),
        "gc": ("serving", "Remove stored large values that no history refers to."),
        "down": ("serving", "Stop the embedded server."),
    },
}
COMMANDS = {name: module for group in GROUPS.values() for name, (module, _) in group.items()}


class Commands(TyperGroup):
    """Knows every command by name, and imports the file of the one that is used."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = dict.fromkeys(COMMANDS)  # type: ignore[assignment]  # the names alone, for "did you mean"

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """See base class. Bytes that are no text come from the system as half characters, which nothing can keep."""
        for number, word in enumerate(args, 1):
            if any("\ud800" <= character <= "\udfff" for character in word):
                raise typer.BadParameter(f"word {number} ({ascii(word)}) is not UTF-8 text")
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """See base class; whoever does not read on is no failed run, which is what typer would make of it."""
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
        module = importlib.import_module(f"client.cli.{COMMANDS[cmd_name]}")
        return typer.main.get_group(module.app).commands[cmd_name]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """See base class; from the table, so that nothing is imported."""
        for title, group in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:9}", text) for name, (_, text) in group.items()])


app = typer.Typer(cls=Commands, rich_markup_mode=None, add_completion=False, pretty_exceptions_enable=False)


def _version(asked: bool) -> None:
    if asked:
        try:
            version = importlib.metadata.version("holdfast")
        except importlib.metadata.PackageNotFoundError:
            version = "(a source tree that is not installed)"
        typer.echo(f"holdfast {version}")
        raise typer.Exit


@app.callback(
    epilog="Exit codes: 0 done, 1 failed or cancelled, 2 usage, 3 waits for a person, 4 refused, 5 no server."
)
def holdfast(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print it."),
) -> None:
    """Durable agent pipelines on Temporal that stop for people."""


def command_line() -> Any:
    """The whole command line, to be called."""
    return typer.main.get_command(app)
