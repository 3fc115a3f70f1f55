"""The pages of runs over HTTP, as they are without a script."""

from __future__ import annotations

import asyncio
import re
from html import unescape
from typing import Any, NoReturn

import httpx
import pytest

from holdfast.client.facets.watch import RunWatch
from holdfast.client.states import RunState
from holdfast.client.trace import Repetition, Span, view
from holdfast.client.views import Spending
from holdfast.protocol.events import LONGEST_TEXT
from holdfast.protocol.runs import HistoryLimits
from holdfast.server.notices.texts import load_texts
from holdfast.server.web.live import Live
from holdfast.server.web.pages import run_pages, run_steering
from holdfast.server.web.pages.run_tree import StepWords
from holdfast.server.web.pages.templating import LANGUAGES
from tests.agents.turns import agent, asking, call, turn
from tests.conftest import Harness, until
from tests.control.undoable import ASK as ASKING
from tests.control.undoable import block, do
from tests.flows import hanging, written
from tests.progress import at_work, is_told_to_end
from tests.record.ground import NOON
from tests.serve.ground import client_of, person, site_of_house
from tests.serve.pages import words

ASK = "name: asked\ncontext: {draft: {title: Hello}}\nsteps: [{name: ask, kind: hitl, message: 'Send <b>it</b>?'}]"
LOOP = (
    "steps: [{name: again, kind: loop, loop: {max_loops: 500, body: [{name: note, input: '{{ iteration }}'}]}},"
    " {name: ask, kind: hitl, message: Done?}]"
)
MAP = (
    "steps: [{name: each, kind: map, map: {iterable_input: input, body: [{name: double, input: '{{ item * 2 }}'}]}},"
    " {name: ask, kind: hitl, message: Done?}]"
)
LABELLED = (
    "steps: [{name: each, kind: map, map: {iterable_input: input, label: 'invoice {{ item }}', body:"
    " [{name: ask, kind: hitl, message: Pay?}]}}]"
)


PLAN = """
agents: {clerk: {model: "scripted:none"}}
steps:
  - name: work
    kind: plan
    plan:
      goal: Invite the guests
      agent: clerk
      steps:
        - {id: "1", instruction: Who <may> come?, pause_for_response: true}
        - {id: "2", title: Book the hall, instruction: x, condition: RESULT_FROM_1 contains everybody}
        - {id: "3", instruction: And when?, pause_for_response: true, dependencies: ["1"]}
"""


async def page(house: Harness, path: str, status: int = 200, **how: Any) -> str:
    async with client_of(site_of_house(house)) as client:
        answer = await client.get(path, **how)
    assert answer.status_code == status, answer.text
    return answer.text


async def post(house: Harness, path: str, data: dict[str, str] | None = None, who: str = "ana") -> httpx.Response:
    async with client_of(site_of_house(house), person("eve", "read")) as client:
        return await client.post(path, data=data, headers={"x-test-identity": who})


async def test_a_run_is_shown_with_its_question_and_its_steps(house: Harness) -> None:
    run = await house.start(ASK)
    question = await house.one(run)
    html = await page(house, f"/runs/{run}")
    assert f'href="/questions/{run}/{question.id}"' in html
    assert "Send &lt;b&gt;it&lt;/b&gt;?" in html and "<b>it</b>" not in html
    assert 'class="step is-waiting"' in html and "Waits for an answer" in html


async def test_the_end_of_a_run_is_shown_with_its_result_and_takes_no_commands(house: Harness) -> None:
    run = await house.start(ASK)
    await house.answer(run, "yes", by="user:bob")
    await house.output(run)
    html = await page(house, f"/runs/{run}")
    assert "completed" in html and "/pause" not in html and "data-live" not in html
    assert "Answered by bob" in words(html)


