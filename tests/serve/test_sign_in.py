"""Who comes in: one-time links, sessions, and what is refused at the door."""

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from holdfast.server.web import addresses
from holdfast.server.web.addresses import new_once_token
from tests.serve.door import Door, csrf_of, field_of


@pytest.fixture
def door(temporal: Client, tmp_path: Path) -> Door:
    return Door(temporal, tmp_path / "state")


@pytest.fixture
def door_with(temporal: Client, tmp_path: Path) -> Callable[..., Door]:
    return lambda **settings: Door(temporal, tmp_path / "state", **settings)


async def test_nobody_is_led_to_the_sign_in_and_back(door: Door) -> None:
    page = await door.browser().get("/who?a=1")
    assert (page.status_code, page.headers["location"]) == (303, "/sign-in?next=%2Fwho%3Fa%3D1")


async def test_a_program_without_a_token_gets_an_error(door: Door) -> None:
    answer = await door.browser().get("/api/v1/who")
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")


async def test_a_one_time_link_signs_one_browser_in(door: Door) -> None:
    browser = await door.signed_in("user:ana")
    seen: dict[str, Any] = (await browser.get("/who")).json()
    assert (seen["user"], seen["proof"]) == ("user:ana", "person")


async def test_a_one_time_link_goes_from_the_address_bar(door: Door) -> None:
    link = {"once": new_once_token(door.config.home, "user:ana"), "page": "2"}
    page = await door.browser().get("/who", params=link)
    assert (page.status_code, page.headers["location"]) == (303, "/who?page=2")


async def test_a_used_one_time_link_is_refused(door: Door) -> None:
    token = new_once_token(door.config.home, "user:ana")
    first, second = await asyncio.gather(*(door.browser().get("/who", params={"once": token}) for _ in range(2)))
    assert sorted("set-cookie" in page.headers for page in (first, second)) == [False, True]


async def test_an_old_one_time_link_is_refused(door: Door) -> None:
    token = new_once_token(door.config.home, "user:ana")
    [file] = (door.config.home / "once").iterdir()
    os.utime(file, (time.time() - addresses.ONCE_SECONDS - 1,) * 2)
    assert "set-cookie" not in (await door.browser().get("/who", params={"once": token})).headers


def test_a_link_is_made_while_another_command_removes_what_is_old(tmp_path: Path) -> None:
    new_once_token(tmp_path, "user:ana")
    (tmp_path / addresses.ONCE_FOLDER / "gone").symlink_to(
        tmp_path / "nothing"
    )  # listed, and not found when it is looked at
    assert addresses.take_once_token(tmp_path, new_once_token(tmp_path, "user:ben")) == "user:ben"


async def test_a_token_can_be_typed(door: Door) -> None:
    browser = door.browser()
    form = {"csrf": field_of(await browser.get("/sign-in?next=/who"))}
    link = f"http://localhost:8090/?once={new_once_token(door.config.home, 'user:bob')}"
    answer = await browser.post("/sign-in", data=form | {"code": link, "next": "/who"})
    assert answer.headers["location"] == "/who"
    assert (await browser.get("/who")).json()["user"] == "user:bob"


async def test_wrong_tokens_are_refused_and_then_slowed_down(door: Door) -> None:
    browser = door.browser()
    form = {"csrf": field_of(await browser.get("/sign-in")), "code": "guess", "next": "/"}
    codes = [(await browser.post("/sign-in", data=form)).status_code for _ in range(25)]
    assert codes[:20] == [403] * 20
    assert codes[-1] == 429


async def test_signing_out_ends_the_session(door: Door) -> None:
    browser = await door.signed_in()
    copy = door.browser()
    copy.cookies = browser.cookies
    await browser.post("/sign-out", data={"csrf": await csrf_of(browser)})
    assert (await copy.get("/who")).status_code == 303


async def test_an_unused_session_ends(door_with: Callable[..., Door]) -> None:
    door = door_with(session=0.000001)
    assert (await (await door.signed_in()).get("/who")).status_code == 303


async def test_a_copy_of_the_database_signs_nobody_in(door: Door) -> None:
    browser = await door.signed_in()
    [cookie] = [value for name, value in browser.cookies.items() if name == "holdfast-8090"]
    files = [file.read_bytes() for file in door.config.home.glob("record.sqlite*")]
    assert not any(cookie.encode() in data for data in files)


async def test_the_cookie_is_for_this_server_alone(door: Door) -> None:
    page = await door.browser().get("/who", params={"once": new_once_token(door.config.home, "user:ana")})
    [cookie] = page.headers.get_list("set-cookie")
    assert cookie.startswith("holdfast-8090=")
    assert "; HttpOnly; SameSite=Lax" in cookie


async def test_the_cookie_of_https_is_never_sent_without(door_with: Callable[..., Door]) -> None:
    door = door_with(url="https://inbox.example.com")
    link = {"once": new_once_token(door.config.home, "user:ana")}
    page = await door.browser(url="https://inbox.example.com").get("/who", params=link)
    assert page.headers["set-cookie"].startswith("__Host-holdfast=")
    assert page.headers["set-cookie"].endswith("; Secure")


async def test_the_sign_in_leads_to_no_other_site(door: Door) -> None:
    browser = await door.signed_in()
    assert (await browser.get("/sign-in", params={"next": "//evil.example/"})).headers["location"] == "/"


async def test_health_needs_no_sign_in(door: Door) -> None:
    codes = [(await door.browser().get(path)).status_code for path in ("/healthz", "/readyz")]
    assert codes == [200, 200]
