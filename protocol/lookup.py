"""Arguments and results of the look-up before a start: a client asks a worker about the names in a blueprint."""

from __future__ import annotations

from typing import Literal

from holdfast.protocol.values import Value

CODES = ("bad_script", "model_auth", "not_allowed", "unknown_group", "unknown_model", "unknown_tool")
"""Codes of a `Missing`; any other error of the activity is reported as the last one."""
LOOK_UP = "look_up"
"""Name of the activity."""
LOOK_UP_WORKFLOW = "LookUp"
"""Name of the workflow that calls it, for servers that have no standalone activities."""


class Wanted(Value):
    """A name in a blueprint that stands for something of the worker's."""

    kind: Literal["tool", "plan_tool", "model", "group"]
    name: str
    about: str = ""
    """For a `plan_tool`: its task. The plan may use another tool that fits it."""


class LookUp(Value):
    """A request to look names up."""

    wanted: list[Wanted]
    connect: bool = False
    """True: connect to MCP servers to check their tools too."""


class Missing(Value):
    """A name that the worker does not have, or cannot use."""

    wanted: Wanted
    code: str
    """One of `CODES`."""
    message: str


class LookedUp(Value):
    """The names that the worker does not have."""

    missing: list[Missing] = []