async def test_an_acceptance_below_the_quorum_is_shown_with_the_run_and_beside_the_question(house: Harness) -> None:
    run = await house.start(
        "name: two\nsteps: [{name: ask, kind: hitl, message: Well?, quorum: 2, assignees: [user:bob, user:cem]}]"
    )
    question = await house.one(run)
    await house.answer(run, "fine <by me>", question, by="user:bob", comment="so far")
    texts = [words(await page(house, path)) for path in (f"/runs/{run}", f"/questions/{run}/{question.id}")]
    assert "Accepted by bob" in texts[0] and "so far" in texts[0]
    assert "ask fine &lt;by me&gt; Accepted by bob “so far”" in texts[1]


async def test_a_failed_run_says_why_and_where(house: Harness) -> None:
    run = await house.start("steps: [{name: broken, uses: fails_always}]")
    await house.result(run)
    text = words(await page(house, f"/runs/{run}"))
    assert "The run has failed broken" in text and "ValueError: broken for good" in text


async def test_a_long_error_can_be_read_whole_on_the_page_and_is_bounded_in_the_events(house: Harness) -> None:
    asks = "{name: ask, kind: hitl, message: Well?}"
    fails = "{name: broken, uses: fails_at_length, arguments: {length: %s}, on_error: continue}"
    run = await house.start(f"steps: [{fails % 3_000}, {fails.replace('broken', 'huge') % 30_000}, {asks}]")
    await house.one(run)
    html = await page(house, f"/runs/{run}")
    whole, cut = re.findall(r'<pre class="whole"[^>]*>([^<]*)</pre>', html)
    assert len(whole) > 3_000 and whole.endswith("!")
    assert len(cut) == LONGEST_TEXT + 1 and cut.endswith("…")
    view = await site_of_house(house).runs.watch.view(run)
    assert str(view.trace.to_json()).count(whole) == 1
    question = await house.one(run)
    assert whole in await page(house, f"/questions/{run}/{question.id}")


async def test_steps_of_a_plan_are_named_by_what_they_do(house: Harness) -> None:
    run = await house.start(PLAN)
    await house.answer(run, "Ana")
    question = await house.one(run)
    steps, beside = [words(await page(house, path)) for path in (f"/runs/{run}", f"/questions/{run}/{question.id}")]
    assert "Who &lt;may&gt; come? 1" in steps and "And when? 3" in steps
    assert "skipped: Book the hall 2" in steps  # it has not begun
    assert "work › 1 Who &lt;may&gt; come?" in beside


@pytest.mark.slow
async def test_a_failed_step_and_tool_show_where_their_code_failed(house: Harness) -> None:
    step = await house.start("steps: [{name: broken, uses: fails_always}]")
    called = await house.start(agent(house, [turn(call("fails_always")), "done"], tools=["fails_always"]), "Go")
    for run in (step, called):
        await house.result(run)
        html = await page(house, f"/runs/{run}")
        assert "Where in its code" in html and "in fails_always" in html and "raise ValueError" in html


def test_what_models_took_is_added_up_over_steps_and_iterations() -> None:
    def asked(n: int, cost: float | None) -> Span:
        return Span("ask", "step", f"p;loop:l:{n};step:ask", "completed", spent=Spending(2, 750, cost))

    def notes(*iterations: Repetition) -> list[list[str]]:
        words = StepWords(load_texts("en", LANGUAGES))
        step = view(Span("l", "loop", "p;loop:l", "completed", iterations=list(iterations)), now=NOON)
        return [words.notes(step)[2:], *map(words.group_notes, step.groups)]

    whole = [Repetition(1, [asked(1, 0.01)]), Repetition(2, [asked(2, 0.0023)])]
    assert notes(*whole) == [["1,500 tokens", "$0.0123"], ["750 tokens", "$0.0100"], ["750 tokens", "$0.0023"]]
    assert notes(Repetition(1, [asked(1, None)])) == [["750 tokens"], ["750 tokens"]]
    assert notes(Repetition(7, [asked(7, 0.01)])) == [[], ["750 tokens", "$0.0100"]]  # six before it are not shown


