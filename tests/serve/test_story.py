"""The story of a run beside its questions: values as people say them, places as they read them."""

import html

import pytest

from holdfast.protocol.answers import Answer
from holdfast.server.web.addresses import question_address
from tests.conftest import Harness
from tests.serve.pages import desk, words

LABELLED = """
steps:
  - kind: map
    name: systems
    map:
      iterable_input: input
      label: "{{ item.name }}"
      body: [{kind: hitl, name: critical, message: "Grant it?"}]
"""
STOPPED = """
steps:
  - {name: draft, input: "Second draft.\\nNews: 'tea'.", interrupt_after: true}
  - {name: facts, input: {city: Graz, guests: 4}}
  - {kind: hitl, name: ask, message: "Well?"}
"""


async def test_the_place_of_a_question_of_an_item_has_the_item_s_label(house: Harness) -> None:
    question = await house.one(await house.start(LABELLED, [{"name": "Billing"}]))
    await house.runs.answer(question.run, [Answer(question=question.id, content="yes")], by="user:ana")
    async with desk(house) as ana:
        page = words(html.unescape((await ana.get(question_address(question))).text))
    assert "systems Billing › critical" in page and "systems 0" not in page


@pytest.mark.slow
async def test_the_story_says_values_in_words_and_where_a_stop_was(house: Harness) -> None:
    run = await house.start(STOPPED)
    stop = await house.one(run)
    await house.runs.answer(run, [Answer(question=stop.id, digest=stop.digest)], by="user:ana")
    question = await house.one(run)
    async with desk(house) as ana:
        page = html.unescape((await ana.get(question_address(question))).text)
        closed = await ana.get(question_address(stop))
    assert "✓ draft Second draft. News: 'tea'." in words(page)
    assert "✓ facts city: Graz, guests: 4" in words(page)
    assert "Stopped before facts Answered by ana" in words(page)
    assert f'href="{question_address(stop)}"' in page and closed.status_code == 200
