"""The pages that start a run: the list of blueprints, and a form made of the inputs of one."""

from __future__ import annotations

import re

import httpx
import pytest
from playwright.async_api import Browser, expect

from holdfast.runtime.config.sections import AccessTable, ServeSection
from holdfast.server.web.app import create_app
from holdfast.server.web.site import Site
from tests.conftest import Harness
from tests.serve.browser import SignedIn, find_faults, serious, served
from tests.serve.ground import blueprint_file, client_of, person, site_of_house

TRIP = """
description: Book a trip, once somebody has agreed.
inputs:
  type: object
  required: [city, days]
  properties:
    city: {type: string, title: City, minLength: 2}
    days: {type: integer, minimum: 1, description: How long?}
    nights: {type: array, items: {type: object, properties: {hotel: {type: string}}}}
steps: [{name: agree, kind: hitl, message: "Go to {{ input.city }}?"}]
"""
FREE = "steps: [{name: ask, kind: hitl, message: '{{ input }}'}]"
BROKEN = "steps: [{name: a, kind: hitl, mesage: Hello}]"


@pytest.fixture
def site(house: Harness) -> Site:
    folder = house.folder / "blueprints"
    for name, text in (("trip.yaml", TRIP), ("free.yaml", FREE), ("broken.yaml", BROKEN)):
        blueprint_file(folder, name, text)
    return site_of_house(house, serve=ServeSection(blueprints=["blueprints"]))


async def get(site: Site, path: str) -> httpx.Response:
    async with client_of(site) as client:
        return await client.get(path)


async def post(site: Site, path: str, who: str = "ana", **typed: str) -> httpx.Response:
    async with client_of(site, person("eve", "read")) as client:
        data = {key if key in ("mark", "change") else f"f:{key}": value for key, value in typed.items()}
        return await client.post(path, data=data, headers={"x-test-identity": who})


def run_of(answer: httpx.Response) -> str:
    assert answer.status_code == 303, answer.text
    return answer.headers["location"].removeprefix("/runs/").partition("?")[0]


async def started(house: Harness, answer: httpx.Response) -> str:
    """The message of the question of the run that was started; the run is replayed like any other."""
    run = run_of(answer)
    house.started.append(run)
    return (await house.one(run)).message


async def test_the_blueprints_are_listed_with_what_they_are_for(site: Site) -> None:
    html = (await get(site, "/start")).text
    assert 'href="/start/trip"' in html and "Book a trip, once somebody has agreed." in html
    assert "1 mistake" in html


async def test_without_folders_the_page_says_how_to_name_them(house: Harness) -> None:
    assert "blueprints = [" in (await get(site_of_house(house), "/start")).text


async def test_a_form_has_the_fields_of_the_inputs(site: Site) -> None:
    html = (await get(site, "/start/trip")).text
    assert "City" in html and "How long?" in html and "<svg" in html


async def test_a_run_is_started_by_who_has_signed_in(site: Site, house: Harness) -> None:
    answer = await post(site, "/start/trip", city="Rome", days="3")
    assert await started(house, answer) == "Go to Rome?"


async def test_wrong_fields_are_kept_with_their_reasons(site: Site) -> None:
    refused = await post(site, "/start/trip", city="Rome", days="soon")
    assert refused.status_code == 422 and "write a whole number" in refused.text
    assert "\nRome</textarea>" in refused.text and 'value="soon"' in refused.text


async def test_what_does_not_fit_the_schema_is_told_at_its_field(site: Site) -> None:
    refused = await post(site, "/start/trip", city="R", days="0")
    problems = re.findall(r'class="problem"[^>]*>([^<]+)<', refused.text)
    assert refused.status_code == 422 and len(problems) == 2


async def test_missing_and_wrong_fields_are_told_at_once(site: Site) -> None:
    refused = await post(site, "/start/trip", city="R", days="")
    problems = re.findall(r'class="problem"[^>]*>([^<]+)<', refused.text)
    assert len(problems) == 2 and "this field is needed" in problems


async def test_a_list_grows_without_a_script(site: Site) -> None:
    grown = await post(site, "/start/trip", city="Rome", days="", change="add:f:nights", **{"nights#": "0"})
    assert grown.status_code == 200 and 'name="f:nights[0].hotel"' in grown.text and "\nRome</textarea>" in grown.text


async def test_a_text_keeps_its_lines(site: Site, house: Harness) -> None:
    answer = await post(site, "/start/trip", city="Rome,\r\nand then Ostia", days="3")
    assert await started(house, answer) == "Go to Rome,\nand then Ostia?"


