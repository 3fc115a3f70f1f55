"""Arguments and results of the look-up before a start: a client asks a worker about the names in a blueprint."""

from __future__ import annotations

from holdfast.blueprint.json_values import JSONObject
from holdfast.blueprint.parts import RequirementKind, Retry
from holdfast.protocol.activity_request import DescriptionRequest
from holdfast.protocol.tool_rules import OwnerRule
from holdfast.protocol.values import Value

CODES = (
    "agent_unsupported",
    "bad_script",
    "bad_tool",
    "import_failed",
    "model_auth",
    "no_worker",
    "not_allowed",
    "tool_input",
    "unknown_agent",
    "unknown_group",
    "unknown_model",
    "unknown_tool",
)
"""Codes of a `Missing`; any other error of the activity is reported as the last one."""
LOOK_UP = "look_up"
"""Name of the activity."""
LOOK_UP_WORKFLOW = "LookUp"
"""Name of the workflow that calls it, for servers that have no standalone activities."""


class RequiredName(Value):
    """A name in a blueprint that stands for something of the worker's."""

    kind: RequirementKind
    name: str
    idempotent: bool = False
    """True if the blueprint says that a call may be made twice."""
    about: str = ""
    """See `Requirement.about`."""
    among: tuple[str, ...] | None = None
    """The tools of which one may take the place of a missing one; empty: any; None: none may."""


class LookUp(DescriptionRequest):
    """A request to look names up; tried once, as a person waits for it."""

    retry: Retry = Retry(attempts=1)
    wanted: list[RequiredName]
    connect: bool = False
    """True: connect to MCP servers to check their tools too."""


class Missing(Value):
    """A name that the worker does not have, or cannot use."""

    wanted: RequiredName
    code: str
    """One of `CODES`."""
    message: str


class ToolForm(Value):
    """What a tool takes and gives, as its annotations say: JSON Schemas."""

    parameters: JSONObject
    """Of the object of its arguments by name."""
    result: JSONObject | None = None
    """Of what it returns; None if that is not known."""


class LookedUp(Value):
    """The names that the worker does not have."""

    missing: list[Missing] = []
    rules: dict[str, OwnerRule] = {}
    """By the name of a tool, what its owner demands before a call."""
    forms: dict[str, ToolForm] = {}
    """By the name of a tool, what it takes and gives."""
    local: list[str] = []
    """The tools that are called in the workflow's own task."""
