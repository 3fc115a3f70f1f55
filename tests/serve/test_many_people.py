"""Many people at one inbox, who race for the same questions: each question gets exactly one answer.

`HOLDFAST_RACE=PEOPLE,RUNS,QUESTIONS_EACH` has a race of another size: `50,200,5` are 50 people at 1,000 questions.
"""

import asyncio
import os
import re
import uuid
from collections import Counter
from dataclasses import dataclass, field
from html import unescape
from random import Random
from typing import Any

import httpx
import pytest

from tests.conftest import Harness
from tests.serve.ground import WHO, client_of, site_of_house

RUN = """
name: {name}
steps:
- kind: map
  name: each
  map:
    iterable_input: "{{{{ range({together}) }}}}"
    max_concurrency: {together}
    body: [{{kind: hitl, name: ask, message: "Who takes {{{{ item }}}}?"}}]
"""
TAKEN = 10
"""Questions that a person goes for before a further look at the list."""
SIZE = os.environ.get("HOLDFAST_RACE", "20,4,5")
MOST_SECONDS_EACH = 15
RIVALS = 3
"""People who go for the same questions in the same order."""


@dataclass
class Race:
    """What the people have been told so far."""

    blueprint: str
    questions: int
    winners: dict[str, str] = field(default_factory=dict)
    """By question, as their pages said."""
    lost: Counter[str] = field(default_factory=Counter)

    async def take_part(self, browser: httpx.AsyncClient, number: int) -> None:
        """Answer questions of the list until all have been answered."""
        name, choice = f"p{number}", Random(number // RIVALS)
        while len(self.winners) < self.questions:
            page = await browser.get("/", params={"part": "list", "blueprint": self.blueprint}, headers={WHO: name})
            links = sorted(set(re.findall(r'href="(/questions/[^"?]+)', page.text)))
            if not links:
                await asyncio.sleep(0.1)
            for link in choice.sample(links, min(TAKEN, len(links))):
                if len(self.winners) < self.questions:
                    await self._answer(browser, unescape(link), name)

    async def _answer(self, browser: httpx.AsyncClient, address: str, name: str) -> None:
        page = await browser.get(address, headers={WHO: name})
        hidden = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', page.text))
        form = {**hidden, "do": "answer", "f:": name}
        sent = await browser.post(address, data=form, headers={WHO: name})
        while sent.status_code in (202, 503):  # on its way, or the worker is busy; the form's key counts once
            sent = await browser.post(address, data=form, headers={WHO: name})
        if sent.status_code == 303:
            assert self.winners.setdefault(address.rpartition("/")[2], name) == name, "two people were told they won"
        else:
            assert sent.status_code in (409, 410), f"{sent.status_code}: {sent.text[:2000]}"
            self.lost[name] += 1


@pytest.mark.slow
async def test_each_question_has_exactly_one_answer(house: Harness) -> None:
    people, runs, together = map(int, SIZE.split(","))
    race = Race(f"race-{uuid.uuid4().hex[:8]}", runs * together)
    text = RUN.format(name=race.blueprint, together=together)
    started = [await house.start(text) for _ in range(runs)]
    async with client_of(site_of_house(house)) as browser:
        people_at_once = (race.take_part(browser, number) for number in range(people))
        async with asyncio.timeout(
            MOST_SECONDS_EACH * race.questions
        ):  # whose answer was taken and who was never told would race for ever
            await asyncio.gather(*people_at_once)
    answered: list[tuple[str, Any]] = []
    for run in started:
        outcome = await house.result(run)
        events = [event.data for event in await house.runs.watch.events(run) if event.type == "question.answered"]
        answered += [(data.id, data.by.removeprefix("user:")) for data in events]
        assert sorted(outcome.output) == sorted(data.content for data in events)
    assert sorted(answered) == sorted(race.winners.items())
    assert sum(race.lost.values()) > 0, "nobody raced"
