"""What most commands begin with: the configuration, a connection, the runs."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from client.answering import Answering
from client.config import Config, load_config
from client.connection import Connection, connect
from client.runs import Runs
from client.secrets import keeper


@dataclass(frozen=True)
class Session:
    """A connected command."""

    config: Config
    connection: Connection
    runs: Runs

    def page(self, run: str) -> str | None:
        """Where Temporal's UI shows the run, if that is known."""
        if self.connection.ui_url is None:
            return None
        namespace = self.connection.client.namespace
        return f"{self.connection.ui_url}/namespaces/{namespace}/workflows/{quote(run, safe='')}"


async def open_session() -> Session:
    """Connect, to the embedded server if no other is configured."""
    config = load_config()
    connection = await connect(config)
    answering = Answering(
        key=config.answer_key(),
        memory=config.home / "questions.json",
        groups=config.groups,
        secrets=keeper(config, embedded=connection.embedded),
    )
    return Session(config, connection, Runs(connection.client, connection.task_queue, answering))
