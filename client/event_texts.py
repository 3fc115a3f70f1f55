"""Lines of text for events and values, as a terminal and the pages of a run show them alike."""

from __future__ import annotations

from rich.text import Text

from holdfast.blueprint.amounts import say_count
from holdfast.blueprint.step_traits import find_traits
from holdfast.client.texts import name_by, preview
from holdfast.protocol.address import name_at, parts
from holdfast.protocol.display import one_line
from holdfast.protocol.events import (
    AgentShortened,
    AgentTold,
    BranchStarted,
    CacheWasHit,
    DeadlinePassed,
    Event,
    ItemStarted,
    LoopCompleted,
    LoopIteration,
    ModelReplied,
    Names,
    PlanCompleted,
    PlanRevised,
    QuestionAccepted,
    QuestionAnswered,
    QuestionClaimed,
    QuestionClosed,
    QuestionDelegated,
    QuestionEscalated,
    QuestionEvent,
    QuestionExpired,
    QuestionMet,
    QuestionReassigned,
    QuestionReleased,
    QuestionReminded,
    QuestionReturned,
    QuestionSuperseded,
    QuestionVerified,
    RunResumed,
    StateLeft,
    StepCompleted,
    StepFailed,
    StepRetrying,
    StepSkipped,
    StepUndoing,
    StepUndone,
    ToolDenied,
    ToolFailed,
    ToolReturned,
)

MOST_COUNTED = 10
"""The most items of a map that get a line each."""


def progress(event: Event) -> Text | None:
    """Return the progress line for an event; None for events that people need not see."""
    line = _describe_question(event) if isinstance(event.data, QuestionEvent) else _describe_work(event)
    if line is None:
        return None
    kinds = [kind for kind, _, _ in parts(event.address)]
    inside = sum(kind in ("loop", "map") for kind in kinds) - (kinds[-1] == "loop")
    return Text("  " * inside).append(line)


def _describe_work(event: Event) -> Text | None:
    """Return the line of an event that is not about a question."""
    name = parts(event.address)[-1][1]
    return _describe_step(event, name) or _describe_call(event, name) or _describe_block(event, name)


def _describe_step(event: Event, name: str) -> Text | None:
    line: Text | None = None
    match event.data:
        case StepCompleted(kind=step_kind, output=output) if find_traits(step_kind).shows_output:
            line = Text(f"✓ {name}  ").append(preview(output), "dim")
        case CacheWasHit():
            line = Text(f"✓ {name}  ").append("from the cache", "dim")
        case StepSkipped(reason=reason):
            line = Text(f"· {name} skipped" + (f": {one_line(reason)}" if reason else ""), "dim")
        case StepFailed(message=message):
            line = Text(f"✗ {name}  {one_line(message)}", "red")
        case StepRetrying(tool=str(other), instead_of=str(missing)):
            line = Text(f"↻ {one_line(other)} is called in place of {one_line(missing)}", "yellow")
        case StepRetrying():
            line = Text(f"↻ {name} is tried again", "yellow")
        case StepUndoing(number=number, total=total):
            line = Text(f"↶ {name}  undoing {number} of {total}", "dim")
        case StepUndone(tool=tool, error=None):
            line = Text(f"↶ {name}  undone by {tool}", "yellow")
        case StepUndone(message=message):
            line = Text(f"✗ {name}  {one_line(message or '')}", "red")
        case RunResumed():
            line = Text("resumed", "yellow")
    return line


def _describe_call(event: Event, name: str) -> Text | None:
    """Return the line of an event of an agent, or of a call of a tool."""
    line: Text | None = None
    match event.data:
        case ToolReturned() if parts(event.address)[-1][0] == "tool":
            line = Text(f"  ✓ {name} was called", "dim")
        case ToolDenied(reason=text) | ToolFailed(message=text):
            line = Text(f"  ✗ {name}  {one_line(text)}", "yellow")
        case ModelReplied(finish=finish) if finish != "finished":
            line = Text(f"↻ {name}  the model's reply was {finish.replace('_', ' ')}", "yellow")
        case AgentShortened(turns=turns, summarized=summarized):
            what = "summarized" if summarized else "left out"
            line = Text(f"↻ {name}  the conversation is long: {say_count(turns, 'turn')} {what}", "yellow")
        case AgentTold(text=text, by=by):
            line = Text(f"→ {name}  ", "cyan").append(preview(text)).append(name_by(by), "dim")
    return line


