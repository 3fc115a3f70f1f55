"""Tools that stop for people; each call appends a line to a file, so that it can be counted."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred

from holdfast.activities import BadAnswer, Decision, Input, Interrupt, Permission, agent, level, resumed, tool
from holdfast.blueprint.parts import Option
from holdfast.blueprint.questions import Choice
from tests.tools import count


class Kept(BaseModel):
    """What `book` keeps."""

    price: int


class City(BaseModel):
    """What a person tells `foreign`."""

    name: str


class Seat(Input):
    """A question with a field of its own, but no kind."""

    row: int = 1


@tool
def book(folder: str, flight: str) -> str:
    """Book a flight."""
    count(folder, "book")
    seat = resumed(str, Kept)
    if not seat.has_data:
        raise Interrupt({"message": f"Which seat on {flight}?", "price": 40}, Kept(price=40))
    return f"{flight} {seat.data} {seat.state.price}"


@tool
async def research(folder: str, topics: list[str]) -> dict[str, Any]:
    """Look into topics at once; what a person has said of one is not asked again, nor looked up twice."""
    count(folder, "research")
    found: dict[str, str] = resumed(state=dict[str, str]).state or {}

    async def one(topic: str) -> None:
        with level(topic):
            said = resumed(str)
            if topic in found:
                return
            if not said.has_data:
                raise Interrupt(f"What about {topic}?", f"asked {topic}")
            count(folder, topic)
            found[topic] = f"{said.data} by {said.by}"

    parts = await asyncio.gather(*(one(topic) for topic in topics), return_exceptions=True)
    if any(parts):
        raise Interrupt.all(parts, info={"topics": topics}, state=found)
    return found


research_here = tool(name="research_here", local=True, idempotent=True)(research)


@tool
async def swallows() -> list[str]:
    """Ask in tasks whose exceptions nobody looks at, as a library does that calls tools for a model."""

    async def ask(topic: str) -> str:
        with level(topic):
            said = resumed(str)
            if not said.has_data:
                raise Interrupt(f"What about {topic}?")
            return str(said.data)

    found = await asyncio.gather(ask("a"), ask("b"), return_exceptions=True)
    return [one for one in found if isinstance(one, str)]


@tool
def two_rounds(folder: str) -> str:
    """Asks, and asks again."""
    count(folder, "two_rounds")
    said = resumed(str, list[str])
    heard = [*(said.state or []), *([said.data] if said.has_data else [])]
    if len(heard) < 2:
        raise Interrupt(Input(message=f"Question {len(heard) + 1}?"), heard)
    return " and ".join(heard)


@tool
def stubborn() -> str:
    """Catches all that it can."""
    try:
        said = resumed(str)
        if not said.has_data:
            raise Interrupt("Really?")
    except Exception:  # noqa: BLE001 that is the point
        return "swallowed"
    return str(said.data)


@tool
def looks_at_itself(folder: str) -> list[Any]:
    """What it knows of itself: in all, at a level that is answered, at one that is not, and at one that never asked."""
    count(folder, "looks")

    def seen(name: str, data: Any, state: Any) -> list[bool]:
        with level(name):
            here = resumed(data, state)
            return [here.was_interrupted, here.has_state, here.is_target, here.has_data]

    top = resumed()
    known = [[top.was_interrupted, top.is_target], seen("a", int, str), seen("b", str, int), seen("c", str, str)]
    if count(folder, "rounds") == 3:
        return known
    parts = []
    for name in ("a", "b"):
        with level(name):
            parts.append(Interrupt(f"{name}?", "text"))
    raise Interrupt.all(parts)


@tool
def seats(folder: str) -> str:
    """Refuses what is no seat, in its own words; reads a whole number without a look at whether it is one."""
    with level("seat"):
        seat = resumed(str)
        if not seat.has_data:
            raise Interrupt("Which seat?")
        if not seat.data[0].isdigit():
            raise BadAnswer(f"{seat.data!r} is no seat, such as 12A")
    with level("bags"):
        bags = resumed(int)
        if not bags.was_interrupted:
            raise Interrupt("How many bags?")
        total = bags.data * 10
    count(folder, "paid")
    return f"{seat.data} {total}"


@tool
def insists(folder: str) -> str:
    """Interrupts as long as there is no whole number."""
    if not (number := resumed(int)).has_data:
        raise Interrupt("How many?")
    return str(number.data)


@tool(idempotent=True)
def may_run_twice(folder: str) -> str:
    """Reads an answer as it came."""
    if not (answer := resumed()).has_data:
        raise Interrupt("Which city?")
    return str(answer.data["city"])


@agent
def foreign(text: str) -> str:
    """An agent of another library: reads what a person says by its own type."""
    with level("city"):
        answer = resumed(City)
        if not answer.was_interrupted:
            raise Interrupt("Which city?")
        return f"to {answer.data.name}"


@tool
def hosts_adk(payload: dict[str, int] | None = None) -> list[Any]:
    """Asks for what an agent of Google's ADK wants confirmed, as its events have it."""
    confirmed = resumed()
    if not confirmed.has_data:
        call = {"id": "c1", "name": "book_leave", "args": {"days": 3}}
        made = (
            "Please approve or reject the tool call book_leave() by responding with a FunctionResponse with an expected"
        )
        wanted = {"hint": f"{made} ToolConfirmation payload.", "confirmed": False}
        wanted |= {"hint": "Book 3 days?", "payload": payload} if payload else {}
        args = {"originalFunctionCall": call, "toolConfirmation": wanted}
        raise Interrupt({"id": "adk-1", "name": "adk_request_confirmation", "args": args})
    return [confirmed.data]