@pytest.mark.slow
async def test_an_agent_is_shown_with_its_turns_and_tool_calls(house: Harness) -> None:
    turns = [turn(call("look_up", folder=str(house.folder), word="w"), call("fails_always")), "done"]
    run = await house.start(agent(house, turns, tools=["look_up", "fails_always"]), "Go")
    await house.output(run)
    text = words(await page(house, f"/runs/{run}"))
    assert "boss 2 turns" in text and "look_up tool, turn 1" in text
    assert "fails_always: ValueError: broken for good" in text


@pytest.mark.slow
async def test_of_a_long_loop_the_last_hundred_are_shown_with_a_link_to_earlier_ones(house: Harness) -> None:
    run = await house.start(LOOP.replace("500", "230"), history_limits=HistoryLimits(events=100))
    await house.one(run)
    html = await page(house, f"/runs/{run}")
    assert "230 iterations" in html and "130 earlier ones" in html
    assert "Iteration 131<" in html and "Iteration 130<" not in html
    [link] = re.findall(r'href="(/runs/[^"]+/repetitions[^"]+)"', html)
    earlier = await page(house, link.replace("&amp;", "&"))
    assert "Iteration 130<" in earlier and "Iteration 31<" in earlier
    assert "Iteration 131<" not in earlier and "Iteration 30<" not in earlier and 'rel="next"' in earlier


@pytest.mark.slow
async def test_of_a_large_map_the_items_are_counted_and_paged(house: Harness) -> None:
    run = await house.start(MAP, list(range(120)))
    await house.one(run)
    html = await page(house, f"/runs/{run}")
    assert "120 of 120 done" in html and "Item 119<" in html and "Item 19<" not in html
    [link] = re.findall(r'href="(/runs/[^"]+/repetitions[^"]+)"', html)
    assert "Item 0<" in await page(house, link.replace("&amp;", "&"))


async def test_items_have_their_labels_and_are_counted_to_their_number(house: Harness) -> None:
    run = await house.start(LABELLED, ["A-7", "B-2", "C-9"])
    await house.answer(run, "yes")
    await house.one(run)
    text = words(await page(house, f"/runs/{run}"))
    assert "1 of 3 done" in text and "Item 1: invoice B-2" in text


async def test_the_page_of_an_ended_run_tells_its_end_where_no_worker_answers(house: Harness) -> None:
    away = Harness(house.client, "away", house.folder)
    run = await away.start(ASK)
    await away.client.get_workflow_handle(run).terminate(reason="it hung")
    text = words(await page(away, f"/runs/{run}"))
    assert "it hung" in text and f"{run} has ended" in text and "waits for it" not in text


