"""What Temporal refuses or does not answer, in the words of the Python API."""

from __future__ import annotations

import inspect
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client, Interceptor, OutboundInterceptor, SignalWorkflowInput
from temporalio.service import RPCError, RPCStatusCode

from holdfast.blueprint import loads
from holdfast.client.answering import OpenQuestions, Sender
from holdfast.client.permissions import Permissions
from holdfast.client.runs import Runs
from holdfast.client.states import RunState, Waiting
from holdfast.protocol.access import AccessRules, Person
from holdfast.protocol.address import root
from holdfast.protocol.answers import Answer
from holdfast.protocol.assignment import Release
from holdfast.protocol.attachments import Attachment
from holdfast.protocol.questions import Question
from holdfast.protocol.runs import WorkflowView
from holdfast.runtime.connection import DATA_CONVERTER
from holdfast.runtime.errors import ServerError, is_missing
from tests.conftest import until
from tests.serve.failing import wired
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
    return lambda runs: getattr(runs, name)(*args)


_OF_A_RUN = ("resolve", "find", "blueprint", "standing", "questions", "question", "open_questions", "outcome", "result")
_OF_A_RUN += ("done", "last_iteration", "events", "has_ended", "pause", "is_paused", "resume", "go_on", "unpause")
_OF_A_RUN += ("plan", "cancel")
CALLS: dict[str, Callable[[Runs], Awaitable[Any]]] = {
    "start": lambda runs: runs.start(ASK),
    "page_from": lambda runs: runs.page_from(),
    "waiting_from": lambda runs: runs.waiting_from(None),
    "questions_of": lambda runs: runs.questions_of([WAITING]),
    "answer": lambda runs: runs.answer(RUN, [Answer(question="city", content="Rome")]),
    "send_event": lambda runs: runs.send_event(RUN, "paid", "1"),
    "waiting_for": lambda runs: runs.waiting_for("paid", "1"),
    "claim": lambda runs: runs.claim(RUN, "city", by="user:ana"),
    "release": lambda runs: runs.release(RUN, "city", by="user:ana"),
    "delegate": lambda runs: runs.delegate(RUN, "city", "user:bob", by="user:ana"),
    "reassign": lambda runs: runs.reassign(RUN, "city", ["user:bob"]),
    "assign": lambda runs: runs.assign(OpenQuestions(RUN, [ATTACHED]), Release, question="q", by="user:ana"),
    "attachment": lambda runs: runs.attachment(ATTACHED, 1),
    "context": lambda runs: runs.context(STATE),
    "trace": lambda runs: runs.trace(STATE),
    "iterations": lambda runs: runs.iterations(STATE, ADDRESS, f"{RUN}/loop:a", 1, 2),
    "follow": lambda runs: _followed(runs.follow(RUN)),
    "follow_from": lambda runs: _followed(runs.follow_from(RUN)),
    "edit": lambda runs: runs.edit(RUN, {"a": 1}),
    "change_plan": lambda runs: runs.change_plan(RUN, {"goal": "x", "steps": [{"id": "a", "instruction": "b"}]}),
    "tell": lambda runs: runs.tell(RUN, "stop"),
    "find_obstacles": lambda runs: runs.find_obstacles(STATE),
    "may": lambda runs: _for_eve(runs).may("see", RUN),
    "require": lambda runs: _for_eve(runs).require("see", RUN),
    "select_visible": lambda runs: _for_eve(runs).select_visible(RUN, [ATTACHED]),
    "select_waiting": lambda runs: _for_eve(runs).select_waiting([WAITING]),
    "require_question": lambda runs: _for_eve(runs).require_question(RUN, "q"),
    "require_comment": lambda runs: _for_eve(runs).require_comment(RUN),
    "require_reply": lambda runs: _for_eve(runs).require_reply(RUN, None),
    "why_not_answer": lambda runs: _for_eve(runs).why_not_answer(ATTACHED.model_copy(update={"run": RUN})),
    "answerable": lambda runs: runs.answerable(RUN, ["q"]),
    "visible_questions": lambda runs: runs.visible_questions(RUN),
    "sees_part": lambda runs: _for_eve(runs).sees_part(RUN),
    **{name: _named(name) for name in ("runs", "page", "waiting", "running")},
    **{name: _named(name, RUN) for name in _OF_A_RUN},
}
"""How to call each method of `Runs` that waits for Temporal."""
STATUSES = (
    (RPCStatusCode.UNAVAILABLE, "server_error", "does not answer"),
    (RPCStatusCode.DEADLINE_EXCEEDED, "server_error", "does not answer"),
    (RPCStatusCode.RESOURCE_EXHAUSTED, "server_busy", "is busy"),
    (RPCStatusCode.PERMISSION_DENIED, "server_denied", "TEMPORAL_API_KEY"),
    (RPCStatusCode.UNAUTHENTICATED, "server_denied", "TEMPORAL_API_KEY"),
    (RPCStatusCode.INTERNAL, "server_error", "refuses"),
)


def test_each_method_that_waits_for_temporal_is_called_here() -> None:
    awaits = (inspect.iscoroutinefunction, inspect.isasyncgenfunction)
    public = {name for name, member in vars(Runs).items() if not name.startswith("_")}
    waiting = {name for name in public if any(kind(inspect.unwrap(vars(Runs)[name])) for kind in awaits)}
    assert waiting - {"look_up"} == CALLS.keys()  # which says in its result why nothing could be looked up


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


@pytest.mark.parametrize("name", ["start", "runs", "page", "waiting", "question", "waiting_for", "running"])
async def test_a_namespace_that_is_not_set_up_names_the_command(bare: Client, name: str) -> None:
    with pytest.raises(ServerError, match="run: holdfast setup") as caught:
        await CALLS[name](Runs(bare, "nowhere"))
    assert caught.value.code == "not_set_up"


async def test_a_client_that_connects_with_its_first_call() -> None:
    client = await Client.connect("127.0.0.1:1", lazy=True, data_converter=DATA_CONVERTER)
    with pytest.raises(ServerError, match="does not answer") as caught:
        await Runs(client, "nowhere").runs()
    assert caught.value.status == RPCStatusCode.UNAVAILABLE


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
    await runs.pause(handle.id)
    assert await runs.has_ended(handle.id)
