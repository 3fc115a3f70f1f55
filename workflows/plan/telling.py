"""The events by which the units of a plan are told."""

from __future__ import annotations

from holdfast.blueprint.plan import LoopUnit, StepUnit, Unit, asks
from holdfast.protocol.events import StepCompleted, StepFailed, StepSkipped
from holdfast.protocol.plans import StepResult
from holdfast.workflows.frame import Frame
from holdfast.workflows.plan.scope import Fail, Skip


def tell(here: Frame, id_: str, kind: str, result: StepResult) -> None:
    """The event of a step's end."""
    match result.status:
        case "completed":
            here.note(StepCompleted(name=id_, kind=kind, output=result.value))
        case "skipped":
            here.note(StepSkipped(name=id_, kind=kind, reason=result.reason))
        case _:
            error = result.error or {"type": result.status, "message": f"{id_} was {result.status}"}
            here.note(StepFailed(name=id_, kind=kind, error=error["type"], message=error["message"]))


def tell_settled(unit: Unit, verdict: Skip | Fail, frame: Frame) -> None:
    """The event of a unit that did not run."""
    kind, id_ = segment_of(unit)
    here = frame.at(kind, id_)
    match verdict:
        case Skip(reason=reason):
            here.note(StepSkipped(name=id_, kind=kind, reason=reason))
        case Fail(type=type_, message=message):
            here.note(StepFailed(name=id_, kind=kind, error=type_, message=message))


def segment_of(unit: Unit) -> tuple[str, str]:
    """What an address calls it."""
    if isinstance(unit, LoopUnit):
        return "loop", unit.id
    assert isinstance(unit, StepUnit)
    return ("hitl" if asks(unit.step) else "step"), unit.id
