"""The arguments that a run is started with: they hold its blueprint, and load the language.

Clients make them, and workflows get them. What workflows of a run give each other is in `children`, what every reader
needs in `views`.
"""

from __future__ import annotations

from pydantic import Field

from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds import Blueprint
from holdfast.protocol.access import AccessPolicy
from holdfast.protocol.address import Address
from holdfast.protocol.display import markdown, one_line
from holdfast.protocol.incoming import KeptHint
from holdfast.protocol.names import LONGEST_SUMMARY
from holdfast.protocol.past import Past
from holdfast.protocol.people import EVERYBODY, CanonicalName, People
from holdfast.protocol.size_limits import LARGEST_VALUE, SizeLimits
from holdfast.protocol.values import Value


def write_summary(text: str) -> str:
    r"""Return a summary for Temporal's UI, which reads Markdown there, cut to what the server takes.

    >>> len(write_summary("é" * 300).encode()), write_summary("revise 2 · ![x](y)")
    (200, 'revise 2 · !\\[x\\](y)')
    """
    text = one_line(text).encode()[:LONGEST_SUMMARY].decode(errors="ignore")
    while (over := len((escaped := markdown(text)).encode()) - LONGEST_SUMMARY) > 0:
        # Cut before escaping: half of a code span would be none. A character has up to 4 bytes.
        text = text[: -over // 4]
    return escaped


class HistoryLimits(Value):
    """The length at which a workflow of a run continues as new, between two rounds of its work.

    Fixed when the run starts: a changed value would change a replay.
    """

    events: int = Field(1_000, ge=1)
    bytes: int = Field(4_000_000, ge=1)
    """The requests of an agent hold its whole conversation: 40 turns with results of 8 kB took 7.5 MB inline."""
    commands: int = Field(1_000, ge=1)
    """Updates and signals. Below `busy_from` of a deployment, so that a workflow is never busy for long."""
    rounds: int = Field(50, ge=1)
    """Turns of an agent, items of a plan's loop; a loop has `checkpoint_every` instead."""
    items: int = Field(50, ge=2)
    """Items of a map in one history. They begin in one activation: 1,000 that each copied a context of 175 kB tripped
    the deadlock detector, 100 did not."""
    undos: int = Field(1_000, ge=1)
    """Undos that a block keeps: those of a loop in it are carried from history to history."""
    value: int | None = Field(LARGEST_VALUE, ge=1)
    """Bytes of what goes to another workflow, to an activity or to the next history: a server takes 2 MiB, and fails
    the task of whoever sends more, again and again. None: large values are stored outside."""


class LossPolicy(Value):
    """How a lost worker is noticed, and when its call is handed out again. Fixed when the run starts, in seconds."""

    heartbeat: float = Field(10.0, gt=0)
    """A worker that was not heard from for so long is lost."""
    backoff: float = Field(1.0, gt=0)
    """Pause after the first loss of a call."""
    factor: float = Field(2.0, ge=1)
    longest: float = Field(600.0, gt=0)
    """The pauses grow to this: a call that ends its worker again and again must not take all of them."""


class Definition(Value):
    """The argument that says what a workflow executes; it never changes while the workflow runs."""

    blueprint: Blueprint
    run: str
    """The run's id. Empty for the run's own workflow, whose id it is."""
    guarded: bool = False
    """True if commands need a token; signals are then refused."""
    access: AccessPolicy = AccessPolicy()
    """Who may do what with the run, as its blueprint says."""
    started_by: CanonicalName | None = None
    """For workflows inside a run: the user who started the run. The run itself has it in its state."""
    size_limits: SizeLimits = SizeLimits()
    """Limits of signals, and of the run's input. Fixed at the start: a changed setting must not change a replay."""
    history_limits: HistoryLimits = HistoryLimits()
    loss_policy: LossPolicy = LossPolicy()
    local_tools: list[str] = []
    """The tools that are called in the workflow's own task, as a worker said before the start."""
    label: str | None = None
    """For workflows inside an item of a map: what people read of the item."""
    people: People = EVERYBODY
    """For workflows inside a step with assignees: who may answer what is asked there."""
    undo_room: int | None = None
    """How many undos of its steps a block around it takes; None: there is no such block."""
    past: Past | None = None
    """What the same workflow did in the run that this one goes on from; for its first history alone."""


class PipelineState(Value):
    """The argument that a run starts with, beside its definition."""

    input: JSON = None
    started_by: CanonicalName | None = None
    address: Address | None = None
    """Where an author's workflow runs it; None: it is a run itself."""
    paused: bool = False
    kept: list[KeptHint] = []
    """Events that the author's workflow keeps."""
