"""Raw bytes at every question kind, by update and by signal, on a real server.

`python -m tests.fuzz.door SECONDS [SEED]`. Afterwards a question is open or answered, never neither; the run has not
failed; no workflow task has.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import randrange
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowUpdateFailedError
from temporalio.common import RawValue
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import WorkflowEnvironment

from holdfast.blueprint import loads
from holdfast.client.connection import DATA_CONVERTER
from holdfast.client.embedded.server import temporal_binary
from holdfast.client.runs import Runs
from holdfast.client.states import RunState
from holdfast.protocol.questions import Question
from tests.conftest import ATTRIBUTES, worker_for

HITL = "steps: [{kind: hitl, name: ask, message: Go?, on_decline: continue, %s}]"
KINDS = {
    "text": HITL % "ask: input",
    "form": HITL % "input_schema: {type: object}",
    "any": HITL % "input_schema: {}",
    "number": HITL % "input_schema: {type: number}, sink_to: answer",
    "choice": HITL % "options: [warm, cool]",
    "clarification": HITL % "ask: clarification, options: [warm, cool], multiple: 2",
    "decision": HITL % "ask: decision, options: [warm, cool]",
    "permission": HITL % "ask: permission",
    "review": HITL % "ask: review, input: {x: 1}, input_schema: {type: object}",
    "free review": HITL % "ask: review, input: text",
    "secret": HITL % "ask: secret",
    "secrets": HITL % "ask: secret, input_schema: {type: object, properties: {A: {type: string}}}",
    "hold": HITL % "ask: hold",
    "quorum": HITL % "ask: decision, options: [warm, cool], quorum: 3",
    "sink": HITL % "input_schema: {type: object}, sink_to: answer",
    "checkpoint": "steps: [{name: a, input: 1, interrupt_before: true}]",
    "fact": "steps: [{kind: clarify, name: c, goal: Tea, schema: {type: object, required: [x], properties: "
    "{x: {type: string}, n: {type: integer}}}}]",
    "plan": "steps: [{kind: plan, name: p, plan: {goal: Tea, confirm: true, steps: [{id: '1', instruction: "
    "'ASK_INFO: Go?'}]}}]",
    "interrupt": "steps: [{name: a, uses: 'tests.tools:wants_anything'}]",
}
CONTENTS = (
    '"warm"',
    '["warm", "cool"]',
    '{"granted": true}',
    '{"granted": false, "reason": %s}',
    '{"verdict": "unchanged"}',
    '{"verdict": "edited", "payload": {"x": %s}}',
    '{"verdict": "edited", "payload": %s}',
    '{"x": %s}',
    '{"A": "secret:env/A"}',
    '"secret:env/A"',
    "[%s]",
    "%s",
    "null",
    "1",
)
HOSTILE = (
    "1e999",
    "-1e999",
    "NaN",
    "-Infinity",
    "9223372036854775808",
    "-9223372036854775809",
    "1" * 5000,
    '"\\ud800"',
    '"\\u0000"',
    '{"\\udfff": 1}',
    '{"a": 1, "a": 2}',
    '{"%s": 1}' % ("k" * 10_000),
    "[" * 65 + "]" * 65,
    "[" * 5000 + "]" * 5000,
    "[" + "0," * 12_000 + "0]",
    "",
    "{",
    "'x'",
)
STOPPED = ("stopped", "question_declined", "question_cancelled", "plan_rejected", "plan_failed")
"""How a run may fail: somebody declined what ends it."""


def _braced(members: Iterable[str]) -> str:
    return "{" + ",".join(members) + "}"


texts = st.text(st.characters(codec=None), max_size=8).map(json.dumps)
plain = st.one_of(texts, st.sampled_from(["null", "true", "1", "[]", "{}"]), st.integers().map(json.dumps))
scalars = st.one_of(st.sampled_from(HOSTILE), plain, st.floats().map(json.dumps))
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda items: f"[{','.join(items)}]"),
        st.lists(st.tuples(texts, inner), max_size=4).map(
            lambda items: _braced(f"{key}:{value}" for key, value in items)
        ),
    ),
    max_leaves=8,
)
contents = st.builds(lambda form, value: form.replace("%s", value), st.sampled_from(CONTENTS), values)
fields = st.fixed_dictionaries(
    {},
    optional={
        "action": st.sampled_from(['"accept"', '"decline"', '"cancel"', '"x"']) | values,
        "content": contents,
        "digest": values,
        "extra": values,
    },
)
envelopes = st.fixed_dictionaries(
    {},
    optional={
        "by": st.sampled_from(['"user:ana"', '"user:bob"']) | values,
        "key": texts | values,
        "comment": texts | values,
        "token": values,
        "answers": values,
    },
)


@dataclass(frozen=True)
class Sent:
    """One message: QUESTION stands for an id or an address that is known only then."""

    kind: str
    name: str
    signal: bool
    payloads: list[tuple[bytes, str]]


def _object(written: dict[str, str]) -> str:
    return _braced(f'"{key}":{value}' for key, value in written.items())


def _message(answers: list[dict[str, str]], envelope: dict[str, str], bare: bool) -> str:
    named = [{"question": '"QUESTION"', **answer} for answer in answers]
    if bare and named:
        return _object({**named[0], **envelope})
    return _object({"answers": f"[{','.join(map(_object, named))}]", **envelope})


ACTIONS = ('"accept"',) * 4 + ('"decline"', '"cancel"')
proper = st.fixed_dictionaries(
    {
        "action": st.sampled_from(ACTIONS),
        "content": st.builds(lambda form, value: form.replace("%s", value), st.sampled_from(CONTENTS), plain),
    }
)
people = st.fixed_dictionaries({"by": st.sampled_from(['"user:ana"', '"user:bob"', '"user:eve"'])})
answers = st.builds(_message, st.lists(proper, min_size=1, max_size=1), people, st.booleans())
messages = st.builds(_message, st.lists(proper | fields, min_size=1, max_size=2), people | envelopes, st.booleans())
encoded = st.one_of(
    messages.map(lambda text: text.encode(errors="surrogatepass")),
    messages.map(lambda text: text.encode(errors="surrogatepass")),
    values.map(lambda text: text.encode(errors="surrogatepass")),
    messages.map(lambda text: b"\xef\xbb\xbf" + text.encode(errors="surrogatepass")),
    messages.map(lambda text: text.encode("utf-16", errors="surrogatepass")),
    st.builds(lambda text, cut: text.encode(errors="surrogatepass")[:cut], messages, st.integers(0, 200)),
    st.binary(max_size=40),
)
encodings = st.sampled_from(["json/plain"] * 8 + ["binary/null", "binary/plain", "json/protobuf", "x/\xff", ""])
payloads = st.one_of(
    st.lists(st.tuples(encoded, encodings), min_size=1, max_size=1), st.lists(st.tuples(encoded, encodings), max_size=3)
)
answering = st.builds(
    lambda kind, signal, text: Sent(kind, "answer", signal, [(text.encode(errors="surrogatepass"), "json/plain")]),
    st.sampled_from(sorted(KINDS)),
    st.booleans(),
    answers,
)
sendings = answering | st.builds(
    Sent,
    kind=st.sampled_from(sorted(KINDS)),
    name=st.sampled_from(["answer"] * 6 + ["pause", "resume", "tell", "plan", "nonsense"]),
    signal=st.booleans(),
    payloads=payloads,
)


@dataclass
class Target:
    """The runs that are shot at: one of each kind, started anew when its question has been answered."""

    client: Client
    runs: Runs
    open: dict[str, tuple[str, Question]] = field(default_factory=dict)
    used: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    async def check(self, sent: Sent) -> None:
        """Send it, and see what became of the question. Raises AssertionError for a finding."""
        run, question = self.open.get(sent.kind) or await self._start(sent.kind)
        await self._send(question, sent)
        standing = await self._settled(run, question)
        self.counts["sent"] += 1
        if question.id in {one.id for one in standing.questions}:
            self.open[sent.kind] = (run, question)
            return
        self.counts["answered"] += 1
        self.open.pop(sent.kind, None)
        if standing.questions:
            self.open[sent.kind] = (run, standing.questions[0])
        else:
            await self._check_ended(run)

    async def _start(self, kind: str) -> tuple[str, Question]:
        run = f"fuzz-{uuid.uuid4().hex[:8]}"
        await self.runs.start(loads(KINDS[kind], file=f"{kind}.yaml", name="fuzz"), run=run)
        self.used.append(run)
        standing = await self._settled(run, None)
        assert len(standing.questions) == 1, f"{kind} asks nothing: {standing}"
        self.open[kind] = (run, standing.questions[0])
        return run, standing.questions[0]

    async def _send(self, question: Question, sent: Sent) -> None:
        payloads = [
            RawValue(
                Payload(
                    metadata={"encoding": encoding.encode()} if encoding else {},
                    data=data.replace(b"QUESTION", question.id.encode()),
                )
            )
            for data, encoding in sent.payloads
        ]
        handle = self.client.get_workflow_handle(question.owner)
        try:
            if sent.signal:
                await handle.signal(sent.name, args=payloads)
            else:
                await handle.execute_update(sent.name, args=payloads)
        except WorkflowUpdateFailedError:
            self.counts["refused"] += 1
        except RPCError as error:
            assert error.status == RPCStatusCode.NOT_FOUND, f"{question.owner}: {error}"

    async def _settled(self, run: str, question: Question | None) -> RunState:
        """How the run stands once it waits or has ended; one that was paused goes on."""
        for _ in range(500):
            standing = await self.runs.standing(run)
            if standing.status == "paused":
                await self.runs.resume(run)
            elif standing.questions or standing.status in ("completed", "failed", "cancelled"):
                return standing
            await asyncio.sleep(0.02)
        raise AssertionError(f"the run neither asks nor ends: {question}; {standing}")

    async def _check_ended(self, run: str) -> None:
        outcome = await self.runs.result(run)
        stopped = outcome.error is not None and outcome.error.type in STOPPED
        assert outcome.status == "completed" or stopped, f"the run is {outcome.status}: {outcome.error}"
        await self.check_tasks(run)

    async def check_tasks(self, run: str) -> None:
        """No workflow task of the run has failed."""
        async for event in self.client.get_workflow_handle(run).fetch_history_events():
            assert event.event_type != EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED, f"{run}: {event}"


def _payload(data: bytes, encoding: str) -> RawValue:
    return RawValue(Payload(metadata={"encoding": encoding.encode()} if encoding else {}, data=data))


def shoot(target: Target, loop: asyncio.AbstractEventLoop, seconds: float, first: int) -> None:
    """Send messages until the time is over. Raises AssertionError with the smallest message that is a finding."""
    end = time.monotonic() + seconds

    @settings(
        max_examples=100,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    @given(sendings)
    def one(sent: Sent) -> None:
        if time.monotonic() < end + 30:  # what is being shrunk gets some seconds more
            asyncio.run_coroutine_threadsafe(target.check(sent), loop).result(120)

    for number in range(sys.maxsize):
        if time.monotonic() >= end:
            return
        seed(first + number)(one)()


async def fuzz(seconds: float, first: int) -> None:
    logging.getLogger("temporalio").setLevel(logging.CRITICAL)  # it tells of each signal that it drops
    environment = await WorkflowEnvironment.start_local(
        dev_server_existing_path=temporal_binary(), data_converter=DATA_CONVERTER, search_attributes=ATTRIBUTES
    )
    async with environment:
        client, queue = environment.client, "fuzz"
        target = Target(client, Runs(client, queue))
        async with worker_for(client, queue):
            await asyncio.to_thread(shoot, target, asyncio.get_running_loop(), seconds, first)
            for run, _ in target.open.values():
                await target.check_tasks(run)
    print(f"seed {first}: {dict(target.counts)} in {len(target.used)} runs")


if __name__ == "__main__":
    words: list[Any] = sys.argv[1:]
    asyncio.run(fuzz(float(words[0]) if words else 60, int(words[1]) if words[1:] else randrange(2**32)))
