"""What Temporal refuses or does not answer, in the words of the Python API."""

from __future__ import annotations

import inspect
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client, Interceptor, OutboundInterceptor, SignalWorkflowInput
from temporalio.service import RPCError, RPCStatusCode

from holdfast.blueprint.load import loads
from holdfast.client.answering import Sender
from holdfast.client.open_questions import OpenQuestions
from holdfast.client.permissions import Permissions
from holdfast.client.runs import Runs
from holdfast.client.states import Outcome, RunState, Waiting
from holdfast.protocol.access import AccessRules, Person
from holdfast.protocol.address import root
from holdfast.protocol.answers import Answer
from holdfast.protocol.assignment import Release
from holdfast.protocol.attachments import Attachment
from holdfast.protocol.questions import Question
from holdfast.protocol.views import WorkflowView
from holdfast.runtime.connection import DATA_CONVERTER
from holdfast.runtime.errors import RunExists, ServerError, is_missing
from tests.conftest import Harness, until
from tests.serve.failing import Wire, wired
from tests.server import connected

ASK = loads("{name: ask, steps: [{kind: hitl, name: city, message: Which city?}]}", name="ask")
RUN, ADDRESS = "ask-1", root("ask")
STATE = RunState(RUN, "running", "ask", [WorkflowView.model_construct(workflow=RUN, address=ADDRESS, questions=[])])
WAITING = Waiting(RUN, RUN, ["anyone"], datetime(2026, 1, 1, tzinfo=UTC))
ATTACHED = Question.model_construct(
    id="q",
    address=ADDRESS,
    owner=RUN,
    attachments=[Attachment(n=1, name="a.txt", type="text/plain", bytes=1, digest="0" * 16)],
)


async def _followed(events: AsyncIterator[Any]) -> list[Any]:
    return [event async for event in events]


def _for_eve(runs: Runs) -> Runs:
    """The runs for a person who is named nowhere: what they may do, the run must say."""
    permissions = Permissions(Person.of("user:eve", {}), AccessRules(enforced=True))
    return runs.acting_as(Sender("user:eve"), permissions)


def _named(name: str, *args: str) -> Callable[[Runs], Awaitable[Any]]:
    return lambda runs: attrgetter(name)(runs)(*args)