def _describe_block(event: Event, name: str) -> Text | None:
    """Return the line of an event of a step with steps inside, or of a plan."""
    line: Text | None = None
    match event.data:
        case LoopIteration(iteration=number, item=item):
            line = Text(f"{name} {number}", "bold").append("" if item is None else f": {preview(item)}", "dim")
        case ItemStarted(index=index, total=int(total), label=label) if _is_counted(index, total):
            line = Text(f"{name} {index + 1} of {total}", "bold").append(f"  {one_line(label or '')}".rstrip(), "dim")
        case DeadlinePassed():
            line = Text(f"✗ {name}  its deadline has passed", "yellow")
        case BranchStarted():
            line = Text(f"→ {name}", "dim")
        case StateLeft(state=state, next=following):
            line = Text(f"→ {name}: from {state} to {following}", "dim")
        case LoopCompleted(iterations=iterations, reason=reason):
            line = Text(f"{name}: {say_count(iterations, 'iteration')}, {reason}", "dim")
        case PlanRevised(revision=number, by=by, reason=reason):
            line = Text(f"↻ {name} is at revision {number}", "yellow").append(name_by(by), "dim")
            line.append(f"  {one_line(reason or '')}", "dim")
        case PlanCompleted(status="completed_with_errors" as status):
            line = Text(f"{name}: {status}", "yellow")
        case PlanCompleted(note=str() as note):
            line = Text(f"{name}: {one_line(note)}", "yellow")
    return line


def _is_counted(index: int, total: int) -> bool:
    """Return whether an item gets a line of progress: each of a few, else one for each tenth of the list."""
    return total <= MOST_COUNTED or index * 10 // total != (index - 1) * 10 // total


def _describe_question(event: Event) -> Text | None:
    name = name_at(event.address)
    line: Text | None = None
    match event.data:
        case QuestionAnswered(content=content, by=by):
            line = Text(f"← {name}  ").append(preview(content), "cyan").append(name_by(by), "dim")
        case QuestionAccepted(content=content, by=by, so_far=so_far, quorum=quorum):
            line = Text(f"← {name}  ").append(preview(content), "cyan").append(name_by(by), "dim")
            line.append(f"  {so_far} of {quorum}", "dim")
        case QuestionMet(content=content, by=by, secret=secret):
            shown = "" if secret else preview(content)
            line = Text(f"← {name}  ", "dim").append(f"{shown}{name_by(by)}, in the earlier run", "dim")
        case QuestionReminded(n=n, assignees=assignees):
            line = Text(f"↻ {name}  reminder {n}", "yellow").append(_for(assignees), "dim")
        case QuestionEscalated(assignees=assignees):
            line = Text(f"↑ {name}", "yellow").append(_for(assignees), "dim")
        case QuestionClaimed(by=by):
            line = Text(f"↻ {name}  claimed", "dim").append(name_by(by), "dim")
        case QuestionReleased(by=by):
            line = Text(f"↻ {name}  released", "dim").append(name_by(by), "dim")
        case QuestionDelegated(by=by, to=to):
            line = Text(f"→ {name}  delegated to {one_line(to)}", "yellow").append(name_by(by), "dim")
        case QuestionReassigned(by=by, assignees=assignees):
            line = Text(f"→ {name}  reassigned", "yellow").append(_for(assignees), "dim").append(name_by(by), "dim")
        case QuestionVerified(verified=True):
            line = Text(f"✓ {name}  the answer was checked", "dim")
        case QuestionVerified(given_back=given_back, reason=reason):
            what = "given back" if given_back else "not verified"
            line = Text(f"↻ {name}  {what}: {one_line(reason or '')}", "yellow")
        case QuestionReturned(reason=reason):
            line = Text(f"↻ {name}  given back: {one_line(reason)}", "yellow")
        case QuestionClosed(type=type_, by=by):
            line = Text(f"← {name}  {type_.removeprefix('question.')}", "yellow").append(name_by(by), "dim")
    return line


def closing_text(closed: QuestionClosed) -> str:
    """Return what became of a question, and by whom: for whoever was about to answer it."""
    if isinstance(closed, QuestionExpired):
        default = "" if closed.default is None else f", and the default counts: {preview(closed.default)}"
        return f"its deadline has passed{default}"
    if isinstance(closed, QuestionSuperseded):
        return "another branch came first"
    by = f" by {one_line(', '.join(closed.people))}" if closed.people else ""
    return f"it was {closed.type.removeprefix('question.')}{by} meanwhile"


def _for(assignees: Names | None) -> str:
    if not assignees:
        return ""
    return f"  for {one_line(assignees if isinstance(assignees, str) else ', '.join(assignees))}"
