"""Graphs of LangGraph, as its documentation has them; nodes that must run once append a line to a file."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from operator import add
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

from langchain_core.tools import tool as langchain_tool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.memory import InMemoryStore
from langgraph.types import Interrupt as GraphInterrupt
from langgraph.types import Send, interrupt
from pydantic import BaseModel, field_validator
from temporalio import activity

from holdfast.activities import Decision, Permission, tool
from tests.tools import count


class State(TypedDict, total=False):
    """What the graphs of these tests keep."""

    folder: str
    log: Annotated[list[str], add]


def logged(name: str) -> Callable[[State], State]:
    def node(state: State) -> State:
        count(state["folder"], name)
        return {"log": [name]}

    return node


def chain(*nodes: Callable[[Any], Any], checkpointer: Any = None, **how: Any) -> Any:
    """Return a graph of nodes one after the other."""
    builder = StateGraph(State)
    for node, name in ((node, node.__name__) for node in nodes):
        builder.add_node(name, node)
    names = [START, *(node.__name__ for node in nodes), END]
    for before, after in zip(names, names[1:], strict=False):
        builder.add_edge(before, after)
    return builder.compile(checkpointer=checkpointer or None, **how)


def first(state: State) -> State:
    return logged("first")(state)


def last(state: State) -> State:
    return logged("last")(state)


def ask(state: State) -> State:
    return {"log": [f"answer {interrupt({'question': 'Which way?', 'so_far': state['log']})}"]}


class OwnSaver(BaseCheckpointSaver[str]):
    """A checkpointer that lasts, as far as a graph can tell, and has no async methods."""

    def __init__(self) -> None:
        super().__init__()
        self._inner = InMemorySaver()

    def get_tuple(self, config: Any) -> Any:
        return self._inner.get_tuple(config)

    def list(self, config: Any, **how: Any) -> Any:
        return self._inner.list(config, **how)

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        return self._inner.put(config, checkpoint, metadata, new_versions)

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        self._inner.put_writes(config, writes, task_id, task_path)

    def get_next_version(self, current: Any, channel: Any) -> Any:
        return self._inner.get_next_version(current, channel)

    def threads(self) -> set[str]:
        return set(self._inner.storage)


class RefusingSaver(OwnSaver):
    """A checkpointer whose async methods only raise, as those of LangGraph's `SqliteSaver` do."""

    async def aget_tuple(self, config: Any) -> Any:
        raise NotImplementedError("does not support async methods")

    async def aput(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        raise NotImplementedError("does not support async methods")


refusing_async = chain(first, ask, last, checkpointer=RefusingSaver())
own_saver = OwnSaver()
owned = chain(first, ask, last, checkpointer=own_saver)
forgetful = chain(first, checkpointer=InMemorySaver(), store=InMemoryStore())
asking = chain(first, ask, last, checkpointer=InMemorySaver())
bare = chain(first, last)
bare_asking = chain(first, ask)
breaking = chain(first, last, checkpointer=InMemorySaver(), interrupt_before=["last"])
uncompiled = StateGraph(State)
_private = chain(first, last, checkpointer=InMemorySaver())


async def twice(state: State) -> State:
    return {"log": [f"{interrupt('One?')} {interrupt('Two?')} {interrupt('Three?')}"]}


async def other(state: State) -> State:
    return {"log": [f"other {interrupt('Other?')}"]}


def _parallel() -> Any:
    inner = chain(first, ask)
    builder = StateGraph(State)
    builder.add_node("twice", twice)
    builder.add_node("other", other)
    builder.add_node("inner", inner)
    builder.add_node("sent", lambda item: {"log": [f"{item} {interrupt(f'Sent {item}?')}"]})
    for name in ("twice", "other", "inner"):
        builder.add_edge(START, name)
    builder.add_conditional_edges(START, lambda state: [Send("sent", "a"), Send("sent", "b")], ["sent"])
    return builder.compile(checkpointer=InMemorySaver())


parallel = _parallel()


async def hangs(state: State) -> State:
    """Hang while the file `hang` is there."""
    count(state["folder"], "hangs")
    while (Path(state["folder"]) / "hang").exists():
        await asyncio.sleep(0.01)
    return {"log": ["hangs"]}


def hangs_in_a_thread(state: State) -> State:
    """Hang while the file `hang` is there, and say when the cancellation has come."""
    count(state["folder"], "hangs")
    while (Path(state["folder"]) / "hang").exists():
        if activity.is_cancelled() and not (Path(state["folder"]) / "cancelled").exists():
            count(state["folder"], "cancelled")
        time.sleep(0.01)
    count(state["folder"], "ended")
    return {"log": ["hangs"]}


hanging = chain(first, hangs, ask, last, checkpointer=InMemorySaver())
hanging_in_a_thread = chain(first, hangs_in_a_thread, last, checkpointer=InMemorySaver())


def _side_by_side() -> Any:
    builder = StateGraph(State)
    for node in (first, hangs, last):
        builder.add_node(node.__name__, node)
    builder.add_edge(START, "first")
    builder.add_edge(START, "hangs")
    builder.add_edge(["first", "hangs"], "last")
    return builder.compile(checkpointer=InMemorySaver())


side_by_side = _side_by_side()


def fails(state: State) -> State:
    if count(state["folder"], "fails") == 1:
        raise ValueError("no such account")
    return {"log": ["mended"]}


failing = chain(first, fails, checkpointer=InMemorySaver())


def _outer() -> Any:
    builder = StateGraph(State)
    builder.add_node("inner", chain(first, fails))
    builder.add_edge(START, "inner")
    return builder.compile(checkpointer=InMemorySaver())


failing_inside = _outer()


def _endless() -> Any:
    builder = StateGraph(State)
    builder.add_node("again", logged("again"))
    builder.add_edge(START, "again")
    builder.add_edge("again", "again")
    return builder.compile(checkpointer=InMemorySaver()).with_config(recursion_limit=3)


endless = _endless()


@task
def costly(folder: str) -> int:
    return count(folder, "costly")


@entrypoint(checkpointer=InMemorySaver())
def functional(folder: str) -> dict[str, Any]:
    """A graph that is written as a function."""
    return {"calls": costly(folder).result(), "said": interrupt("Go on?")}


class Strict(BaseModel):
    """A state that checks its values."""

    amount: int


def doubles(state: Strict) -> dict[str, int]:
    return {"amount": state.amount * 2}


def _checking() -> Any:
    builder = StateGraph(Strict)
    builder.add_node(doubles)
    builder.add_edge(START, "doubles")
    return builder.compile(checkpointer=InMemorySaver())


checking = _checking()


def picky(state: State) -> State:
    """Reads its answer without a look at it, and counts how often it got past that."""
    count(state["folder"], "picky")
    room = interrupt("Which room?")["room"]
    count(state["folder"], "past")
    return {"log": [f"room {room}"]}


async def slow(state: State) -> State:
    """Stops for a person, and takes until the file `go` is there."""
    said = interrupt("Which day?")
    while not (Path(state["folder"]) / "go").exists():
        await asyncio.sleep(0.01)
    return {"log": [f"day {said}"]}


@langchain_tool
def pay(folder: str) -> int:
    """Pay."""
    return count(folder, "pay")


def pays_first(state: State) -> State:
    """Calls a tool before it reads its answer."""
    answer = interrupt("Which account?")
    pay.invoke({"folder": state["folder"]})
    return {"log": [answer["account"]]}


def at_once(**nodes: Any) -> Any:
    """Return a graph in which all nodes begin at once."""
    builder = StateGraph(State)
    for name, node in nodes.items():
        builder.add_node(name, node)
        builder.add_edge(START, name)
    return builder.compile(checkpointer=InMemorySaver())


reading = chain(first, picky, last, checkpointer=InMemorySaver())
reading_own_saver = chain(first, picky, last, checkpointer=OwnSaver())
reading_at_once = at_once(picky=picky, slow=slow, inner=chain(picky))
paying = chain(pays_first, checkpointer=InMemorySaver())


def decides(state: State) -> State:
    """Reads two answers before it looks at the first."""
    count(state["folder"], "decides")
    decision, reason = interrupt({"question": "Refund 250 EUR?"}), interrupt("And why?")
    if decision not in ("yes", "no"):
        raise ValueError(f"{decision} is no decision")
    count(state["folder"], "past")
    return {"log": [f"{decision}, {reason}"]}


@langchain_tool
def look_up(folder: str) -> int:
    """Look up."""
    return count(folder, "look_up")


def looks_up_between(state: State) -> State:
    """Calls a tool between its two questions, and cannot use what it was told before the call."""
    day = interrupt("Which day?")
    look_up.invoke({"folder": state["folder"]})
    hour = interrupt("Which hour?")
    if day != "Monday":
        raise ValueError(f"{day} is no day")
    return {"log": [f"{day} {hour}"]}


deciding = chain(first, decides, last, checkpointer=InMemorySaver())
deciding_own_saver = chain(first, decides, last, checkpointer=OwnSaver())
deciding_at_once = at_once(inner=chain(decides), slow=slow)
looking_up = chain(looks_up_between, checkpointer=InMemorySaver())


class Room(BaseModel):
    """A form that JSON Schema cannot tell whole."""

    number: int

    @field_validator("number")
    @classmethod
    def is_even(cls, number: int) -> int:
        if number % 2:
            raise ValueError("only even rooms are free")
        return number


def books(state: State) -> State:
    """Asks by text, then by a form."""
    guest = interrupt("Who comes?")
    return {"log": [f"{guest} in {interrupt('Which room?', response_schema=Room).number}"]}


booking = chain(books, checkpointer=InMemorySaver())


def thrice(state: State) -> State:
    return {"log": [f"{interrupt('One?')} {interrupt('Two?')} {interrupt('Three?')}"]}


asking_thrice = chain(thrice, checkpointer=InMemorySaver())


def _inbox_request(action: str, **config: bool) -> dict[str, Any]:
    allowed = {key: config.get(key, False) for key in ("allow_ignore", "allow_respond", "allow_edit", "allow_accept")}
    return {
        "action_request": {"action": action, "args": {"n": 1}},
        "config": allowed,
        "description": f"Look at {action}",
    }


def asks_the_inbox(state: State) -> State:
    requests = [
        _inbox_request("write", allow_accept=True, allow_edit=True),
        _inbox_request("plan", allow_ignore=True, allow_respond=True),
        _inbox_request("ask", allow_respond=True),
    ]
    return {"log": [str(one) for one in interrupt(requests)]}


def elicits(state: State) -> State:
    schema = {"type": "object", "required": ["size"], "properties": {"size": {"type": "integer"}}}
    return {"log": [str(interrupt({"message": "Which size?", "requestedSchema": schema}))]}


inbox = chain(asks_the_inbox, checkpointer=InMemorySaver())
eliciting = chain(elicits, checkpointer=InMemorySaver())


class Verdict(BaseModel):
    """What a person gives."""

    verdict: Literal["good", "bad"]


def judge(state: State) -> State:
    given = interrupt("Is it good?", response_schema=Verdict)
    return {"log": [given.verdict]}


judging = chain(judge, checkpointer=InMemorySaver())


def of_ours(state: State) -> State:
    granted = interrupt(Permission(message="May it?"))
    return {"log": [str(granted["granted"])]}


asks_of_ours = chain(of_ours, checkpointer=InMemorySaver())


@dataclass
class Surroundings:
    """The context of a graph."""

    region: str


def looks_around(state: State, runtime: Runtime[Surroundings]) -> State:
    return {"log": [runtime.context.region]}


def reads_its_context() -> Any:
    builder = StateGraph(State, context_schema=Surroundings)
    builder.add_node(looks_around)
    builder.add_edge(START, "looks_around")
    return builder.compile(checkpointer=InMemorySaver())


with_context = tool(name="with_context", context=lambda: Surroundings(region="north"))(reads_its_context())


def choose(asked: GraphInterrupt[Any]) -> Decision:
    options = [{"id": name} for name in asked.value["actions"]]
    return Decision.model_validate({"message": "What shall be done?", "options": options})


def chosen(asked: GraphInterrupt[Any], content: Any) -> Any:
    return {"decisions": [{"type": content}]}


def acts(state: State) -> State:
    reply = interrupt({"actions": ["approve", "reject"]})
    return {"log": [reply["decisions"][0]["type"]]}


with_table = tool(name="with_table", interrupts={GraphInterrupt: (choose, chosen)})(
    chain(acts, checkpointer=InMemorySaver())
)
with_strict_table = tool(
    name="with_strict_table", interrupts={GraphInterrupt: (str, lambda asked, content: content["to"])}
)(chain(ask, checkpointer=InMemorySaver()))
guarded_graph = tool(name="guarded_graph", approve=True)(chain(first, checkpointer=InMemorySaver()))
