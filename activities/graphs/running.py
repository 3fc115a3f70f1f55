"""One call of a graph of LangGraph: it goes on from its last checkpoint, and its interrupts become questions.

Imported with the first graph that is called, as only then LangGraph is certain to be installed.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.errors import GraphDrained, GraphRecursionError
from langgraph.runtime import RunControl
from langgraph.types import Command, StateSnapshot
from temporalio import activity

from holdfast.activities.graphs.answers import CallCounter, DeliveredAnswers, describe_error, find_failed_tasks
from holdfast.activities.graphs.forms import KnownForm, read_form
from holdfast.activities.graphs.returns import GivenBack, Returns
from holdfast.activities.graphs.saver import StoredSaver
from holdfast.activities.graphs.shape import Graph, is_plain_node
from holdfast.activities.graphs.stops import Stop, choose_names, read_pending, read_question
from holdfast.activities.graphs.threads import copy_checkpoints, list_earlier
from holdfast.activities.interrupt import Interrupt, question_about, translate
from holdfast.activities.registry import Tool, wrong
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.protocol.address import segment
from holdfast.protocol.agents import InterruptAnswer, ToolRequest

_ID = re.compile(r"[0-9a-f]{32}")
"""An interrupt's id, by which LangGraph tells a map of answers from one answer that is an object."""


def place_in(error: BaseException) -> str:
    """Return the nodes in which an error was raised, from the outermost in."""
    return " > ".join(reversed([name for name, _ in find_failed_tasks(error)]))


class UnreadAnswer(Exception):
    """Raised for the n-th answer to an interrupt, if what it is for the graph cannot be told."""

    def __init__(self, n: int, cause: Exception) -> None:
        super().__init__(str(cause))
        self.n, self.cause = n, cause


