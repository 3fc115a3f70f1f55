"""What every request to an activity says of its failures: the time of an attempt, and how often it is tried."""

from __future__ import annotations

from typing import Self

from holdfast.blueprint.parts import Retry
from holdfast.protocol.values import Value

NOT_LOCAL = "not_local"
"""Type of the failure of a local call that its worker makes as an ordinary one only. It counts for none."""


class ActivityRequest(Value):
    """A request to an activity. The values of a class are those of requests about which the author says nothing."""

    timeout: float = 600.0
    """Seconds for an attempt, kept by the activity: an end by Temporal could not be told from a lost worker."""
    retry: Retry = Retry()
    """What follows a failure of the call. A lost worker is none."""
    failures: int = 0
    """How often the call had failed before, where it was made locally first."""

    def with_policy(self, timeout: float | None, retry: Retry | None) -> Self:
        """Return the request with what the author says; None leaves the value of its class."""
        said = {"timeout": timeout, "retry": retry}
        return self.model_copy(update={key: value for key, value in said.items() if value is not None})


class DescriptionRequest(ActivityRequest):
    """A request that only reads what the worker has."""

    timeout: float = 90.0
    """More than the 60 s of an MCP server's first answer: npx and uvx download a server before its first start."""
    retry: Retry = Retry(attempts=5)


class FileRequest(ActivityRequest):
    """The argument of the activity that reads a file of the worker."""

    timeout: float = 30.0
    path: str
