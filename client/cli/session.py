"""The session of a command: configuration, connection and runs; most commands open one first."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from holdfast.client.answering import Answering
from holdfast.client.cli.output import say
from holdfast.client.config import Config, load_config
from holdfast.client.connection import Connection, connect
from holdfast.client.memory import QuestionMemory
from holdfast.client.runs import Runs
from holdfast.client.secrets import keeper


@dataclass(frozen=True)
class Session:
    """The configuration and connection of a command."""

    config: Config
    connection: Connection
    runs: Runs

    def page(self, run: str) -> str | None:
        """Return the address of the run in Temporal's UI; None if the UI's is not known."""
        if self.connection.ui_url is None:
            return None
        namespace = self.connection.client.namespace
        return f"{self.connection.ui_url}/namespaces/{namespace}/workflows/{quote(run, safe='')}"


async def open_session() -> Session:
    """Load the configuration and connect, to the embedded server if no other is configured."""
    config = load_config()
    connection = await connect(config, tell=say)
    answering = Answering(
        keys=config.answer_keys(),
        memory=QuestionMemory(config.home / "questions.json"),
        groups=config.groups,
        secrets=keeper(config, embedded=connection.embedded),
        limits=config.limits,
    )
    return Session(config, connection, Runs(connection.client, connection.task_queue, answering))