class GraphCall:
    """A call of a graph, to its end or to its next questions.

    Args:
        graph: With the checkpointer that this call uses; without one the call may run twice.
        tool: What its owner says of it: how its interrupts become questions, and its context.
        request: The input, and the answers so far.
        thread: The thread of its checkpoints: the same for every attempt of the call.
    """

    def __init__(self, graph: Graph, tool: Tool, request: ToolRequest, thread: str) -> None:
        self._graph, self._tool, self._request = graph, tool, request
        self._config: RunnableConfig = {"configurable": {"thread_id": thread}}
        self._thread = thread
        self._kept: JSONObject = dict(request.states.get("") or {})
        self._returns = Returns(tool.name, self._kept)
        self._delivered: Mapping[str, JSON] = {}
        """By interrupt: the answers that the graph gets in this run."""
        self._calls = CallCounter()
        self._saver = graph.checkpointer if isinstance(graph.checkpointer, BaseCheckpointSaver) else None
        # A checkpointer without async methods needs a thread, as LangGraph has it.
        self._sync = self._saver is not None and type(self._saver).aget_tuple is BaseCheckpointSaver.aget_tuple

    async def result(self) -> object:
        """Return what the graph gives. Raises `Interrupt` where it waits for answers."""
        state = await self._take_over(await self._state())
        if state is not None and not state.next and self._is_new_call:
            # A person has this step run once more, after it had ended: that is another run of the graph.
            await self._forget()
            state = None
        if state is None:
            return await self._until_stop(self._request.input)
        self._delivered = await self._answers(state)
        stop = None if state.interrupts else await self._breakpoint(state)
        if stop is not None and not self._is_passed(stop):
            raise self._join_stops([stop])
        return await self._until_stop(self._resumption(self._delivered))

    async def _take_over(self, state: StateSnapshot | None) -> StateSnapshot | None:
        """Return where the graph stands once what an earlier run has kept of this call is in its thread.

        Raises a failure where the questions that were met belong to a graph that is lost, or has gone on since.
        """
        earlier = list_earlier(self._request)
        if self._saver is None or not earlier:
            return state
        if not isinstance(self._saver, StoredSaver):
            await copy_checkpoints(self._saver, earlier, self._thread, in_thread=self._sync)
            state = await self._state()
        if activity.info().attempt > 1 or self._request.made_in or not self._request.states:
            return state
        waiting = [] if state is None else [stop.id for stop in await self._stops(state)]
        if sorted(waiting) != self._kept.get("waiting"):
            state_now = (
                "is not kept any more" if state is None else "has gone on since, in the run that it was begun in"
            )
            text = f"the graph that asked this {state_now}; fork the run at this step, which begins the graph anew"
            raise wrong("past_differs", f"{self._tool.name}: {text}")
        return state

    @property
    def _is_new_call(self) -> bool:
        return activity.info().attempt == 1 and not self._request.states and not self._request.made_in

    def _resumption(self, answers: Mapping[str, JSON]) -> Command[Any] | None:
        """Return what the graph is resumed with; None lets it go on where it was cut off."""
        if not answers:
            return None
        if all(_ID.fullmatch(id_) for id_ in answers):
            return Command(resume=dict(answers))
        return Command(resume=next(iter(answers.values())))  # an id of the author's own: LangGraph takes one at a time

    async def _answers(self, state: StateSnapshot) -> dict[str, JSON]:
        """Return the answers to interrupts that still wait: an attempt before this one may have used some.

        Raises `Interrupt` for those that cannot be read, and while other questions of the same interrupt are open.
        """
        pending = {interrupt.id: interrupt for interrupt in state.interrupts}
        places = {id_: path for path, id_ in self._kept.get("asked", {}).items()}
        given, fresh = self._request.given, set(self._request.fresh)
        answers: dict[str, JSON] = {}
        unread: dict[str, str] = {}
        for id_ in pending.keys() & places.keys():
            stop = Stop(places[id_], id_, pending[id_])
            form = self._form(stop)
            paths = [stop.path] if form is None else form.paths(stop.path)
            if not all(path in given for path in paths):
                continue
            fresh.difference_update(paths)
            try:
                answers[id_] = self._answer(stop, form, [given[path] for path in paths])
            except UnreadAnswer as error:
                unread[paths[error.n]] = describe_error(error.cause)
        if unread or (fresh and not answers and pending):
            raise self._join_stops(await self._stops(state), unread)
        return answers

    def _answer(self, stop: Stop, form: KnownForm | None, answers: Sequence[InterruptAnswer]) -> JSON:
        """Return what an interrupt is resumed with. Raises `UnreadAnswer`."""
        translation = None if stop.interrupt is None else self._tool.translation(stop.interrupt)
        values: list[JSON] = []
        for n, answer in enumerate(answers):
            try:
                if form is not None:
                    values.append(form.read(n, answer))
                elif translation is not None and translation.answer is not None:
                    values.append(cast(JSON, translation.answer(stop.interrupt, answer.content)))
                else:
                    values.append(answer.content)
            except Exception as error:  # noqa: BLE001 an author's function may raise anything
                raise UnreadAnswer(n, error) from None
        return values[0] if form is None else form.join(values)

    def _form(self, stop: Stop) -> KnownForm | None:
        """Return the form of an interrupt that has one, unless the tool's owner says what it means."""
        if stop.interrupt is None or self._tool.translation(stop.interrupt) is not None:
            return None
        return read_form(stop.interrupt)

    async def _until_stop(self, graph_input: object) -> object:
        """Run the graph and return its output. Raises `Interrupt` where it stops, and typed failures."""
        try:
            output = await self._invoke(graph_input)
        except GraphRecursionError as error:
            text = f"{self._tool.name}: {str(error).partition(chr(10))[0]}"
            way = "graph.with_config(recursion_limit=…) raises it"
            # Another attempt would only go on from here with a new count, for ever.
            raise wrong("graph_recursion", f"{text} {way}") from None
        except Exception as error:
            if (given_back := await self._give_back(error)) is None:
                raise
            return await self._ask_again(given_back)
        if self._saver is None:
            return self._refuse_interrupts(output)
        state = await self._state()
        if state is not None and (stops := await self._stops(state)):
            self._returns.keep(stops, self._calls.made)
            raise self._join_stops(stops, self._explain(stops, self._list_again(stops)))
        return output

    def _refuse_interrupts(self, output: object) -> object:
        if isinstance(output, dict) and "__interrupt__" in output:
            text = "it interrupts, but has no checkpointer to go on from: compile it with one (InMemorySaver() will do)"
            raise wrong("bad_interrupt", f"{self._tool.name}: {text}")
        return output

    async def _give_back(self, error: Exception) -> GivenBack | None:
        """Take the answers on which a node has failed out of the checkpoints; None if they are no reason of the error.

        A node that has called a tool or a model since it read them has done something.
        """
        if not self._delivered or self._saver is None:
            return None
        answers = DeliveredAnswers(self._saver, self._thread, self._delivered, in_thread=self._sync)
        return await self._returns.take(error, answers, self._calls.made, place_in(error))

    async def _ask_again(self, given_back: GivenBack) -> object:
        """Raise `Interrupt` with the questions of a node whose answers are given back.

        Returns the output where the node does not ask again, once it runs from its beginning.
        """
        output: object = None
        if given_back.from_first:
            self._calls.made.clear()
            output = await self._invoke(None)
        stops = await self._stops(await self._get_state(self._config))
        if not stops:
            return output
        if given_back.from_first:
            self._returns.keep(stops, self._calls.made)
        raise self._join_stops(stops, self._explain(stops, given_back.ids, shows=given_back.from_first))

    def _list_again(self, stops: Sequence[Stop]) -> set[str]:
        """Return the interrupts whose answers the graph has had and does not have any more: they were given back."""
        asked, given = self._kept.get("asked", {}), self._request.given
        return {
            stop.id
            for stop in stops
            if stop.interrupt is not None and asked.get(stop.path) == stop.id and stop.id not in self._delivered
            if all(question.path in given for question in self._questions(stop))
        }

    def _explain(self, stops: Sequence[Stop], ids: Collection[str], *, shows: bool = True) -> dict[str, str]:
        """Return why the answers to these interrupts are given back, by path of the question."""
        given = self._request.given
        return {
            question.path: self._returns.explain(stop.id, question.asked, given.get(question.path), shows=shows)
            for stop in stops
            if stop.id in ids
            for question in self._questions(stop)
        }

    async def _stops(self, state: StateSnapshot) -> list[Stop]:
        if state.interrupts:
            return list(self._interrupts(await self._state_with_subgraphs()))
        stop = await self._breakpoint(state)
        return [] if stop is None else [stop]

    def _interrupts(self, state: StateSnapshot) -> Iterator[Stop]:
        """Yield the interrupts that wait, each at a place by the names of its nodes, which it keeps."""
        paths = {id_: path for path, id_ in self._kept.get("asked", {}).items()}
        taken = set(paths.values())
        for path, interrupt, task in read_pending(state, ""):
            place, n = paths.get(interrupt.id, path), 1
            while interrupt.id not in paths and place in taken:
                n += 1
                place = f"{path}~{n}"
            taken.add(place)
            paths[interrupt.id] = place
            yield Stop(place, interrupt.id, interrupt, task)

    async def _breakpoint(self, state: StateSnapshot) -> Stop | None:
        """Return the breakpoint of the author (`interrupt_before`, `interrupt_after`) at which the graph stands."""
        if not state.next:
            return None
        before = choose_names(state.next, self._graph.interrupt_before_nodes)
        after: Sequence[str] = ()
        if not before and self._graph.interrupt_after_nodes and state.parent_config is not None:
            earlier = await self._get_state(state.parent_config)
            after = choose_names(earlier.next, self._graph.interrupt_after_nodes)
        names = [*before, *after]
        if not names:
            return None
        path = segment("level", "+".join(names))
        return Stop(path, str(state.config["configurable"]["checkpoint_id"]))

    def _is_passed(self, stop: Stop) -> bool:
        """Return whether a person has let the graph go on from a breakpoint."""
        answered = stop.path in self._request.given and self._kept.get("asked", {}).get(stop.path) == stop.id
        return answered or stop.id in self._kept.get("passed", ())

    def _join_stops(self, stops: Sequence[Stop], returned: Mapping[str, str] | None = None) -> Interrupt:
        """Return an interrupt with the questions of each stop, and what the next attempt must know of them.

        Args:
            stops: Where the graph waits.
            returned: By path: why the answer there is given back.
        """
        asked: JSONObject = self._kept.get("asked", {})
        passed = {*self._kept.get("passed", ()), *(asked[path] for path in self._request.given if path in asked)}
        parts = []
        for stop in stops:
            for question in self._questions(stop):
                if question.path in (returned or {}):
                    question.returned = {question.path: (returned or {})[question.path]}
                elif self._is_held(stop, question.path, bool(returned)):
                    continue
                parts.append(question)
        # All places: the third question of a node gets an address that neither of the others had.
        places = asked | {stop.path: stop.id for stop in stops}
        kept = self._kept | {"asked": places, "passed": sorted(passed)}
        return Interrupt.all(parts, state=kept | {"thread": self._thread, "waiting": sorted(stop.id for stop in stops)})

    def _is_held(self, stop: Stop, path: str, has_failed: bool) -> bool:
        """Return whether the graph is to get the answer at a path again, or only with those to other questions."""
        is_given = path in self._request.given and self._kept.get("asked", {}).get(stop.path) == stop.id
        return stop.interrupt is not None and is_given and (has_failed or stop.id not in self._delivered)

    def _questions(self, stop: Stop) -> list[Interrupt]:
        """Return the questions of a stop, each with its path."""
        if stop.interrupt is None:
            names = stop.path.partition(":")[2]
            asked = [Interrupt(question_about(f"{self._tool.name} stops at {names}: may it go on?"))]
            paths = [stop.path]
        elif (form := self._form(stop)) is not None:
            asked, paths = [Interrupt(question) for question in form.questions], form.paths(stop.path)
        else:
            asked, paths = (
                [translate(self._tool, stop.interrupt) or Interrupt(read_question(stop.interrupt))],
                [stop.path],
            )
        for question, path in zip(asked, paths, strict=True):
            question.path = path
        return asked

    async def _invoke(self, graph_input: Any) -> object:
        context = self._tool.context() if self._tool.context is not None else None
        control = RunControl()
        # Nothing of the next step may happen before this one is kept.
        options: dict[str, Any] = {"context": context, "control": control, "durability": "sync"}
        config: RunnableConfig = {**self._config, "callbacks": [self._calls]}
        if self._saver is None:
            del options["durability"]
        invoke: Callable[..., Any] = self._graph.invoke
        call = asyncio.to_thread(invoke, graph_input, config, **options) if self._sync else None
        task = asyncio.ensure_future(call or self._graph.ainvoke(graph_input, config, **options))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await self._end(task, control)
            raise

    async def _end(self, task: asyncio.Future[Any], control: RunControl) -> None:
        """End a graph that is cancelled. A node in a thread cannot be stopped, so its end is waited for."""
        details = activity.cancellation_details()
        is_asked = details is not None and details.cancel_requested and not activity.is_worker_shutdown()
        if is_asked and (self._sync or await self._runs_in_threads()):
            control.request_drain("cancelled")
        else:
            task.cancel()
        if is_asked or not self._sync:
            with suppress(asyncio.CancelledError, GraphDrained, Exception):
                await task

    async def _runs_in_threads(self) -> bool:
        state = await self._state()
        running = self._graph.nodes if state is None else state.next
        return any(is_plain_node(self._graph, name) for name in running)

    async def _state(self) -> StateSnapshot | None:
        """Return where the graph stands; None if it has not begun, or keeps no checkpoints."""
        if self._saver is None:
            return None
        state = await self._get_state(self._config)
        return None if state.created_at is None else state

    async def _state_with_subgraphs(self) -> StateSnapshot:
        return await self._get_state(self._config, subgraphs=True)

    async def _get_state(self, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
        if not self._sync:
            try:
                return await self._graph.aget_state(config, subgraphs=subgraphs)
            except NotImplementedError:
                # SqliteSaver has the async methods, but each only raises. A call reads its state before all else.
                self._sync = True
        return await asyncio.to_thread(self._graph.get_state, config, subgraphs=subgraphs)

    async def _forget(self) -> None:
        assert self._saver is not None
        if self._sync:
            await asyncio.to_thread(self._saver.delete_thread, self._thread)
        else:
            await self._saver.adelete_thread(self._thread)
