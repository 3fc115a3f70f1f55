"""From a run to a receiver: a real server, a real worker, the recorder, the notifier, a webhook."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from holdfast.runtime.config import NOTICE_KINDS
from holdfast.server.notices.channels import AddressBook, Channel, Channels
from holdfast.server.notices.notifier import Notifier
from holdfast.server.notices.transports import Webhook
from tests.conftest import Harness, until
from tests.notices.receivers import WebServer, web_server
from tests.record.ground import ASK, Recording

REFUSED = """
name: refused
steps:
  - {kind: hitl, name: ok, message: "May it go on?", on_decline: fail}
"""


@dataclass
class Telling:
    """A recorder and a notifier, a round at a time, and what a webhook got of one run."""

    recording: Recording
    notifier: Notifier
    web: WebServer

    async def until_told(self, run: str, type_: str) -> list[dict[str, Any]]:
        """The events of this type that the webhook got of the run, once there is one.

        Those of other types may come after it: what is found in one round is delivered at the same time.
        """

        async def told() -> list[dict[str, Any]]:
            await self.recording.recorder.round()
            await self.notifier.round()
            events = [got.json for got in self.web.got if got.json["source"] == run]
            return [event for event in events if event["type"] == type_]

        events: list[dict[str, Any]] = await until(told, f"{type_} of {run}")
        return events


@pytest.fixture
def telling(recording: Recording) -> Iterator[Telling]:
    with web_server() as web:
        channels = Channels({"ops": Channel("ops", Webhook(web.url), NOTICE_KINDS)})
        namespace = recording.house.client.namespace
        book, links = AddressBook({}, {}), lambda notice, _: f"https://inbox/{notice.question_id}"
        yield Telling(recording, Notifier(recording.store, namespace, channels, lambda: book, links), web)


async def test_a_run_that_was_parked_before_is_told_of_once(house: Harness, telling: Telling) -> None:
    run = await house.start(ASK)
    question = await house.one(run)
    [event] = await telling.until_told(run, "holdfast.question.asked")
    await telling.notifier.round()
    assert event["data"]["question"] == {
        name: value
        for name, value in question.model_dump(mode="json").items()
        if name not in ("info", "parents", "asked", "default")
    }
    assert (event["data"]["link"], len(telling.web.got)) == (f"https://inbox/{question.id}", 1)
    await house.answer(run, "Rome")


@pytest.mark.slow
async def test_an_answer_is_told_and_no_history_knows_of_it(house: Harness, telling: Telling) -> None:
    run = await house.start(ASK)
    await telling.until_told(run, "holdfast.question.asked")
    await house.answer(run, "Rome", by="user:ana")
    [event] = await telling.until_told(run, "holdfast.question.answered")
    assert event["data"]["answer"] == {"status": "answered", "by": "user:ana"}
    assert "Rome" not in str([got.json for got in telling.web.got])
    [history] = await house.histories(run)
    assert not any(event.HasField("activity_task_scheduled_event_attributes") for event in history.events)


@pytest.mark.slow
async def test_a_failed_run_is_told_with_its_reason(house: Harness, telling: Telling) -> None:
    run = await house.start(REFUSED)
    await house.decline(run, "no paper")
    assert (await house.result(run)).status == "failed"
    [event] = await telling.until_told(run, "holdfast.run.failed")
    assert event["data"]["failure"]["address"] == "pipeline:refused;hitl:ok"