@pytest.mark.slow
async def test_a_page_whose_steps_no_worker_tells_in_time_has_the_rest(
    house: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def trace(watch: RunWatch, state: RunState, last: int) -> NoReturn:
        raise await watch._tree.silence(state.run)

    run = await house.start(ASK)
    await house.one(run)
    await house.client.get_workflow_handle(run).terminate(reason="it hung")
    monkeypatch.setattr(RunWatch, "trace", trace)
    text = words(await page(house, f"/runs/{run}"))
    assert "it hung" in text and f"{run} has ended" in text
    for below in ("graph", "context", "repetitions?at=pipeline:p;loop:l"):
        assert f"{run} has ended" in words(await page(house, f"/runs/{run}/{below}")) or below == "context"


async def test_the_graph_shows_where_the_run_stands(house: Harness) -> None:
    run = await house.start(ASK)
    await house.one(run)
    html = await page(house, f"/runs/{run}/graph")
    assert "<svg" in html and "is-waiting" in html and "flowchart TD" in html
    assert "ask — Send &lt;b&gt;it&lt;/b&gt;?: waits for a person" in html


async def test_the_context_is_shown_as_a_tree(house: Harness) -> None:
    run = await house.start(ASK)
    await house.one(run)
    assert "draft 1 entry title Hello" in words(await page(house, f"/runs/{run}/context"))


async def test_what_people_did_is_listed_the_newest_first(house: Harness) -> None:
    run = await house.start(ASK)
    await house.answer(run, "yes", by="user:bob", comment="at last")
    await house.output(run)
    text = words(await page(house, f"/runs/{run}/history"))
    assert text.index("Answered by bob ask") < text.index("Asked ask") and "at last" in text


async def test_the_list_of_runs_is_filtered(house: Harness) -> None:
    name = f"listed-{house.unique}"
    run = await house.start(ASK.replace("asked", name))

    async def listed() -> bool:
        return f'href="/runs/{run}"' in await page(house, f"/runs?blueprint={name}&status=waiting")

    await until(listed, "the run in the list")
    assert "No matching runs." in await page(house, f"/runs?blueprint={name}&status=failed")


async def test_the_list_of_runs_goes_on_behind_its_page(house: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_pages, "RUNS_PAGE", 2)
    name = f"paged-{house.unique}"
    runs = {await house.start(ASK.replace("asked", name)) for _ in range(3)}

    async def first() -> str | None:
        html = await page(house, f"/runs?blueprint={name}")
        return html if 'rel="next"' in html else None

    begin = await until(first, "the runs in the list")
    older = re.search(r'rel="next" href="([^"]+)"', begin)
    assert older is not None and "page=" not in older[1]
    end = await page(house, unescape(older[1]))
    assert {run for run in runs if f'href="/runs/{run}"' in begin + end} == runs
    assert f'rel="first" href="/runs?blueprint={name}"' in end and 'rel="next"' not in end
    by_number = await page(house, f"/runs?blueprint={name}&page=2")
    assert [run for run in runs if run in by_number] == [run for run in runs if run in end]


async def test_a_page_of_another_list_of_runs_is_refused(house: Harness) -> None:
    assert "leads to a page of another list" in words(await page(house, "/runs?after=abcdefghijkl", 422))


async def test_an_unknown_run_is_a_page_that_says_so(house: Harness) -> None:
    assert "no run" in await page(house, "/runs/nothing-like-it", 404)


async def test_pause_and_resume(house: Harness) -> None:
    run = await house.start(ASK)
    await house.one(run)
    paused = await post(house, f"/runs/{run}/pause")
    assert (paused.status_code, paused.headers["location"]) == (303, f"/runs/{run}?done=pause")
    assert f'action="/runs/{run}/resume"' in await page(house, f"/runs/{run}?done=pause")
    await post(house, f"/runs/{run}/resume")
    assert (await house.runs.state(run)).status == "waiting"


@pytest.mark.slow
async def test_a_run_is_cancelled_by_post_only_after_a_page_that_says_what_it_does(house: Harness) -> None:
    run = await house.start(ASK)
    await house.one(run)
    asked = await page(house, f"/runs/{run}/cancel")
    assert "Its open question is closed" in asked and (await house.runs.state(run)).status == "waiting"
    assert (await post(house, f"/runs/{run}/cancel")).status_code == 303
    assert (await house.result(run)).status == "cancelled"
    assert "The run was cancelled</b> by ana" in await page(house, f"/runs/{run}")


@pytest.mark.slow
async def test_what_is_undone_and_what_is_not_is_said_before_and_meanwhile(
    house: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_steering, "PATIENCE_SECONDS", 0.5)
    (house.folder / "shut").touch()
    run = await house.start(written(block(do(house, "a", undo="cannot_undo"), ASKING)))
    await house.one(run)
    asked = words(await page(house, f"/runs/{run}/cancel"))
    assert "This is undone, in this order; nothing else is: all › a undone by cannot_undo" in asked
    left = words((await post(house, f"/runs/{run}/cancel")).text)
    assert "This will not be undone: all › a undone by cannot_undo" in left

    async def undoes() -> bool:
        return "undoing 1 of 1" in words(await page(house, f"/runs/{run}"))

    await until(undoes, "the undo")
    assert (await post(house, f"/runs/{run}/cancel", {"force": "yes"})).status_code == 303


@pytest.mark.slow
async def test_what_was_at_work_when_a_run_was_cancelled_is_shown(house: Harness) -> None:
    hang = house.folder / "hang"
    hang.touch()
    run = await house.start(written(hanging(house)))
    await at_work(house)
    cancelling = asyncio.create_task(post(house, f"/runs/{run}/cancel"))
    await until(lambda: is_told_to_end(house, run), "the cancel")
    hang.unlink()
    shown = (await cancelling).text
    assert "The run was cancelled. These were at work:" in shown and "hang (completed)" in shown


async def test_without_the_scope_no_command_is_offered_or_taken(house: Harness) -> None:
    run = await house.start(ASK)
    await house.one(run)
    async with client_of(site_of_house(house), person("eve", "read")) as client:
        shown = await client.get(f"/runs/{run}", headers={"x-test-identity": "eve"})
    assert "/pause" not in shown.text
    assert (await post(house, f"/runs/{run}/cancel", who="eve")).status_code == 403
    assert (await house.runs.state(run)).status == "waiting"


@pytest.mark.slow
async def test_a_message_reaches_an_agent(house: Harness) -> None:
    run = await house.start(asking(house), "Go")
    await house.one(run)
    sent = await post(house, f"/runs/{run}/tell", {"text": "Use <short> words"})
    await house.answer(run, "ok")
    assert sent.status_code == 303 and "Use <short> words" in await house.output(run)
    assert "Message by ana:" in words(await page(house, f"/runs/{run}"))


async def test_a_blank_message_is_not_sent(house: Harness) -> None:
    run = await house.start(asking(house), "Go")
    await house.one(run)
    blank = await post(house, f"/runs/{run}/tell", {"text": " "})
    assert blank.status_code == 422 and "The message is blank." in blank.text


async def test_a_refused_command_says_why_and_keeps_what_was_typed(house: Harness) -> None:
    run = await house.start(ASK)
    await house.one(run)
    refused = await post(house, f"/runs/{run}/tell", {"text": "Is anybody there?"})
    assert refused.status_code == 422 and "no agent in" in refused.text and "Is anybody there?" in refused.text


@pytest.mark.slow
async def test_a_watch_tells_of_each_change_until_the_end(house: Harness) -> None:
    run = await house.start(ASK)
    await house.one(run)
    live = Live(house.runs)
    seen = await live.fingerprint(await house.runs.state(run))
    changes = live.changes(run, seen)
    first = asyncio.create_task(anext(changes))
    await house.answer(run, "yes")
    sight = await first
    while not sight.has_ended:
        sight = await anext(changes)
    assert sight.seen != seen and [change async for change in changes] == []


async def test_two_readers_of_a_run_share_one_watch(house: Harness) -> None:
    run, live = await house.start(ASK), Live(house.runs)
    await house.one(run)
    readers = [live.changes(run, "") for _ in range(2)]
    assert await anext(readers[0]) == await anext(readers[1])
    assert len(live._watches) == 1
    for reader in readers:
        await reader.aclose()
    assert live._watches == {}


@pytest.mark.slow
async def test_a_reader_without_a_fingerprint_is_told_of_what_comes_next(house: Harness) -> None:
    run, live = await house.start(ASK), Live(house.runs)
    question, changes = await house.one(run), live.changes(run)
    told = asyncio.create_task(anext(changes))

    async def looked() -> bool:
        return live._watches[run].last is not None

    await asyncio.sleep(0)
    await until(looked, "the first look")
    before = live._watches[run].last
    await house.answer(run, "yes", question)
    assert await told != before


async def test_a_reader_of_a_run_that_has_ended_is_told_the_end(house: Harness) -> None:
    run, live = await house.start(ASK), Live(house.runs)
    await house.answer(run, "yes")
    await house.output(run)
    assert [sight.has_ended async for sight in live.changes(run)] == [True]


@pytest.mark.slow
async def test_a_pause_by_somebody_who_may_not_steer_is_refused_in_place(house: Harness) -> None:
    run = await house.start("access: {steer: ['user:max']}\n" + ASK)
    await house.one(run)
    refused = await post(house, f"/runs/{run}/pause")
    assert refused.status_code == 403 and "user:max may steer this run, and user:ana is not in it" in refused.text
    assert (await house.runs.state(run)).status == "waiting"
