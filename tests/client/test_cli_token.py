"""`holdfast token`: make, list, revoke."""

import sqlite3

import pytest
import typer
from sqlalchemy.exc import OperationalError

from holdfast.cli.command import perform
from tests.client.command import Holdfast


def test_a_token_is_made_listed_and_revoked(holdfast: Holdfast) -> None:
    made = holdfast("token", "create", "--user", "ci", "--scope", "read", "--service", "--expires", "1h", "--json").json
    [row] = [row for row in holdfast("token", "list", "--json").json if row["id"] == made["id"]]
    assert (row["user"], row["kind"], row["scopes"], row["status"]) == ("user:ci", "service", ["read"], "valid")
    holdfast("token", "revoke", made["id"])
    [row] = [row for row in holdfast("token", "list", "--json").json if row["id"] == made["id"]]
    assert row["status"] == "revoked"


def test_the_token_alone_is_printed(holdfast: Holdfast) -> None:
    ran = holdfast("token", "create", "--user", "ana", "--expires", "never")
    assert ran.out.startswith("hft_") and len(ran.out.split()) == 1


@pytest.mark.parametrize(
    "words",
    [
        ("create", "--user", "group:x"),
        ("create", "--user", "a", "--expires", "soon"),
        ("create", "--user", "a", "--group", "user:x"),
        ("create", "--user", "a", "--scope", "all"),
        ("revoke", "nothing"),
    ],
)
def test_bad_usage_is_told(holdfast: Holdfast, words: tuple[str, ...]) -> None:
    assert holdfast("token", *words).code == 2


def test_a_database_that_cannot_be_written_is_told_in_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    async def write() -> int:
        raise OperationalError("INSERT", {"token": "secret"}, sqlite3.OperationalError("database or disk is full"))

    with pytest.raises(typer.Exit) as ended:
        perform(write())
    told = capsys.readouterr().err
    assert (ended.value.exit_code, "database or disk is full" in told, "secret" in told) == (5, True, False)
    assert told.count("\n") == 1