_OF_A_RUN = (
    "resolve",
    "find",
    "watch.blueprint",
    "state",
    "retry",
    "questions",
    "open_questions",
    "outcome",
    "result",
)
_OF_A_RUN += ("find_questions",)
_OF_A_RUN += (
    "watch.view",
    "watch.completed_steps",
    "watch.last_iteration",
    "watch.events",
    "watch.has_ended",
    "plans.read",
)
_OF_A_RUN += tuple(f"control.{name}" for name in ("pause", "is_paused", "resume", "unpause"))
_OF_A_RUN += tuple(f"control.{name}" for name in ("cancel", "list_open_undos", "read_undoing"))
CALLS: dict[str, Callable[[Runs], Awaitable[Any]]] = {
    "start": lambda runs: runs.start(ASK),
    "fork": lambda runs: runs.fork("x", "ask"),
    "answer": lambda runs: runs.answer(RUN, [Answer(question="city", content="Rome")]),
    "external_events.send": lambda runs: runs.external_events.send(RUN, "paid", "1"),
    "external_events.find_runs": lambda runs: runs.external_events.find_runs("paid", "1"),
    "assignment.claim": lambda runs: runs.assignment.claim(RUN, "city", by="user:ana"),
    "assignment.release": lambda runs: runs.assignment.release(RUN, "city", by="user:ana"),
    "assignment.delegate": lambda runs: runs.assignment.delegate(RUN, "city", "user:bob", by="user:ana"),
    "assignment.reassign": lambda runs: runs.assignment.reassign(RUN, "city", ["user:bob"]),
    "assignment.send": lambda runs: runs.assignment.send(
        OpenQuestions(RUN, [ATTACHED]), Release, question="q", by="user:ana"
    ),
    "watch.attachment": lambda runs: runs.watch.attachment(ATTACHED, 1),
    "watch.outcome": lambda runs: runs.watch.outcome(STATE),
    "lists.find_question": lambda runs: runs.lists.find_question("0" * 16),
    "watch.steps_before": lambda runs: runs.watch.steps_before(Outcome(RUN, "failed")),
    "watch.trace": lambda runs: runs.watch.trace(replace(STATE, status="completed")),
    "watch.iterations": lambda runs: runs.watch.iterations(STATE, ADDRESS, f"{RUN}/loop:a", 1, 2),
    "watch.follow": lambda runs: _followed(runs.watch.follow(RUN)),
    "watch.follow_from": lambda runs: _followed(runs.watch.follow_from(RUN)),
    "control.edit": lambda runs: runs.control.edit(RUN, {"a": 1}),
    "plans.change": lambda runs: runs.plans.change(RUN, {"goal": "x", "steps": [{"id": "a", "instruction": "b"}]}),
    "control.tell": lambda runs: runs.control.tell(RUN, "stop"),
    "watch.find_obstacles": lambda runs: runs.watch.find_obstacles(STATE),
    "access.may": lambda runs: _for_eve(runs).access.may("see", RUN),
    "access.require": lambda runs: _for_eve(runs).access.require("see", RUN),
    "access.select_visible": lambda runs: _for_eve(runs).access.select_visible(RUN, [ATTACHED]),
    "access.require_question": lambda runs: _for_eve(runs).access.require_question(RUN, "q"),
    "access.require_comment": lambda runs: _for_eve(runs).access.require_comment(RUN),
    "access.find_closing": lambda runs: _for_eve(runs).access.find_closing(RUN, "q"),
    "access.why_not_answer": lambda runs: _for_eve(runs).access.why_not_answer(
        ATTACHED.model_copy(update={"run": RUN})
    ),
    "access.check_answering": lambda runs: _for_eve(runs).access.check_answering(OpenQuestions(RUN, [ATTACHED]), ["q"]),
    "access.check_steering": lambda runs: _for_eve(runs).access.check_steering(RUN),
    "access.answerable": lambda runs: runs.access.answerable(RUN, ["q"]),
    "access.visible_questions": lambda runs: runs.access.visible_questions(RUN),
    "access.sees_part": lambda runs: _for_eve(runs).access.sees_part(RUN),
    **{f"lists.{name}": _named(f"lists.{name}") for name in ("all", "page", "find_waiting", "find_running")},
    **{name: _named(name, RUN) for name in _OF_A_RUN},
}
"""How to call each method of `Runs` and its facets that waits for Temporal."""
FACETS = "holdfast.client.facets."
NEED_ATTRIBUTES = ["start", "lists.find_question", "external_events.find_runs"]
NEED_ATTRIBUTES += [f"lists.{name}" for name in ("all", "page", "find_waiting", "find_running")]
STATUSES = (
    (RPCStatusCode.UNAVAILABLE, "server_error", "does not answer"),
    (RPCStatusCode.DEADLINE_EXCEEDED, "server_error", "does not answer"),
    (RPCStatusCode.RESOURCE_EXHAUSTED, "server_busy", "is busy"),
    (RPCStatusCode.PERMISSION_DENIED, "server_denied", "TEMPORAL_API_KEY"),
    (RPCStatusCode.UNAUTHENTICATED, "server_denied", "TEMPORAL_API_KEY"),
    (RPCStatusCode.INTERNAL, "server_error", "refuses"),
)


async def test_each_method_that_waits_for_temporal_is_called_here(house: Harness) -> None:
    parts = {name: getattr(house.runs, name) for name in dir(house.runs) if not name.startswith("_")}
    facets = {name: part for name, part in parts.items() if type(part).__module__.startswith(FACETS)}
    waiting = set(_list_waiting(Runs))
    waiting |= {f"{name}.{method}" for name, facet in facets.items() for method in _list_waiting(type(facet))}
    assert waiting - {"look_up"} == CALLS.keys()  # which says in its result why nothing could be looked up


def _list_waiting(kind: type) -> list[str]:
    """The public methods that wait."""
    awaits = (inspect.iscoroutinefunction, inspect.isasyncgenfunction)
    public = {name: inspect.unwrap(member) for name, member in vars(kind).items() if not name.startswith("_")}
    return [name for name, member in public.items() if any(is_one(member) for is_one in awaits)]


@pytest.mark.parametrize("name", CALLS)
async def test_what_the_server_does_not_do_is_said_in_our_words(temporal: Client, name: str) -> None:
    client, wire = wired(temporal)
    for status, code, words in STATUSES:
        wire.status = status
        with pytest.raises(ServerError, match=words) as caught:
            await CALLS[name](Runs(client, "nowhere"))
        assert (caught.value.code, caught.value.status) == (code, status)