@tool
def gives_nothing_back() -> None:
    raise BadAnswer("of nobody")


@tool
async def in_a_group() -> str:
    """Raises out of a task group."""

    async def ask() -> str:
        said = resumed(str)
        if not said.has_data:
            raise Interrupt("In a group?")
        return str(said.data)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(ask())
    return task.result()


@tool(idempotent=True)
def exchange(folder: str, key: str) -> str:
    """Ask three questions in ever other words, the last only now and then; fail on an answer to any other question."""
    run = count(folder, key)
    parts = []
    for name in ("a", "b", "c"):
        with level(name):
            said = resumed(str, str)
            if said.has_data and said.data != f"yes, {said.state}":
                # Not a wrong value, for which the answer would be given back, and the run would never end.
                raise RuntimeError(f"{said.data!r} is no answer to {said.state!r}")
            if not said.has_data and (name != "c" or run % 2):
                asked = f"{key} {name} {run // 2}?"
                parts.append(Interrupt(asked, asked))
    if parts:
        raise Interrupt.all(parts)
    return "heard"


@tool
def two_at_one_place() -> None:
    raise Interrupt.all([Interrupt("one"), Interrupt("two")])


@tool
def wants_leave(amount: int) -> str:
    """A tool written for pydantic-ai."""
    if not resumed().has_data:
        raise ApprovalRequired
    return f"paid {amount}"


@tool
def asks_then_wants_leave(always: bool = False) -> str:
    """Asks, then wants leave, at one and the same place."""
    account = resumed(str)
    if not account.has_data:
        raise Interrupt("Which account?", "kept")
    if always or not resumed().approved:
        raise ApprovalRequired
    return f"paid from {account.data}, {resumed(state=str).state}"


@tool
async def leave_in_a_group(broken: bool = False) -> str:
    """Two tasks that each want leave, and one that may fail."""

    async def want() -> None:
        if not resumed().approved:
            raise ApprovalRequired

    async def fail() -> None:
        if broken:
            raise OSError("no such account")

    async with asyncio.TaskGroup() as group:
        for one in (want, want, fail):
            group.create_task(one())
    return "paid"


@tool
def says(what: str) -> Any:
    """Gives, asks or keeps what is no JSON, or asks nothing."""
    half = "\ud800"
    match what:
        case "result":
            return {"a": [half]}
        case "key":
            return {half: 1}
        case "text":
            raise Interrupt(half)
        case "info":
            raise Interrupt({"message": "Go?", "more": half})
        case "state":
            raise Interrupt("Go?", half)
        case "nan":
            raise Interrupt("Go?", {"price": float("nan")})
        case "blank":
            raise Interrupt(Input(message=" "))
        case "choice":
            raise Interrupt(Decision(message="Which seat?"))
        case "kind":
            raise Interrupt(Seat(message="Which seat?"))
    raise OSError(half)


@tool
def done_elsewhere() -> str:
    """A tool written for pydantic-ai, whose work somebody else does."""
    raise CallDeferred


