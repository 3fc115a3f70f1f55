"""Completion in the shell: the ids of runs and of their open questions.

A server is asked only if one runs already, and for a moment only: the Tab key starts nothing, and never fails. Every
command imports this file for its arguments, and only the Tab key needs what it asks with: that is imported then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from holdfast.client.runs import Runs

Suggestions = list[tuple[str, str]]
"""What may be typed, each with a description."""
PATIENCE_SECONDS = 3.0
MOST = 30


def complete_run(incomplete: str) -> Suggestions:
    """Return the ids of the newest runs that begin like this, each with its blueprint and status."""

    from holdfast.client.listing import runs_beginning  # noqa: PLC0415  see the head of this file

    async def look(runs: Runs) -> Suggestions:
        return [(run, "") for run in await runs_beginning(runs.client, incomplete, MOST)]

    return _ask(look)


def complete_question(ctx: typer.Context, incomplete: str) -> Suggestions:
    """Return the ids of the open questions of the run that was typed, each with its step and message."""
    from holdfast.client.texts import preview  # noqa: PLC0415  see the head of this file
    from holdfast.client.views.questions import QuestionView  # noqa: PLC0415  see the head of this file

    run = ctx.params.get("run")

    async def look(runs: Runs) -> Suggestions:
        questions = await runs.questions(await runs.resolve(str(run)))
        pairs = [
            (question.id, f"{QuestionView(question).asker}: {preview(question.message)}") for question in questions
        ]
        return [pair for pair in pairs if pair[0].startswith(incomplete)]

    return _ask(look) if run else []


def _ask(look: Callable[[Runs], Awaitable[Suggestions]]) -> Suggestions:
    from temporalio.service import RPCError  # noqa: PLC0415  see the head of this file

    from holdfast.cli.session import quiet_core  # noqa: PLC0415
    from holdfast.client.tree import UnknownRun  # noqa: PLC0415
    from holdfast.runtime.config import ConfigError  # noqa: PLC0415
    from holdfast.runtime.errors import ServerUnreachable  # noqa: PLC0415
    from holdfast.runtime.workers import NoWorker  # noqa: PLC0415

    quiet_core()
    with suppress(ConfigError, ServerUnreachable, RPCError, NoWorker, LookupError, UnknownRun, TimeoutError, OSError):
        return asyncio.run(asyncio.wait_for(_look(look), PATIENCE_SECONDS))
    return []


async def _look(look: Callable[[Runs], Awaitable[Suggestions]]) -> Suggestions:
    from holdfast.client.runs import Runs  # noqa: PLC0415
    from holdfast.runtime.config import load_config  # noqa: PLC0415  see the head of this file
    from holdfast.runtime.connection import connect_if_running  # noqa: PLC0415

    config = load_config()
    client = await connect_if_running(config)
    return [] if client is None else await look(Runs(client, config.worker.task_queue))
