"""How often a workflow writes its search attributes: once a job at most, when it has come to rest."""

from __future__ import annotations

import asyncio

from temporalio import workflow

from holdfast.workflows.human import HumanInTheLoop
from tests.people.activations import SIGNAL, FedRun

BRANCHES = ", ".join(f"b{n}: [{{kind: hitl, name: ask, message: Go?}}, {{name: n, input: 1}}]" for n in range(20))
UPSERT = "upsert_workflow_search_attributes"


@workflow.defn
class Inquiry(HumanInTheLoop):
    """Asks two people at once, and then once more."""

    @workflow.run
    async def run(self) -> str:
        await asyncio.gather(self.human.ask("One?"), self.human.ask("Two?"))
        answer: str = await self.human.ask("And?")
        return answer


def test_a_parallel_of_twenty_that_asks_writes_once() -> None:
    run = FedRun(f"steps: [{{kind: parallel, name: p, branches: {{{BRANCHES}}}}}]")
    kinds = [command.WhichOneof("variant") for command in run.commands]
    assert (len(run.questions), kinds.count(UPSERT)) == (20, 1)


def test_an_answer_that_leads_to_the_next_question_writes_once() -> None:
    run = FedRun("steps: [{kind: hitl, name: a, message: Go?}, {kind: hitl, name: b, message: And?}]")
    assert run.feed(run.answer("me", by=SIGNAL)).count(UPSERT) == 1
    assert [question.message for question in run.questions] == ["And?"]


def test_a_workflow_of_an_author_writes_once_a_job() -> None:
    run = FedRun(Inquiry)
    assert [command.WhichOneof("variant") for command in run.commands].count(UPSERT) == 1
    first, second = run.answer("me", n=0, by=SIGNAL), run.answer("me", n=1, by=SIGNAL)
    assert run.feed(first).count(UPSERT) == 0
    assert run.feed(second).count(UPSERT) == 1
    assert [question.message for question in run.questions] == ["And?"]
