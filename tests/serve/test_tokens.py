"""API tokens: who they speak for, what they are for, and when they stop being good."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy.exc import OperationalError
from temporalio.client import Client

from holdfast.server.web.credentials import WebScope, WebStore
from tests.serve.door import Door

Made = Callable[..., str]


@pytest.fixture
def door(temporal: Client, tmp_path: Path) -> Door:
    return Door(temporal, tmp_path / "state")


@pytest.fixture
def made(door: Door) -> Made:
    def make(*scopes: WebScope, life: float | None = 60, **how: Any) -> str:
        return door.gate.tokens.create("user:bot", scopes=scopes or ("read",), life=life, **how)[1]

    return make


async def called(door: Door, token: str) -> httpx.Response:
    return await door.browser(Authorization=f"Bearer {token}").post("/api/v1/who", json={})


async def test_a_token_is_good_while_its_use_cannot_be_noted(
    door: Door, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(_: object) -> None:
        raise OperationalError("BEGIN IMMEDIATE", {}, Exception("database is locked"))

    token = made()
    with monkeypatch.context() as patch:
        patch.setattr(WebStore, "begin_write", locked)
        assert (await called(door, token)).status_code == 200


async def test_a_token_speaks_for_its_user_and_says_whether_it_is_a_service(door: Door, made: Made) -> None:
    seen = (await called(door, made("read", "steer", groups=["group:ops"], is_service=True))).json()
    assert seen == {
        "user": "user:bot",
        "groups": ["group:ops"],
        "proof": "service",
        "scopes": ["read", "steer"],
        "is_service": True,
        "csrf": None,
    }


async def test_an_expired_token_is_refused(door: Door, made: Made) -> None:
    assert (await called(door, made(life=-1))).status_code == 401


async def test_a_revoked_token_is_refused(door: Door, made: Made) -> None:
    token = made()
    assert (await called(door, token)).status_code == 200
    assert door.gate.tokens.revoke(token.split("_")[1])
    assert (await called(door, token)).status_code == 401


@pytest.mark.parametrize("change", [lambda token: token[:-1], lambda token: "hft_0_x", lambda token: "é", str.upper])
async def test_a_token_that_was_not_made_is_refused(door: Door, made: Made, change: Callable[[str], str]) -> None:
    header = b"Bearer " + change(made()).encode()
    answer = await door.browser().post("/api/v1/who", headers=[(b"Authorization", header)], json={})
    assert answer.status_code == 401


async def test_a_bad_token_is_not_replaced_by_the_session(door: Door) -> None:
    browser = await door.signed_in()
    assert (await browser.get("/api/v1/who", headers={"Authorization": "Bearer hft_0_x"})).status_code == 401


async def test_a_copy_of_the_database_makes_no_token(door: Door, made: Made) -> None:
    secret = made().split("_", 2)[2]
    files = [file.read_bytes() for file in door.config.home.glob("record.sqlite*")]
    assert files and not any(secret.encode() in data for data in files)


@pytest.mark.slow
async def test_a_program_posts_more_than_a_person_and_not_without_end(door: Door, made: Made) -> None:
    token, other = made(), made()
    codes = [(await called(door, token)).status_code for _ in range(300)]
    assert set(codes) == {200}
    rate = door.gate.changes_of_programs
    rate.pace = 1e-9  # nothing is allowed again while the test goes on, however slowly
    while not rate.wait(token.split("_")[1]):
        pass
    assert ((await called(door, token)).status_code, (await called(door, other)).status_code) == (429, 200)


async def test_guessing_is_slowed_down(door: Door) -> None:
    codes = [(await called(door, "hft_0_guess")).status_code for _ in range(25)]
    assert (codes[0], codes[-1]) == (401, 429)
