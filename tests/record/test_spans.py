"""Traces of runs, in a receiver of OTLP: right parents, each span once, nothing of what was said."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from holdfast.server.record.entries import ENDED
from holdfast.server.record.telemetry import SpanWriter
from tests.conftest import Harness
from tests.record.ground import Recording

NESTED = """
name: nested
agents: {helper: {model: echo}}
steps:
  - kind: loop
    name: outer
    loop:
      max_loops: 2
      checkpoint_every: 1
      body:
        - kind: loop
          name: inner
          loop: {max_loops: 2, body: [{kind: hitl, name: ask, message: "Secret {{ iteration }}?"}]}
        - {agent: helper, name: think, input: Hi}
"""


class Receiver:
    """A collector that takes OTLP over HTTP."""

    def __init__(self) -> None:
        self.requests: list[bytes] = []
        self.status = 200

    def spans(self) -> list[Span]:
        read = [ExportTraceServiceRequest.FromString(body) for body in self.requests]
        return [span for one in read for r in one.resource_spans for scope in r.scope_spans for span in scope.spans]


@pytest.fixture
def receiver() -> Iterator[tuple[Receiver, str]]:
    received = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.requests.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(received.status)
            self.end_headers()
            self.wfile.write(ExportTraceServiceResponse().SerializeToString())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield received, f"http://127.0.0.1:{server.server_port}/v1/traces"
    server.shutdown()
    server.server_close()


async def sent(recording: Recording, url: str) -> None:
    """Send what has ended, once every workflow of it is recorded."""
    writer = SpanWriter(recording.store, recording.house.client.namespace, exporter(url), timedelta(0))
    while await writer.round() == 0:
        await recording.recorder.round()


def exporter(url: str) -> OTLPSpanExporter:
    return OTLPSpanExporter(url, compression=None, timeout=2)


@pytest.mark.slow
async def test_a_trace_has_right_parents_and_each_span_once(
    house: Harness, recording: Recording, receiver: tuple[Receiver, str]
) -> None:
    received, url = receiver
    run = await house.start(NESTED)
    await house.answered(run, *"abcd")
    await house.output(run)
    await recording.until_recorded(run, ENDED)
    await sent(recording, url)
    spans = received.spans()
    names = {span.span_id: span.name for span in spans}
    assert len(names) == len(spans) and len({span.trace_id for span in spans}) == 1
    parents = sorted({(span.name, names.get(span.parent_span_id, "-")) for span in spans})
    assert parents == sorted(
        [
            ("step think", "loop outer 1"),
            ("step think", "loop outer 2"),
            ("chat echo", "step think"),
            ("hitl ask", "loop inner 1"),
            ("hitl ask", "loop inner 2"),
            ("loop inner", "loop outer 1"),
            ("loop inner", "loop outer 2"),
            ("loop inner 1", "loop inner"),
            ("loop inner 2", "loop inner"),
            ("loop outer", "pipeline nested"),
            ("loop outer 1", "loop outer"),
            ("loop outer 2", "loop outer"),
            ("pipeline nested", "-"),
            ("question input", "hitl ask"),
        ]
    )
    assert [span.name for span in spans].count("question input") == 4
    assert all(0 < span.start_time_unix_nano <= span.end_time_unix_nano for span in spans)
    inside = {span.span_id: span for span in spans}
    for span in spans:
        if span.parent_span_id:
            assert span.end_time_unix_nano <= inside[span.parent_span_id].end_time_unix_nano + 10**9
    assert b"Secret" not in b"".join(received.requests)


async def test_nothing_is_sent_while_a_person_is_awaited_and_a_failure_is_told(
    house: Harness, recording: Recording, receiver: tuple[Receiver, str]
) -> None:
    received, url = receiver
    run = await house.start("steps: [{kind: hitl, name: ask, message: Go?, on_decline: fail}]")
    await recording.until_recorded(run, "question.asked")
    writer = SpanWriter(recording.store, house.client.namespace, exporter(url), timedelta(0))
    assert (await writer.round(), received.requests) == (0, [])
    await house.decline(run)
    await house.result(run)
    await recording.until_recorded(run, ENDED)
    await sent(recording, url)
    [root] = [span for span in received.spans() if not span.parent_span_id]
    assert root.status.code == 2


@pytest.mark.slow
async def test_what_a_collector_does_not_take_is_sent_again(
    house: Harness, recording: Recording, receiver: tuple[Receiver, str]
) -> None:
    received, url = receiver
    received.status = 400
    run = await house.start("steps: [{kind: hitl, name: ask, message: Go?}]")
    await house.answered(run, "yes")
    await house.output(run)
    await recording.until_recorded(run, ENDED)
    writer = SpanWriter(recording.store, house.client.namespace, exporter(url), timedelta(0))
    assert await writer.round() == 0
    refused = [span.span_id for span in received.spans()]
    received.requests.clear()
    received.status = 200
    await sent(recording, url)
    assert (refused, [span.span_id for span in received.spans()]) == (refused, refused)
