"""What keeps other sites out: the Host header, the token of forms, the headers of every answer."""

from pathlib import Path

import pytest
from temporalio.client import Client

from holdfast.server.web.requests import LARGEST_FORM
from holdfast.server.web.security import HEADERS
from tests.serve.door import Door, csrf_of


@pytest.fixture
def door(temporal: Client, tmp_path: Path) -> Door:
    return Door(temporal, tmp_path / "state")


@pytest.mark.first_row
@pytest.mark.parametrize("path", ["/healthz", "/sign-in", "/who", "/static/style.css", "/nowhere"])
async def test_every_answer_has_the_headers(door: Door, path: str) -> None:
    answer = await (await door.signed_in()).get(path)
    assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS


@pytest.mark.parametrize("host", ["rebound.example:8090", "127.0.0.1:8090, rebound.example"])
async def test_a_name_of_somebody_else_is_refused(door: Door, host: str) -> None:
    answer = await (await door.signed_in()).get("/who", headers={"Host": host})
    assert answer.status_code == 400


@pytest.mark.parametrize("host", ["127.0.0.1:8090", "[::1]:8090", "LOCALHOST", "inbox.example.com"])
async def test_a_name_of_the_server_is_taken(temporal: Client, tmp_path: Path, host: str) -> None:
    door = Door(temporal, tmp_path / "state", hosts=["inbox.example.com"])
    assert (await (await door.signed_in()).get("/who", headers={"Host": host})).status_code == 200


async def test_a_form_with_its_token_is_taken(door: Door) -> None:
    browser = await door.signed_in()
    assert (await browser.post("/who", data={"csrf": await csrf_of(browser)})).status_code == 200


async def test_a_script_sends_the_token_in_a_header(door: Door) -> None:
    browser = await door.signed_in()
    answer = await browser.post("/api/v1/who", json={}, headers={"X-CSRF-Token": await csrf_of(browser)})
    assert answer.status_code == 200


@pytest.mark.parametrize("token", ["", "0" * 64, "é"])
async def test_a_form_without_its_token_is_refused(door: Door, token: str) -> None:
    assert (await (await door.signed_in()).post("/who", data={"csrf": token})).status_code == 403


async def test_a_json_body_without_the_token_is_refused(door: Door) -> None:
    assert (await (await door.signed_in()).post("/api/v1/who", json={"csrf": "x"})).status_code == 403


async def test_the_token_of_another_browser_is_refused(door: Door) -> None:
    token = await csrf_of(await door.signed_in("user:mallory"))
    assert (await (await door.signed_in("user:ana")).post("/who", data={"csrf": token})).status_code == 403


@pytest.mark.parametrize("header", [{"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}])
async def test_a_form_of_another_site_is_refused(door: Door, header: dict[str, str]) -> None:
    browser = await door.signed_in()
    answer = await browser.post("/who", data={"csrf": await csrf_of(browser)}, headers=header)
    assert answer.status_code == 403


async def test_a_form_that_is_too_large_is_refused(door: Door) -> None:
    browser = await door.signed_in()
    answer = await browser.post("/who", data={"csrf": await csrf_of(browser), "text": "x" * LARGEST_FORM})
    assert answer.status_code == 413
    assert "at most 16 MiB" in answer.text
    assert "Nothing of it was taken" in answer.text


@pytest.mark.slow
async def test_too_many_posts_of_one_person_are_slowed_down(door: Door) -> None:
    ana, bob = await door.signed_in("user:ana"), await door.signed_in("user:bob")
    form, other = {"csrf": await csrf_of(ana)}, {"csrf": await csrf_of(bob)}
    codes = [(await ana.post("/who", data=form)).status_code]
    while codes[-1] == 200 and len(codes) < 2_000:  # ten more a second are allowed, so a slow machine posts more
        codes.append((await ana.post("/who", data=form)).status_code)
    assert (codes[0], codes[-1], len(codes) > 200) == (200, 429, True)
    assert (await bob.post("/who", data=other)).status_code == 200