class OldPause(Exception):
    """How an older library stops."""


@tool(interrupts=[OldPause])
def legacy() -> str:
    said = resumed(str)
    if not said.has_data:
        raise OldPause("Continue?")
    return str(said.data)


class NeedsSignature(Exception):
    """How a library of contracts stops."""

    def __init__(self, page: int) -> None:
        super().__init__(f"page {page} is not signed")
        self.page = page


@dataclass
class Halted:
    """What another library returns where it waits for a decision."""

    choices: list[str]


def signature(error: NeedsSignature) -> Input:
    return Input(message=f"Who signs page {error.page}?", form={"type": "string", "minLength": 2})


def choice(halted: Halted) -> Decision:
    options = [{"id": name} for name in halted.choices]
    return Decision.model_validate({"message": "Which way?", "options": options})


@tool(interrupts={NeedsSignature: signature})
def sign_page() -> str:
    signer = resumed(str)
    if not signer.has_data:
        raise NeedsSignature(3)
    return f"signed by {signer.data}"


@tool(interrupts={Halted: choice})
def halts() -> Any:
    way = resumed(str)
    return way.data if way.has_data else Halted(["a", "b"])


@tool(interrupts={ValueError: lambda error: error.no_such_attribute})
def mistranslated() -> None:
    raise ValueError("stop")


@tool
def decides() -> Any:
    said = resumed()
    if not said.has_data:
        raise Interrupt(Decision.model_validate({"message": "Which?", "options": [{"id": "a"}, {"id": "b"}]}))
    return said.data


@tool
def asks_leave(folder: str) -> str:
    said = resumed(dict[str, Any])
    if not said.has_data:
        raise Interrupt(Permission(message="May it?"))
    if not said.data["granted"]:
        return "no: " + said.data.get("reason", "")
    count(folder, "did")
    return "did it"


@tool
def changes_its_mind(folder: str) -> list[Any]:
    """Asks for an amount and for leave at once; in its second run it waits for the file `go`, and asks for more."""
    runs = count(folder, "runs")
    while runs == 2 and not (Path(folder) / "go").exists():
        time.sleep(0.01)
    with level("a"):
        amount = resumed(int)
        first = None if amount.has_data else Interrupt("How much?")
    with level("b"):
        leave = resumed(dict[str, Any])
        second = None if leave.has_data else Interrupt(Permission(message=f"May {100 if runs == 1 else 1000} be paid?"))
    if first or second:
        raise Interrupt.all([first, second])
    return [amount.data, leave.data["granted"]]


@tool
def one_after_the_other(folder: str) -> str:
    """First `a`, which keeps something, then `b`."""
    with level("a"):
        a = resumed(str, str)
        kept = a.state or ("costly" if count(folder, "search") else "")
        if not a.has_data:
            raise Interrupt("a?", kept)
    with level("b"):
        b = resumed(str)
        if not b.has_data:
            raise Interrupt("b?")
    return f"{kept} {a.data} {b.data}"


@tool
def counting(folder: str, topics: list[str]) -> int:
    """Tells in its composite how many are found."""
    parts, found = [], 0
    for topic in topics:
        with level(topic):
            if resumed().has_data:
                found += 1
            else:
                parts.append(Interrupt(topic))
    if parts:
        raise Interrupt.all(parts, info=f"{found} found")
    return found


@tool
def bad_form() -> None:
    raise Interrupt(Input(message="?", form={"type": "integr"}))


@tool
def deploy(folder: str, env: str = "prod") -> str:
    """Deploys; to production where nothing is said."""
    count(folder, "deploy")
    return env


@tool
def chooses() -> str:
    """Let somebody choose."""
    chosen = resumed(str)
    if not chosen.has_data:
        options = [Option(id="a", label="This"), Option(id="b", label="That")]
        raise Interrupt(Choice(message="Which?", options=options))
    return str(chosen.data)


@tool
def asks_in_other_words() -> list[Any]:
    """Asks two things at once; once the first is known, it words the second anew."""
    with level("a"):
        amount = resumed()
        first = None if amount.has_data else Interrupt("How much?")
    with level("b"):
        reason = resumed()
        second = None if reason.has_data else Interrupt("And why?" if first else f"Why {amount.data}?")
    if first or second:
        raise Interrupt.all([first, second])
    return [amount.data, reason.data]
