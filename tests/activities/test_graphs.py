"""Graphs of LangGraph as steps: their interrupts are questions, and no finished node runs twice."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from temporalio.api.common.v1 import Payload
from temporalio.converter import PayloadCodec
from temporalio.exceptions import ApplicationError

from holdfast.activities import McpServers, MemoryCheckpoints, NoCheckpoints, ToolActivities
from holdfast.activities.graphs.saver import StoredSaver
from holdfast.activities.registry import find
from holdfast.blueprint.errors import BlueprintError
from holdfast.protocol.runs import LossPolicy
from holdfast.protocol.tool_errors import CHECKPOINTS_UNREACHABLE
from tests import graphs
from tests.conftest import Harness, until
from tests.repository import ROOT
from tests.tools import calls


def step(graph: str, folder: Path, more: str = "") -> str:
    return f"steps: [{{name: graph, uses: {graph}, input: {{folder: '{folder}', log: []}}{more}}}]"


async def started(house: Harness, graph: str, more: str = "", **how: Any) -> str:
    uses = graph if graph.startswith("with_") or graph == "guarded_graph" else f'"tests.graphs:{graph}"'
    return await house.start(step(uses, house.folder, more), **how)


async def log(house: Harness, run: str) -> list[str]:
    output = await house.output(run)
    return list(output["log"])


async def test_an_interrupt_is_a_question_and_its_answer_resumes_the_graph(house: Harness) -> None:
    run = await started(house, "asking")
    question = await house.one(run)
    assert question.message == "Which way?"
    assert question.address == "pipeline:test;step:graph;level:ask"
    assert question.info == {"question": "Which way?", "so_far": ["first"]}
    await house.answer(run, {"to": "left"})
    assert await log(house, run) == ["first", "answer {'to': 'left'}", "last"]
    assert calls(house.folder, "first") == calls(house.folder, "last") == 1


@pytest.mark.slow
async def test_an_interrupt_may_be_resumed_without_data(house: Harness) -> None:
    run = await started(house, "asking")
    await house.one(run)
    await house.runs.control.resume(run)
    assert await log(house, run) == ["first", "answer None", "last"]


async def test_a_declined_interrupt_fails_the_step(house: Harness) -> None:
    run = await started(house, "asking")
    await house.decline(run)
    error = (await house.result(run)).error
    assert error is not None and error.type == "question_declined"


@pytest.mark.slow
async def test_parallel_nodes_ask_at_once_at_places_of_their_own_and_in_rounds(house: Harness) -> None:
    run = await started(house, "parallel")
    questions = {question.message: question for question in await house.asked(run, 5)}
    places = {message: question.address.partition("step:graph;")[2] for message, question in questions.items()}
    assert places == {
        "One?": "level:twice",
        "Other?": "level:other",
        "Which way?": "level:inner;level:ask",
        "Sent a?": "level:sent",
        "Sent b?": "level:sent~2",
    }
    await house.answer(run, "b!", questions["Sent b?"])
    await house.answer(run, "1", questions["One?"])

    async def find(message: str) -> Any:
        return {question.message: question for question in await house.runs.questions(run)}.get(message)

    two = await until(lambda: find("Two?"), "the second question")
    assert two.address.endswith("level:twice~2")
    await house.answer(run, "2", two)
    three = await until(lambda: find("Three?"), "the third question")
    assert three.address.endswith("level:twice~3")
    await house.answer(run, "3", three)
    for message, content in (("Sent a?", "a!"), ("Other?", "o!"), ("Which way?", "w!")):
        await house.answer(run, content, questions[message])
    assert sorted(await log(house, run)) == ["1 2 3", "a a!", "answer w!", "b b!", "first", "other o!"]
    assert calls(house.folder, "first") == 1


async def test_a_checkpointer_of_the_graphs_own_keeps_a_thread_for_each_call(house: Harness) -> None:
    before = graphs.own_saver.threads()
    runs = [await started(house, "owned") for _ in range(2)]
    for run in runs:
        await house.answer(run, run)
    assert [(await log(house, run))[1] for run in runs] == [f"answer {run}" for run in runs]
    assert len(graphs.own_saver.threads() - before) == 2
    assert calls(house.folder, "first") == 2


async def test_a_checkpointer_whose_async_methods_raise_is_used_in_a_thread(house: Harness) -> None:
    run = await started(house, "refusing_async")
    await house.answer(run, "left")
    assert await log(house, run) == ["first", "answer left", "last"]
    assert calls(house.folder, "first") == 1


async def test_a_graph_that_is_written_as_a_function_does_its_tasks_once(house: Harness) -> None:
    run = await house.start(f'steps: [{{name: f, uses: "tests.graphs:functional", input: "{house.folder}"}}]')
    await house.answer(run, "yes")
    assert (await house.output(run), calls(house.folder, "costly")) == ({"calls": 1, "said": "yes"}, 1)


class Turned(PayloadCodec):
    """A codec as one that encrypts: what it writes cannot be read."""

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [Payload(data=payload.SerializeToString()[::-1]) for payload in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [Payload.FromString(payload.data[::-1]) for payload in payloads]


async def test_checkpoints_are_encoded_as_payloads_are(tmp_path: Path) -> None:
    store = MemoryCheckpoints()
    config: Any = {"configurable": {"thread_id": "run/thread"}}

    async def saver() -> StoredSaver:
        made = StoredSaver("run/thread", store, Turned(), InMemorySaver().serde)
        await made.load()
        return made

    given = {"folder": str(tmp_path), "log": ["large" * 1000]}
    await graphs.asking.copy({"checkpointer": await saver()}).ainvoke(given, config, durability="sync")
    records = await store.read("run/thread")
    assert any(b"egral" in record for record in records) and not any(b"large" in record for record in records)
    again = graphs.asking.copy({"checkpointer": await saver()})
    assert (await again.aget_state(config)).next == ("ask",)


@pytest.mark.slow
async def test_a_graph_is_a_tool_of_an_agent(house: Harness) -> None:
    args = f"{{folder: '{house.folder}', log: []}}"
    house.script(f"a: [{{tool_calls: [{{name: asking, args: {args}}}]}}, '{{{{ messages[-1].content.log | last }}}}']")
    agent = '{model: "scripted:replies.yaml", tools: ["tests.graphs:asking"]}'
    run = await house.start(f"steps: [{{name: a, agent: {agent}, input: Go.}}]", check=True)
    assert (await house.one(run)).address == "pipeline:test;agent:a;tool:asking:1;level:ask"
    await house.answer(run, "left")
    assert (await house.output(run), calls(house.folder, "first")) == ("last", 1)


async def test_a_worker_without_a_store_refuses_a_graph_that_needs_it() -> None:
    tools = ToolActivities(["tests"], McpServers({}), {}, NoCheckpoints())
    with pytest.raises(ApplicationError, match=r"no store for checkpoints: set external in \[payloads\]"):
        tools.check("tests.graphs:asking")
    tools.check("tests.graphs:owned")


@pytest.mark.slow
async def test_a_graph_without_a_checkpointer_is_refused_before_it_starts(house: Harness) -> None:
    with pytest.raises(BlueprintError, match=r"steps\[0\].uses.*tests.graphs:bare: the graph has no checkpointer"):
        await started(house, "bare", check=True)
    run = await started(house, "bare", ", idempotent: true", check=True)
    assert await log(house, run) == ["first", "last"]


async def test_a_graph_whose_store_is_in_memory_is_refused_before_it_starts(house: Harness) -> None:
    with pytest.raises(BlueprintError, match=r"InMemoryStore.*PostgresStore"):
        await started(house, "forgetful", check=True)


async def test_a_graph_that_asks_without_a_checkpointer_fails(house: Harness) -> None:
    run = await started(house, "bare_asking", ", idempotent: true")
    error = (await house.result(run)).error
    assert error is not None and error.type == "bad_interrupt" and "no checkpointer" in error.message


@pytest.mark.parametrize(
    ("graph", "place"), [("failing", "node fails: ValueError"), ("failing_inside", "node inner > fails: ValueError")]
)
async def test_a_failed_node_is_named_and_a_retry_goes_on_from_it(house: Harness, graph: str, place: str) -> None:
    run = await started(house, graph, ", on_error: ask")
    question = await house.one(run)
    assert place in question.message
    await house.answer(run, {"action": "retry"})
    assert (await log(house, run))[-1] == "mended"
    assert calls(house.folder, "first") == 1


async def test_a_graph_waits_for_a_store_that_is_full_however_often_it_may_fail(
    house: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, full = MemoryCheckpoints.append, iter(range(2))

    async def fail(self: MemoryCheckpoints, thread: str, number: int, record: bytes) -> None:
        if next(full, None) is not None:
            raise ApplicationError("No space left on device", type=CHECKPOINTS_UNREACHABLE)
        await append(self, thread, number, record)

    monkeypatch.setattr(MemoryCheckpoints, "append", fail)
    losses = LossPolicy(backoff=0.01, longest=0.1)
    run = await started(house, "asking", ", retry: {attempts: 1}", loss_policy=losses)
    assert (await house.one(run)).address == "pipeline:test;step:graph;level:ask"


async def test_a_breakpoint_of_the_author_asks_once(house: Harness) -> None:
    run = await started(house, "breaking")
    question = await house.one(run)
    assert question.address.endswith("level:last") and "stops at last" in question.message
    assert calls(house.folder, "last") == 0
    await house.runs.control.resume(run)
    assert await log(house, run) == ["first", "last"]


async def test_a_graph_in_a_circle_ends_at_its_limit(house: Harness) -> None:
    run = await started(house, "endless")
    error = (await house.result(run)).error
    assert error is not None and error.type == "graph_recursion"
    assert calls(house.folder, "again") == 3


@pytest.mark.slow
async def test_a_response_schema_is_the_form_of_the_question(house: Harness) -> None:
    run = await started(house, "judging")
    refusal = await house.refused(run, {"verdict": "fine"})
    assert refusal.code == "invalid_answer"
    await house.answer(run, {"verdict": "good"})
    assert await log(house, run) == ["good"]


@pytest.mark.slow
async def test_a_question_of_ours_keeps_its_kind(house: Harness) -> None:
    run = await started(house, "asks_of_ours")
    assert (await house.one(run)).kind == "permission"
    await house.answer(run, {"granted": True})
    assert await log(house, run) == ["True"]


async def test_a_table_makes_the_question_and_the_way_back(house: Harness) -> None:
    run = await started(house, "with_table")
    question = await house.one(run)
    assert question.kind == "decision" and [option.id for option in question.options] == ["approve", "reject"]
    await house.answer(run, "reject")
    assert await log(house, run) == ["reject"]


async def test_a_factory_on_the_worker_makes_the_context_of_a_graph(house: Harness) -> None:
    assert await log(house, await started(house, "with_context")) == ["north"]


async def test_the_owner_of_a_graph_may_demand_approval(house: Harness) -> None:
    run = await started(house, "guarded_graph")
    assert (await house.one(run)).kind == "permission"
    await house.answer(run, {"granted": True})
    assert await log(house, run) == ["first"]


@pytest.mark.parametrize(
    ("input", "message"),
    [
        ("{foldr: x}", "no key 'foldr' in its state (it has: folder, log)"),
        ("text", "takes an object with keys of its state (folder, log), not str"),
    ],
)
async def test_input_that_the_state_does_not_have_is_refused(house: Harness, input: str, message: str) -> None:
    run = await house.start(f'steps: [{{name: graph, uses: "tests.graphs:asking", input: {input}}}]')
    error = (await house.result(run)).error
    assert error is not None and error.type == "tool_input" and message in error.message


async def test_a_value_that_the_state_refuses_is_told_with_its_node(house: Harness) -> None:
    run = await house.start('steps: [{name: graph, uses: "tests.graphs:checking", input: {amount: some}}]')
    error = (await house.result(run)).error
    assert error is not None and error.type == "tool_input"
    assert "node doubles: amount: Input should be a valid integer" in error.message


@pytest.mark.parametrize(("graph", "problem"), [("_private", "is private"), ("uncompiled", "that is not compiled")])
async def test_what_is_no_graph_to_call_is_refused(house: Harness, graph: str, problem: str) -> None:
    with pytest.raises(BlueprintError, match=f"'{graph}' is .*{problem.removeprefix('is ')}"):
        await started(house, graph, check=True)


async def test_a_graph_of_a_package_that_is_not_listed_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "borrows.py").write_text("from tests.graphs import asking as borrowed\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ApplicationError, match=r"'borrowed' is imported from tests.graphs, which \[worker\] imports"):
        find("borrows:borrowed", ["borrows"])
    assert find("borrows:borrowed", ["borrows", "tests"]).is_graph


async def cancelled_in_a_node(house: Harness, graph: str) -> str:
    (house.folder / "hang").touch()
    run = await started(house, graph)
    await until(lambda: called(house.folder, "hangs"), "the node")
    await house.client.get_workflow_handle(run).cancel()
    return run


async def called(folder: Path, name: str) -> bool:
    return calls(folder, name) == 1


@pytest.mark.slow
async def test_a_cancelled_graph_does_not_wait_for_a_coroutine(house: Harness) -> None:
    run = await cancelled_in_a_node(house, "hanging")
    try:
        assert (await house.result(run)).status == "cancelled"
    finally:
        (house.folder / "hang").unlink()
    assert calls(house.folder, "last") == 0


@pytest.mark.slow
async def test_a_cancelled_graph_waits_for_a_node_in_a_thread_and_starts_no_other(house: Harness) -> None:
    run = await cancelled_in_a_node(house, "hanging_in_a_thread")
    await until(lambda: called(house.folder, "cancelled"), "the cancellation")
    (house.folder / "hang").unlink()
    assert (await house.result(run)).status == "cancelled"
    assert [calls(house.folder, name) for name in ("ended", "last")] == [1, 0]


@pytest.mark.slow
async def test_langgraph_is_imported_by_a_teams_module_alone() -> None:
    check = "import sys, holdfast.worker; print([name for name in sys.modules if name.startswith('lang')])"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", check, cwd=ROOT, stdout=PIPE)
    output, _ = await process.communicate()
    assert (process.returncode, output.decode().strip()) == (0, "[]")


@pytest.mark.slow
@pytest.mark.parametrize("checkpoint_every", [50, 1])
async def test_a_graph_in_a_loop_begins_anew_in_each_iteration(house: Harness, checkpoint_every: int) -> None:
    inner = step('"tests.graphs:asking"', house.folder).removeprefix("steps: ")
    keys = f"max_loops: 2, checkpoint_every: {checkpoint_every}"
    run = await house.start(f"steps: [{{kind: loop, name: l, loop: {{{keys}, body: {inner}}}}}]")
    assert await house.answered(run, "a", "b") == ["Which way?", "Which way?"]
    assert (await log(house, run)) == ["first", "answer b", "last"]
    assert calls(house.folder, "first") == 2