@pytest.mark.parametrize("name", CALLS)
async def test_a_namespace_that_is_missing_is_no_missing_run(server: str, name: str) -> None:
    runs = Runs(await connected(server, "nobody-made-it"), "nowhere")
    with pytest.raises(ServerError, match="temporal operator namespace create -n nobody-made-it") as caught:
        await CALLS[name](runs)
    assert caught.value.code == "namespace_missing"


@pytest.fixture
async def bare(temporal: Client, server: str) -> Client:
    """A client of a namespace without our search attributes."""
    name, kept = f"bare-{uuid.uuid4().hex[:8]}", Duration(seconds=86_400)
    request = RegisterNamespaceRequest(namespace=name, workflow_execution_retention_period=kept)
    await temporal.workflow_service.register_namespace(request)
    client = await connected(server, name)

    async def is_known() -> bool:
        try:
            await client.get_workflow_handle(RUN).describe()
        except RPCError as error:
            return is_missing(error)
        return True

    await until(is_known, "the namespace")
    return client


@pytest.mark.parametrize("name", NEED_ATTRIBUTES)
async def test_a_namespace_that_is_not_set_up_names_the_command(bare: Client, name: str) -> None:
    with pytest.raises(ServerError, match="run: holdfast setup") as caught:
        await CALLS[name](Runs(bare, "nowhere"))
    assert caught.value.code == "not_set_up"


async def test_a_client_that_connects_with_its_first_call() -> None:
    client = await Client.connect("127.0.0.1:1", lazy=True, data_converter=DATA_CONVERTER)
    with pytest.raises(ServerError, match="does not answer") as caught:
        await Runs(client, "nowhere").lists.all()
    assert caught.value.status == RPCStatusCode.UNAVAILABLE


class Lossy(Wire):
    """A connection that is lost once, while its client waits for the end of a run."""

    was_lost = False

    async def _rpc_call(self, rpc: str, req: Any, resp_type: Any, **how: Any) -> Any:
        if rpc == "get_workflow_execution_history" and not self.was_lost:
            self.was_lost = True
            raise RPCError("http2 error", RPCStatusCode.UNAVAILABLE, b"")
        return await super()._rpc_call(rpc, req, resp_type, **how)


async def test_a_wait_for_the_end_outlives_its_connection(temporal: Client) -> None:
    handle = await temporal.start_workflow("Unserved", id=f"lossy-{uuid.uuid4().hex[:8]}", task_queue="nowhere")
    wire = Lossy(temporal.service_client)
    client = Client(wire, namespace=temporal.namespace, data_converter=temporal.data_converter)
    await handle.terminate()
    assert (await Runs(client, "nowhere").result(handle.id)).status == "failed"
    assert wire.was_lost


class Mute(Wire):
    """A connection on which the answer to a start is lost."""

    async def _rpc_call(self, rpc: str, req: Any, resp_type: Any, **how: Any) -> Any:
        answer = await super()._rpc_call(rpc, req, resp_type, **how)
        if rpc == "start_workflow_execution":
            raise RPCError("Timeout expired", RPCStatusCode.CANCELLED, b"")
        return answer


async def test_a_start_without_an_answer_may_be_sent_again_under_its_id(temporal: Client) -> None:
    mute = Client(Mute(temporal.service_client), namespace=temporal.namespace, data_converter=DATA_CONVERTER)
    with pytest.raises(ServerError, match="may have started") as caught:
        await Runs(mute, "nowhere").start(ASK)
    run = caught.value.message.partition(": run ")[2].partition(" ")[0]
    with pytest.raises(RunExists):
        await Runs(temporal, "nowhere").start(ASK, run=run)
    await temporal.get_workflow_handle(run).terminate()


class Late(Interceptor):
    """Ends a workflow as it is sent a signal."""

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:
        class Outbound(OutboundInterceptor):
            async def signal_workflow(self, input: SignalWorkflowInput) -> None:
                await client.get_workflow_handle(input.id).terminate()
                await super().signal_workflow(input)

        client = self.client
        return Outbound(next)

    def __init__(self, client: Client) -> None:
        self.client = client


async def test_a_pause_by_signal_meets_the_end_of_a_workflow(temporal: Client) -> None:
    handle = await temporal.start_workflow("Unserved", id=f"late-{uuid.uuid4().hex[:8]}", task_queue="nowhere")
    runs = Runs(Client(**{**temporal.config(), "interceptors": [Late(temporal)]}), "nowhere")
    await runs.control.pause(handle.id)
    assert await runs.watch.has_ended(handle.id)
