"""A proxy that signs people in: its word counts, and nobody else's."""

from pathlib import Path

import pytest
from temporalio.client import Client

from holdfast.server.web.addresses import new_once_token
from tests.serve.door import Door, csrf_of

PROXY = "10.1.2.3"


@pytest.fixture
def door(temporal: Client, tmp_path: Path) -> Door:
    return Door(
        temporal,
        tmp_path / "state",
        user_header="X-Forwarded-User",
        groups_header="X-Forwarded-Groups",
        trusted_proxies=["10.1.0.0/16", "fd00::1"],
    )


@pytest.mark.parametrize("address", [PROXY, "fd00::1"])
async def test_the_person_whom_the_proxy_names_comes_in(door: Door, address: str) -> None:
    headers = {"X-Forwarded-User": "ana", "X-Forwarded-Groups": "editors, group:legal,"}
    seen = (await door.browser(address, **headers).get("/who")).json()
    assert (seen["user"], seen["groups"], seen["proof"]) == ("user:ana", ["group:editors", "group:legal"], "person")


@pytest.mark.parametrize("address", ["127.0.0.1", "10.2.0.1", "fd00::2", "not-an-address"])
async def test_a_forged_header_counts_for_nothing(door: Door, address: str) -> None:
    forged = {"X-Forwarded-User": "ana", "X-Forwarded-For": PROXY, "X-Real-IP": PROXY}
    assert (await door.browser(address, **forged).get("/who")).status_code == 303


async def test_a_header_that_came_twice_is_refused(door: Door) -> None:
    twice = [("X-Forwarded-User", "mallory"), ("X-Forwarded-User", "ana")]
    assert (await door.browser(PROXY).get("/who", headers=twice)).status_code == 400


@pytest.mark.parametrize("name", ["group:editors", " ", "a" * 300])
async def test_a_header_that_names_no_user_is_refused(door: Door, name: str) -> None:
    assert (await door.browser(PROXY).get("/who", headers={"X-Forwarded-User": name})).status_code == 400


async def test_no_one_time_link_counts_beside_a_proxy(door: Door) -> None:
    link = {"once": new_once_token(door.config.home, "user:ana")}
    assert "set-cookie" not in (await door.browser().get("/who", params=link)).headers


async def test_names_are_read_as_utf_8(door: Door) -> None:
    header = [(b"X-Forwarded-User", "zoë".encode())]
    assert (await door.browser(PROXY).get("/who", headers=header)).json()["user"] == "user:zoë"


async def test_without_the_setting_no_header_counts(temporal: Client, tmp_path: Path) -> None:
    door = Door(temporal, tmp_path / "state", trusted_proxies=["127.0.0.1"])
    assert (await door.browser(**{"X-Forwarded-User": "ana"}).get("/who")).status_code == 303


async def test_forms_need_their_token_behind_a_proxy_too(door: Door) -> None:
    browser = door.browser(PROXY, **{"X-Forwarded-User": "ana"})
    assert (await browser.post("/who", data={})).status_code == 403
    assert (await browser.post("/who", data={"csrf": await csrf_of(browser)})).status_code == 200


async def test_the_token_of_a_form_is_for_one_person(door: Door) -> None:
    browser = door.browser(PROXY)
    token = (await browser.get("/who", headers={"X-Forwarded-User": "ana"})).json()["csrf"]
    answer = await browser.post("/who", data={"csrf": token}, headers={"X-Forwarded-User": "bob"})
    assert answer.status_code == 403


async def test_the_scheme_of_the_proxy_counts(door: Door) -> None:
    headers = {"X-Forwarded-User": "ana", "X-Forwarded-Proto": "https"}
    assert (await door.browser(PROXY, **headers).get("/who")).headers["set-cookie"].endswith("; Secure")
    assert not (await door.browser("10.2.0.1", **headers).get("/sign-in")).headers["set-cookie"].endswith("; Secure")
