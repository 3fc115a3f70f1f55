"""What is sent from outside, byte by byte: it is taken or refused, and the run goes on."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Iterator
from datetime import timedelta

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.client import Client, WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.common import RawValue
from temporalio.service import RPCError

from holdfast.blueprint.load import loads
from holdfast.client.runs import Runs
from holdfast.protocol import guard
from holdfast.protocol.answers import Answer, Refusal
from holdfast.protocol.names import PIPELINE_WORKFLOW
from holdfast.protocol.questions import Question
from holdfast.protocol.runs import Definition
from holdfast.protocol.size_limits import LargeLimit, SizeLimit, SizeLimits
from holdfast.runtime.errors import BadInput
from tests.agents.turns import agent, call, turn
from tests.conftest import Harness, until, worker_for
from tests.flows import ONE
from tests.people.raw_answers import signalled, updated

ANY = "steps: [{kind: hitl, name: ask, message: Go?, input_schema: {type: object}}]"
LARGE = "{" + ",".join(f'"{index}":0' for index in range(150_000)) + "}"
UNFIT = {
    "overflow": ('{"x": [1e999]}', "invalid_answer"),
    "nan": ('{"x": NaN}', "invalid_answer"),
    "minus infinity": ('{"x": -Infinity}', "invalid_answer"),
    "65 bits": ('{"x": 9223372036854775808}', "invalid_answer"),
    "surrogate": ('{"x": "\\ud800"}', "invalid_answer"),
    "surrogate key": ('{"\\udfff": 1}', "invalid_answer"),
    "twice": ('{"x": 1, "x": 2}', "invalid_answer"),
    "cut off": ('{"x": ', "invalid_answer"),
    "deep": ("[" * 10_000 + "]" * 10_000, "too_large"),
    "65 levels": ("[" * 65 + "]" * 65, "too_large"),
    "many": (LARGE, "too_large"),
    "10,001 values": (json.dumps([0] * 10_000), "too_large"),
    "over a MiB": (json.dumps({"x": "y" * 1024 * 1024}), "too_large"),
    "long key": (json.dumps({"k" * 10_000: 1}), "too_large"),
}
"""Contents as JSON texts, and the code of their refusal."""


def raw(data: bytes | str, encoding: str = "json/plain") -> RawValue:
    data = data.encode(errors="surrogatepass") if isinstance(data, str) else data
    return RawValue(Payload(metadata={"encoding": encoding.encode()}, data=data))


def answer_to(question: Question, content: str) -> RawValue:
    return raw(f'{{"question": "{question.id}", "content": {content}}}')


@pytest.mark.first_row
@pytest.mark.parametrize("case", UNFIT)
async def test_an_unfit_answer_by_update_is_refused_and_the_right_one_taken(house: Harness, case: str) -> None:
    content, code = UNFIT[case]
    run = await house.start(ANY)
    question = await house.one(run)
    refusal = await updated(house, run, answer_to(question, content))
    assert refusal is not None and refusal.type == code
    await house.answer(run, {"x": 1}, question)
    assert await house.output(run) == {"x": 1}


@pytest.mark.first_row
@pytest.mark.parametrize("case", UNFIT)
async def test_an_unfit_answer_by_signal_is_shown_refused_and_the_right_one_taken(house: Harness, case: str) -> None:
    content, code = UNFIT[case]
    run = await house.start(ANY)
    question = await house.one(run)
    assert (await signalled(house, run, answer_to(question, content))).code == code
    await house.answer(run, {"x": 1}, question)
    assert await house.output(run) == {"x": 1}


UNREADABLE = {
    "no JSON": raw("yes"),
    "mark": raw(b'\xef\xbb\xbf{"question": "x"}'),
    "latin": raw(b'"\xe9"'),
    "nothing": raw(b""),
    "surrogate bytes": raw('"\ud800"'),
    "digits": raw("1" * 5000),
    "bytes": raw(b"\x00\x01", "binary/plain"),
    "protobuf": raw("{}", "json/protobuf"),
    "unknown": raw("1", "nonsense/\xff"),
    "no encoding": RawValue(Payload(data=b"1")),
}


@pytest.mark.first_row
@pytest.mark.parametrize("case", UNREADABLE)
async def test_a_signal_that_cannot_be_read_is_shown_refused(house: Harness, case: str) -> None:
    run = await house.start(ONE)
    question = await house.one(run)
    assert (await signalled(house, run, UNREADABLE[case])).code == "invalid_answer"
    await house.answer(run, "go", question)
    assert await house.output(run) == "go"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["answer", "pause", "resume"])
async def test_a_signal_with_two_arguments_is_shown_refused(house: Harness, name: str) -> None:
    run = await house.start(ONE)
    question = await house.one(run)
    assert (await signalled(house, run, 1, 2, name=name)).code == "invalid_answer"
    await house.answer(run, "go", question)


async def test_pause_and_resume_take_whatever_argument_by_signal_and_refuse_what_cannot_be_read(house: Harness) -> None:
    run = await house.start(ONE)
    question = await house.one(run)
    for name in ("pause", "resume"):
        await house.client.get_workflow_handle(run).signal(name, raw("{"))
        told = await updated(house, run, raw("{"), name)
        assert told is not None and told.type == "invalid_answer"
        assert await updated(house, run, raw("1"), name) is None
    await house.answer(run, "go", question)
    assert await house.output(run) == "go"


async def test_what_was_sent_stands_nowhere_in_a_refused_signal(house: Harness) -> None:
    run = await house.start(ANY)
    question = await house.one(run)
    for payload in (answer_to(question, '"hunter2"'), raw('{"question": "hunter2"}'), raw('{"hunter2": 1}')):
        refused = await signalled(house, run, payload)
        assert "hunter2" not in refused.model_dump_json()
    await house.answer(run, {}, question)


async def test_what_is_at_the_limit_is_taken(house: Harness) -> None:
    for content in ("[" * 63 + "]" * 63, json.dumps([0] * 9_998)):
        run = await house.start(ANY)
        question = await house.one(run)
        assert await updated(house, run, answer_to(question, f'{{"x": {content}}}')) is None
        assert await house.output(run) == {"x": json.loads(content)}


async def test_a_payload_may_have_a_mebibyte_and_no_byte_more(house: Harness) -> None:
    run = await house.start(ONE)
    question = await house.one(run)
    room = 1024 * 1024 - len(answer_to(question, '""').payload.data)
    refusal = await updated(house, run, answer_to(question, json.dumps("x" * (room + 1))))
    assert refusal is not None and refusal.type == "too_large"
    assert await updated(house, run, answer_to(question, json.dumps("x" * room))) is None
    assert len(await house.output(run)) == room


@pytest.mark.slow  # the SDK tries each for ten seconds
async def test_an_update_that_no_worker_could_refuse_is_refused_by_the_server(house: Harness) -> None:
    async def refuse(mebibytes: float) -> None:
        run = await house.start(ONE)
        question = await house.one(run)
        large = answer_to(question, json.dumps("x" * int(mebibytes * 1024 * 1024)))
        handle = house.client.get_workflow_handle(run)
        # The SDK asks again until the time is over.
        with pytest.raises((RPCError, WorkflowUpdateRPCTimeoutOrCancelledError)):
            await handle.execute_update("answer", large, rpc_timeout=timedelta(seconds=1))
        await house.answer(run, "go", question)
        assert await house.output(run) == "go"

    await asyncio.gather(*map(refuse, (2, 3.99)))


@pytest.mark.first_row
@pytest.mark.parametrize("content", [{"a": 1}, [], "text", "", 0, False, None])
async def test_an_empty_schema_takes_any_value(house: Harness, content: object) -> None:
    run = await house.start("steps: [{kind: hitl, name: ask, message: Go?, input_schema: {}}]")
    question = await house.one(run)
    assert question.asked.needs_data
    await house.answer(run, content, question)
    assert await house.output(run) == content


async def test_a_hold_shows_its_message(house: Harness) -> None:
    run = await house.start("steps: [{kind: hitl, name: ask, ask: hold, message: 'Wait for {{ input }}.'}]", "Ana")
    assert (await house.one(run)).message == "Wait for Ana."
    assert (await house.runs.control.resume(run)).answered
    assert await house.output(run) == "Ana"


@pytest.fixture
def busy() -> Iterator[None]:
    guard.DEPLOYMENT.busy_from = 3
    yield
    guard.DEPLOYMENT.busy_from = guard.Guard().busy_from


@pytest.mark.slow
async def test_a_history_full_of_updates_takes_only_answers_pause_and_resume(house: Harness, busy: None) -> None:
    run = await house.start(agent(house, [turn(call("request_user_info", question="Go?")), "done"], human=["ask"]))
    question = await house.one(run)
    for text in ("one", "two", "three"):
        await house.runs.control.tell(run, text)
    with pytest.raises(Refusal) as refused:
        await house.runs.control.tell(run, "four")
    assert refused.value.code == "busy"
    await house.runs.control.pause(run)
    await house.runs.control.resume(run)
    await house.answer(run, "go", question)


UNSENDABLE = {"overflow": [1e999], "nan": {"x": float("nan")}, "half": ["\ud800"], "wide": 2**63, "object": object()}


@pytest.mark.first_row
@pytest.mark.parametrize("case", UNSENDABLE)
async def test_the_client_changes_nothing_in_silence(house: Harness, case: str) -> None:
    run = await house.start("steps: [{kind: hitl, name: ask, message: Go?, input_schema: {}}]")
    assert (await house.refused(run, UNSENDABLE[case])).code == "invalid_answer"
    with pytest.raises(BadInput, match="input"):
        await house.runs.start(house.load(ONE), UNSENDABLE[case])
    await house.answer(run, 1)


async def test_the_client_sends_nothing_that_is_too_large(house: Harness) -> None:
    run = await house.start(ONE)
    question = await house.one(run)
    for how in ({}, {"signal": True}):
        with pytest.raises(Refusal) as refused:
            await house.answer(run, "x" * 1024 * 1024, question, **how)
        assert refused.value.code == "too_large"
    await house.answer(run, "go", question)


TOLD = {"overflow": '{"text": 1e999}', "large": json.dumps({"text": "x" * 1024 * 1024}), "mark": "\ufeff{}"}


@pytest.mark.slow
@pytest.mark.parametrize("case", TOLD)
async def test_what_is_told_comes_through_the_same_door(house: Harness, case: str) -> None:
    run = await house.start(agent(house, [turn(call("request_user_info", question="Go?")), "done"], human=["ask"]))
    question = await house.one(run)
    code = "too_large" if case == "large" else "invalid_answer"
    refusal = await updated(house, question.owner, raw(TOLD[case]), "tell")
    assert refusal is not None and refusal.type == code
    assert (await signalled(house, question.owner, raw(TOLD[case]), name="tell")).code == code
    await house.answer(run, "go", question)
    assert await house.output(run) == "done"


INPUTS = {
    "overflow": ('{"input": {"x": 1e999}}', "input_invalid"),
    "half": ('{"input": "\\ud800"}', "input_invalid"),
    "no state": ('{"inputs": 1}', "input_invalid"),
    "no JSON": ("input", "input_invalid"),
    "many": (json.dumps({"input": [0] * 100_000}), "too_large"),
    "deep": (json.dumps({"input": "D"}).replace('"D"', "[" * 1000 + "]" * 1000), "too_large"),
}


@pytest.mark.first_row
@pytest.mark.parametrize("case", INPUTS)
async def test_a_run_with_an_input_that_cannot_be_taken_fails_and_says_why(house: Harness, case: str) -> None:
    state, type_ = INPUTS[case]
    run = f"door-{uuid.uuid4().hex[:8]}"
    definition = Definition(blueprint=house.load(ONE), run=run)
    queue = house.runs.task_queue
    await house.client.start_workflow(PIPELINE_WORKFLOW, args=[definition, raw(state)], id=run, task_queue=queue)
    house.started.append(run)
    outcome = await house.result(run)
    assert outcome.error is not None and outcome.error.type == type_


GIVEN = {"inf": "tool_output", "wide": "tool_output", "many": "too_large", "deep": "too_large", "long": "too_large"}


@pytest.mark.first_row
@pytest.mark.parametrize("case", GIVEN)
async def test_a_tool_whose_result_cannot_be_kept_fails(house: Harness, case: str) -> None:
    run = await house.start(
        "steps: [{kind: step, name: get, uses: 'tests.tools:unkeepable', input: '{{ input }}'}]", case
    )
    outcome = await house.result(run)
    assert outcome.error is not None and outcome.error.type == GIVEN[case]


@pytest.fixture
def narrow() -> Iterator[None]:
    """A deployment whose limits are lower than those of the runs here."""
    guard.DEPLOYMENT.limits = SizeLimits(answer=SizeLimit(bytes=500), reply=LargeLimit(bytes=500))
    yield
    guard.DEPLOYMENT.limits = SizeLimits()


async def test_a_model_whose_reply_is_too_large_fails_the_step(house: Harness, narrow: None) -> None:
    run = await house.start("steps: [{kind: step, name: say, agent: {model: echo}}]", "x" * 500)
    outcome = await house.result(run)
    assert outcome.error is not None and outcome.error.type == "too_large"


async def test_updates_are_measured_by_the_deployment_and_signals_by_the_run(house: Harness, narrow: None) -> None:
    run = await house.start(ONE)
    question = await house.one(run)
    answer = answer_to(question, json.dumps("x" * 500))
    refusal = await updated(house, run, answer)
    assert refusal is not None and refusal.type == "too_large"
    await house.client.get_workflow_handle(run).signal("answer", answer)
    assert await house.output(run) == "x" * 500


async def test_a_signal_too_large_from_before_the_worker_is_refused_once_it_is_there(temporal: Client) -> None:
    queue = f"door-{uuid.uuid4().hex[:8]}"
    runs = Runs(temporal, queue)
    await runs.start(loads(ONE, file="test.yaml", name="test"), run=queue)
    await temporal.get_workflow_handle(queue).signal("answer", raw(LARGE))
    async with worker_for(temporal, queue):
        [question] = await until(lambda: runs.questions(queue), "the question")
        assert [one.code for one in (await runs.tree.view(queue)).refused] == ["too_large"]
        await runs.answer(queue, [Answer(question=question.id, content="go")])
        assert (await runs.result(queue)).output == "go"


@pytest.mark.slow
async def test_an_answer_that_comes_after_the_run_has_ended_is_told_who_was_first(house: Harness) -> None:
    run = await house.start(ONE)
    question = await house.one(run)
    await house.answer(run, "go", question, by="user:ana")
    await house.output(run)
    refusal = await house.refused(run, "stop", question)
    assert (refusal.code, "user:ana" in refusal.message) == ("already_answered", True)