async def test_the_list_is_searched_and_says_what_nobody_may_start(house: Harness) -> None:
    folder = house.folder / "blueprints"
    folder.mkdir()
    for n in range(11):
        blueprint_file(folder / f"job{n}", f"job{n}.yaml", TRIP.replace("Book a trip", f"Job number {n}"))
    serve = ServeSection(blueprints=["blueprints"])
    html = (await get(site_of_house(house, serve=serve), "/start?q=NUMBER 7")).text
    assert re.findall(r'class="run-name">([^<]*)<', html) == ["job7"]
    assert "No blueprint matches." in (await get(site_of_house(house, serve=serve), "/start?q=zebra")).text
    refused = site_of_house(house, serve=serve, access=AccessTable(start=["user:bob"]))
    html = (await get(refused, "/start")).text
    assert "You may not start runs of any blueprint here." in html and "blueprints." not in html


async def test_a_form_sent_twice_starts_one_run(site: Site, house: Harness) -> None:
    both = [await post(site, "/start/trip", city="Rome", days="3", mark="0123abcd") for _ in range(2)]
    assert run_of(both[0]) == run_of(both[1]) == "trip-0123abcd"
    await started(house, both[0])


async def test_a_blueprint_without_inputs_takes_text_or_json(site: Site, house: Harness) -> None:
    html = (await get(site, "/start/free")).text
    [name] = re.findall(r'<textarea[^>]* name="f:([^"]*)"', html)
    answer = await post(site, "/start/free", **{name: "Hello there"})
    assert await started(house, answer) == "Hello there"


async def test_a_blueprint_with_mistakes_shows_them_and_does_not_start(site: Site) -> None:
    shown, sent = await get(site, "/start/broken"), await post(site, "/start/broken")
    assert shown.status_code == sent.status_code == 422
    assert "broken.yaml:1:" in shown.text and "mesage" in shown.text


async def test_a_missing_tool_is_told_before_anything_starts(site: Site, house: Harness) -> None:
    blueprint_file(house.folder / "blueprints", "tool.yaml", "steps: [{name: a, uses: no_such_tool}]")
    refused = await post(site, "/start/tool")
    assert refused.status_code == 422 and "no_such_tool" in refused.text


async def test_only_who_may_steer_starts(site: Site) -> None:
    assert (await post(site, "/start/trip", "eve", city="Rome", days="3")).status_code == 403


async def test_an_unknown_blueprint_is_a_page_with_the_names_there_are(site: Site) -> None:
    unknown = await get(site, "/start/../secret")
    assert unknown.status_code == 404
    assert "broken, free, trip" in (await get(site, "/start/nothing")).text


@pytest.mark.slow
async def test_a_form_is_filled_wrong_then_right_in_a_browser(site: Site, house: Harness, browser: Browser) -> None:
    async with served(SignedIn(create_app(site))) as address:
        page = await browser.new_page()
        await page.goto(f"{address}/start")
        await page.get_by_role("link", name="trip").click()
        await page.get_by_label("City").fill("Rome")
        await page.get_by_label("City").press("Enter")
        await expect(page.get_by_text("this field is needed")).to_be_visible()
        assert await page.get_by_label("City").input_value() == "Rome" and await serious(page) == []
        await page.get_by_label("days").fill("3")
        await page.get_by_role("button", name="Start the run").click()
        await expect(page.get_by_text("The run has started.")).to_be_visible()
        house.started.append(page.url.partition("/runs/")[2].partition("?")[0])
        await page.close()


@pytest.mark.slow
async def test_the_pages_fit_and_are_accessible(site: Site, browser: Browser) -> None:
    async with served(SignedIn(create_app(site))) as address:
        page = await browser.new_page()
        for path in ("/start", "/start/trip", "/start/free", "/start/broken"):
            await page.goto(address + path)
            assert await find_faults(page) == [], path
        await page.close()


@pytest.mark.slow
async def test_a_pipeline_of_a_module_is_offered_and_started(house: Harness) -> None:
    name = "examples.python.revise_text:revise_text"
    site = site_of_house(house, serve=ServeSection(blueprints=[name]))
    html = (await get(site, "/start")).text
    assert f"/start/{name}" in html.replace("%3A", ":") and "Revise a text until a person finds it good." in html
    [field] = re.findall(r'name="f:([^"]*)"', (await get(site, f"/start/{name}")).text)[:1]
    message = await started(house, await post(site, f"/start/{name}", **{field: "Tea"}))
    assert message == "First draft. You wrote: Topic: Tea. Feedback: none yet"
