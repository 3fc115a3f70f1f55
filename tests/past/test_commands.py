"""Retry and fork where people use them: on the command line, on the pages and in the API of a run."""

from __future__ import annotations

import html
import re
from urllib.parse import unquote

import pytest
import yaml

from tests.client.command import Holdfast
from tests.conftest import Harness
from tests.past.runs import ASK, fail, mend, paid, pay
from tests.serve.ground import client_of, site_of_house
from tests.tools import calls


def test_a_failed_run_goes_on_once_its_cause_is_mended(holdfast: Holdfast) -> None:
    """The permission that was given before is not asked for again."""
    (holdfast.folder / "broken").touch()
    file = holdfast.write("mend.yaml", yaml.safe_dump({"steps": [ASK, mend(holdfast.folder)]}))
    failed = holdfast("run", file, "--id", "breaks", typed="yes\n")
    assert (failed.code, "go on with: holdfast retry breaks" in failed.err) == (1, True)
    (holdfast.folder / "broken").unlink()
    ended = holdfast("retry", "breaks", "--json")
    assert (ended.code, ended.json["run"], ended.json["output"]) == (0, "breaks~2", "mended 1")
    assert "run breaks~2 goes on from breaks, at mend · mend" in ended.err
    again = holdfast("retry", "breaks", "--no-wait", "--json")
    assert again.json == {"run": "breaks~2", "past": "breaks", "at": None, "new": False}
    told = holdfast("retry", "breaks")
    assert (told.out, told.err) == ("mended 1\n", "run breaks~2 has gone on from breaks before\n")
    assert calls(holdfast.folder, "mended") == 1
    assert "retried as breaks~2" in holdfast("show", "breaks").out
    assert holdfast("show", "breaks~2", "--json").json["past"] == "breaks"


def test_what_cannot_be_retried_says_why(holdfast: Holdfast) -> None:
    file = holdfast.write("fine.yaml", "steps: [{name: a, input: done}]")
    assert holdfast("run", file, "--id", "fine").code == 0
    refused = holdfast("retry", "fine")
    assert (refused.code, "fine is complete" in refused.err) == (2, True)


@pytest.mark.slow
def test_a_fork_begins_in_the_middle_with_another_value(holdfast: Holdfast) -> None:
    """The question before the place is not asked again."""
    said = {"name": "said", "input": "{{ context.word }}"}
    file = holdfast.write("words.yaml", yaml.safe_dump({"context": {"word": "old"}, "steps": [ASK, said]}))
    assert holdfast("run", file, "--id", "words", typed="yes\n").code == 0
    ended = holdfast("fork", "words", "--at", "said", "--set", "word=new", "--id", "other-words", "--json")
    assert (ended.code, ended.json["run"], ended.json["output"]) == (0, "other-words", "new")
    assert "run other-words begins in words, at words · said" in ended.err
    compared = holdfast("diff", "words", "other-words")
    assert (compared.code, "said  output: 'old' → 'new'" in compared.out) == (1, True)
    assert "2 steps alike" not in compared.err and "1 step alike" in compared.err
    assert holdfast("diff", "words", "words", "--json").json == {
        "runs": ["words", "words"],
        "differences": [],
        "alike": 2,
    }


@pytest.mark.slow
async def test_the_page_of_a_failed_run_goes_on_with_it(house: Harness) -> None:
    run = await fail(house, [pay(house.folder, "ana"), ASK, mend(house.folder)], {"granted": True})
    (house.folder / "broken").unlink()
    async with client_of(site_of_house(house)) as client:
        assert f"/runs/{run}/retry" in (await client.get(f"/runs/{run}")).text
        answered = await client.post(f"/runs/{run}/retry", data={})
        assert (answered.status_code, answered.headers["location"]) == (303, f"/runs/{run}~2?done=retry")
        house.started.append(f"{run}~2")
        assert await house.output(f"{run}~2") == "mended 1"
        page = (await client.get(f"/runs/{run}~2")).text
        assert "Taken over" in page
        assert "Answered in the earlier run" in (await client.get(f"/runs/{run}~2/history")).text
        again = await client.post(f"/api/v1/runs/{run}/retry")
        assert again.json() == {"run": f"{run}~2", "past": run, "at": None, "new": False}
    assert paid(house) == 1


@pytest.mark.slow
async def test_a_run_begins_from_here(house: Harness) -> None:
    """The link at a step leads to a page that says what happens; its button begins the run."""
    run = await house.start(yaml.safe_dump({"steps": [pay(house.folder, "ana"), pay(house.folder, "bob", "again")]}))
    await house.output(run)
    async with client_of(site_of_house(house)) as client:
        page = (await client.get(f"/runs/{run}")).text
        links = [html.unescape(link) for link in re.findall(r'href="([^"]*/fork\?at=[^"]*)"', page)]
        assert len(links) == 2
        assert "is called, paid or asked again" in (await client.get(links[1])).text
        form = {"at": "pipeline:test;step:again", "mark": "0123abcd"}
        begun = await client.post(f"/runs/{run}/fork", data=form)
        new = begun.headers["location"].removeprefix("/runs/").partition("?")[0]
        house.started.append(new)
        assert (begun.status_code, await house.output(new)) == (303, {"paid": 1, "to": "bob"})
        twice = await client.post(f"/runs/{run}/fork", data=form)  # after going back
        assert twice.headers["location"] == begun.headers["location"]
        assert (await client.post(f"/runs/{run}/fork", data={"at": "nowhere"})).status_code == 422
    assert paid(house) == 3


@pytest.mark.slow
async def test_the_page_leads_only_to_places_where_a_run_may_begin(house: Harness) -> None:
    """Neither inside a plan nor in a branch that has lost."""
    plan = {"goal": "Meet", "steps": [{"id": "day", "instruction": "Which day?", "pause_for_response": True}]}
    branches = {"asks": [{"name": "begun"}, ASK], "wins": [{"name": "quick"}]}
    race = {"kind": "parallel", "name": "race", "until": "first", "branches": branches}
    run = await house.start(yaml.safe_dump({"steps": [{"kind": "plan", "name": "party", "plan": plan}, race]}))
    await house.answer(run, "Monday")
    await house.output(run)
    async with client_of(site_of_house(house)) as client:
        page = html.unescape((await client.get(f"/runs/{run}")).text)
    places = {unquote(place) for place in re.findall(r'/fork\?at=([^"&]*)"', page)}
    below = "pipeline:test;parallel:race"
    assert places == {"pipeline:test;plan:party", below, f"{below};branch:wins;step:quick"}
