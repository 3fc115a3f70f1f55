"""Examples with models, through each wire: their scripted replies go over HTTP, and their tests hold all the same.

Those of `VARIED` say between them each kind of thing that a model and we say to each other. All of their tests go over
the first wire, and the first of each over the others: what the other tests vary is mostly what people answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from temporalio import activity

from holdfast.activities.models import ModelActivities
from holdfast.activities.outputs import arguments_schema
from holdfast.blueprint.expressions.values import write_text
from holdfast.protocol.agents import ModelReply, ModelRequest
from holdfast.runtime.config import load_config
from holdfast.testkit.environment import TestEnvironment
from holdfast.testkit.files import Case, CaseFile, read_cases
from holdfast.testkit.running import run_case
from tests.activities.provider import Reply
from tests.repository import ROOT
from tests.wire.apis import APIS
from tests.wire.fake import Fake

EXAMPLES = ROOT / "examples"


class Wired(ModelActivities):
    """Has each scripted reply said by the fake provider, one request at a time."""

    def __init__(self, real: ModelActivities, fake: Fake) -> None:
        super().__init__(real._aliases, real._files, real._agents)
        self._fake, self._one = fake, asyncio.Lock()

    @activity.defn(name="call_model")
    async def call_model(self, request: ModelRequest) -> ModelReply:
        """See base class."""
        return await super().call_model(request)

    async def _reply(self, request: ModelRequest) -> ModelReply:
        scripted = await super()._reply(request)
        # What lies on the web a provider's library may fetch from there.
        if any(file.url for message in request.messages for file in message.files):
            return scripted
        async with self._one:
            self._fake.reply(said(scripted, request))
            return await (await self._providers()).reply(request, self._fake.alias, ours=True)


def said(reply: ModelReply, request: ModelRequest) -> Reply:
    """A scripted reply as a model says it."""
    before = sum(len(message.tool_calls) for message in request.messages)
    numbered = enumerate(reply.tool_calls, before + 1)  # as calls without an id are counted
    calls = tuple((call.name, call.args, call.id or str(n)) for n, call in numbered)
    if calls or request.output_schema is None or isinstance(reply.output, str):
        return Reply(text=None if reply.output is None else write_text(reply.output), calls=calls)
    schema = arguments_schema(request.output_schema)
    args = reply.output if schema is request.output_schema else {"result": reply.output}
    return Reply(calls=(("final_result", args, "call_1"),))


class WiredStage(TestEnvironment):
    """A stage whose models are behind the fake."""

    fake: Fake

    def activities(self, *given: Any) -> list[Callable[..., Any]]:
        """See base class."""
        found = super().activities(*given)
        models = next(one for one in found if one.__name__ == "call_model").__self__  # type: ignore[attr-defined]
        return [Wired(models, self.fake).call_model if one.__name__ == "call_model" else one for one in found]


VARIED = (
    *("check_receipt", "help_with_account", "inspect_sites", "interview_applicant"),
    *("reach_goal", "report_on_market", "translate_chapters"),
)
REFUSED = "check_receipt"
"""The example with a test that is refused before a request is made."""


@pytest_asyncio.fixture(scope="module")
async def wired(request: pytest.FixtureRequest) -> AsyncIterator[WiredStage]:
    stage = await WiredStage.open()
    async with Fake(APIS[request.param]) as fake:
        stage.fake = fake
        yield stage
        await stage.close()


def rows() -> list[Any]:
    """The tests of these examples, each with a wire."""
    paths = [EXAMPLES / name / f"{name}.test.yaml" for name in VARIED]
    files = [read_cases(path, load_config(path.parent)) for path in paths]
    return [
        pytest.param(wire, file, case, id=f"{wire}-{file.path.stem}-{n}")
        for place, wire in enumerate(APIS)
        for file in files
        for n, case in enumerate(file.cases[:1] if place else file.cases)
    ]


@pytest.mark.first_row
@pytest.mark.parametrize(("wired", "file", "case"), rows(), indirect=["wired"])
async def test_an_example_holds_over_the_wire(
    wired: WiredStage, file: CaseFile, case: Case, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    wired.fake.refused.clear()
    wired.fake.requests.clear()
    verdict = await run_case(wired, file, case)
    assert (wired.fake.refused, verdict.differences) == ([], [])
    assert wired.fake.requests or file.path.parent.name == REFUSED, "no request went over the wire"
