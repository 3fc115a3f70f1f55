"""What stands in for local activities on a worker that calls nothing: an ordinary call follows, for another worker."""

from __future__ import annotations

from collections.abc import Callable

from temporalio import activity
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from holdfast.protocol.activity_request import NOT_LOCAL
from holdfast.protocol.agents import MAY_BE_LOCAL


def make_held_activities() -> list[Callable[..., object]]:
    """Return activities with the names of those that may be called locally, which refuse every call.

    Without them a local call would fail the workflow's task, which then takes no answer.
    """
    return [_make_refusal(name) for name in MAY_BE_LOCAL]


def _make_refusal(name: str) -> Callable[..., object]:
    @activity.defn(name=name)
    async def refuse(request: RawValue) -> None:
        raise ApplicationError(f"this worker is on hold, and makes no {name}", type=NOT_LOCAL)

    return refuse
