"""What is known of the names that an expression reads in one place of a blueprint."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from holdfast.blueprint.expressions.fields import REPLY_FIELDS, SKIP_REASONS
from holdfast.blueprint.kinds import Step
from holdfast.blueprint.shape import TEXT, UNKNOWN, Shape, make_object, make_shape
from holdfast.blueprint.shapes.report import Report

PREVIOUS = ("previous_step", "output")
_STATUSES = ("completed", "skipped")
_REPLY: Mapping[str, Shape] = {
    **dict.fromkeys(REPLY_FIELDS, TEXT),
    "action": make_shape("text", values=("accept", "decline", "cancel", "expire", "default")),
    "by": make_shape("text", "list", element=TEXT),
    "answers": make_shape("list", element=make_object(dict.fromkeys(("by", "at", "content"), UNKNOWN))),
}
LatestWrites = Mapping[tuple[str, ...], tuple[str, Shape]]


@dataclass(frozen=True)
class Place:
    """The names of one place, each with its shape; a name that is not here is unknown."""

    steps: Mapping[str, Shape] = field(default_factory=dict)
    """What `steps.NAME` has."""
    previous: Shape = UNKNOWN
    heard: Shape = UNKNOWN
    """The last answer: `resume_input`."""
    names: Mapping[str, Shape] = field(default_factory=dict)
    null_causes: Mapping[str, str] = field(default_factory=dict)
    """Why the output of a step, by its name, may be null here."""
    certain: frozenset[str] = frozenset({"input"})
    """What surely is there, as its schema says, and not null: `input`, `previous_step`, `steps.NAME.output`."""
    looked_at: frozenset[str] = frozenset()
    """References that a condition around has looked at, such as `steps.ask` and `input.note`."""

    written: Mapping[str, Sequence[Shape]] = field(default_factory=dict)
    """What is written to each key of the context below which nothing is written by itself."""

    latest: LatestWrites = field(default_factory=dict)
    """What steps of this list have surely written last to a path of the context, each with the step's name."""

    def assume(self, looked_at: Collection[str]) -> Place:
        """Return the place where a condition has looked at these references."""
        return replace(self, looked_at=self.looked_at | set(looked_at))

    def join(self, others: Sequence[Place], previous: Shape) -> Place:
        """Return the place that sees the steps of these others, too; which answer was the last one is not known."""
        steps = {name: entry for one in others for name, entry in one.steps.items()}
        causes = {name: cause for one in others for name, cause in one.null_causes.items()}
        return replace(
            self,
            steps={**self.steps, **steps},
            previous=previous,
            heard=UNKNOWN,
            null_causes={**self.null_causes, **causes},
            certain=self.certain - {PREVIOUS[0]},
            latest={},
        )

    def find_certain(self, root: str, keys: Sequence[str]) -> Shape | None:
        """Return what a reference gives that is there in any case; None if it may be missing or null."""
        count = 2 if root == "steps" else 0
        base = PREVIOUS[0] if root in PREVIOUS else ".".join([root, *keys[:count]])
        if base not in self.certain or root in self.names and root != "input":
            return None
        shape: Shape | None = self.find(root)
        for index, key in enumerate(keys):
            if shape is None or (index >= count and (shape.types != {"object"} or key not in shape.required)):
                return None
            shape = shape.find_key(key)
        return shape

    def find(self, name: str) -> Shape:
        if name in self.names:
            return self.names[name]
        if name in PREVIOUS:
            return self.previous
        if name == "resume_input":
            return self.heard
        return make_object(self.steps, is_closed=False, lists_keys=False) if name == "steps" else UNKNOWN


def make_entry(step: Step, output: Shape) -> Shape:
    """Return what `steps.NAME` has of a step; which keys it may have is checked with the names.

    Only after a failure that is handled it may have failed: any other ends the list.
    """
    reason = make_shape("text", "null", values=(*SKIP_REASONS, None))
    statuses = _STATUSES if step.on_error == "fail" else (*_STATUSES, "failed")
    fields = {"output": output, "status": make_shape("text", values=statuses), "reason": reason}
    if step.gives_reply:
        fields["reply"] = make_object({**_REPLY, **{key: Shape(one) for key, one in step.reply_remarks.items()}})
    return make_object(fields, is_closed=False, lists_keys=False)


@dataclass
class JudgedText:
    """One text of a blueprint: what is known in its place, and where its mistakes are reported."""

    place: Place
    path: str
    findings: Report
    ask_nobody: frozenset[str] = frozenset()
    """Steps that have no reply."""

    def report(self, code: str, message: str, hint: str, at: str | None = None) -> None:
        self.findings.add(self.path, code, message, hint, at)

    def warn(self, code: str, message: str, hint: str, at: str | None = None) -> None:
        self.findings.warn(self.path, code, message, hint, at)
