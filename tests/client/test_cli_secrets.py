"""Secrets on the command line: typed without echo, piped, from a file; kept in the store, shown nowhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.client.command import Holdfast, Ran, Screen

VALUE = "hunter2 & more"
KEYS = """
name: keys
steps:
  - kind: hitl
    name: keys
    ask: secret
    message: The keys, please
    input_schema:
      type: object
      required: [API_KEY]
      properties: {API_KEY: {type: string, description: Of the shop}, OTHER: {type: string}}
"""
ONE = "name: key\nsteps: [{kind: hitl, name: key, ask: secret, message: The key?}]\n"
ONE_NAMED = """
name: named
steps:
  - {kind: hitl, name: key, ask: secret, message: Key?, input_schema: {type: object, properties: {PIN: {type: string}}}}
"""


def shown(*ran: Ran) -> str:
    return "".join(one.out + one.err for one in ran)


def kept(holdfast: Holdfast, reference: str) -> str:
    """What a reference stands for."""
    store, _, id_ = reference.removeprefix("secret:").partition("/")
    assert store == "dir"
    return (holdfast.folder / "state" / "secrets" / id_).read_text()


def state(holdfast: Holdfast, run: str) -> str:
    """All that the client and the server have written of a run, but the secrets."""
    files = [
        path for path in (holdfast.folder / "state").rglob("*") if path.is_file() and path.parent.name != "secrets"
    ]
    written = [path.read_bytes() for path in files]
    written += [event.SerializeToString() for history in holdfast.histories(run) for event in history.events]
    return b"".join(written).decode(errors="replace")


@pytest.mark.slow
def test_a_secret_as_a_value_goes_into_the_store_and_nowhere_else(holdfast: Holdfast) -> None:
    run = holdfast.park(ONE)["run"]
    asked = holdfast("questions", run)
    assert f"holdfast attach {run}" in asked.out
    answered = holdfast("answer", run, VALUE, "--json")
    assert answered.code == 0
    reference = holdfast.rest(run)["output"]
    assert kept(holdfast, reference) == VALUE
    history = holdfast("history", run)
    assert reference in history.out
    assert VALUE not in shown(asked, answered, history, holdfast("show", run), holdfast("follow", run))
    assert VALUE not in state(holdfast, run)


def test_a_wrong_form_of_a_secret_is_refused_without_a_word_of_it(holdfast: Holdfast) -> None:
    run = holdfast.park(KEYS)["run"]
    for content in ('{"OTHER": "hunter2"}', '{"hunter2": "x"}', '{"API_KEY": ["hunter2"]}', '"hunter2"'):
        wrong = holdfast("answer", run, "--content", content)
        assert wrong.code == 4
        assert "hunter2" not in shown(wrong)
        assert "nothing was sent" in wrong.err
    assert not (holdfast.folder / "state" / "secrets").exists() or "hunter2" not in state(holdfast, run)
    assert holdfast("answer", run, "--content", '{"API_KEY": "1", "OTHER": "2"}').code == 0


@pytest.mark.slow
def test_the_name_of_a_question_is_not_its_secret(holdfast: Holdfast) -> None:
    run = holdfast.park(ONE)["run"]
    missing = holdfast("answer", run, "key")
    assert (missing.code, "no value was given" in missing.err) == (2, True)
    piped = holdfast("answer", run, "key", typed=f"{VALUE}\n")
    assert piped.code == 0
    assert kept(holdfast, holdfast.rest(run)["output"]) == VALUE
    assert VALUE not in shown(piped)


@pytest.mark.slow
def test_a_line_that_is_piped_in_is_a_secret(holdfast: Holdfast) -> None:
    ran = holdfast("run", holdfast.write("key.yaml", ONE), "--json", typed=f"{VALUE}\n")
    assert kept(holdfast, ran.json["output"]) == VALUE
    assert VALUE not in shown(ran)
    ran = holdfast("run", holdfast.write("named.yaml", ONE_NAMED), "--json", typed="0042\n")
    assert kept(holdfast, ran.json["output"]["PIN"]) == "0042"


@pytest.mark.slow
def test_a_file_of_answers_may_hold_secrets(holdfast: Holdfast) -> None:
    answers = holdfast.write("answers.yaml", "[{question: keys, content: {API_KEY: hunter2}}]")
    ran = holdfast("run", holdfast.write("keys.yaml", KEYS), "--answers", answers, "--json")
    assert kept(holdfast, ran.json["output"]["API_KEY"]) == "hunter2"
    assert "hunter2" not in shown(ran)


@pytest.mark.slow
def test_a_secret_is_typed_without_echo(holdfast: Holdfast, at_terminal: Callable[..., Screen]) -> None:
    screen = at_terminal("run", holdfast.write("keys.yaml", KEYS), "--id", "typed")
    screen.until("what is typed is not shown")
    screen.until("API_KEY: Of the shop:")
    screen.type("\r")
    screen.until("API_KEY: this field is needed")
    screen.until("API_KEY:")
    screen.type(f"{VALUE}\r")
    screen.until("OTHER (Enter: leave out):")
    screen.type("\r")
    assert screen.leave() == 0
    assert screen.echoes
    assert VALUE not in screen.text
    output = holdfast("result", "typed", "--json").json["output"]
    assert (list(output), kept(holdfast, output["API_KEY"])) == (["API_KEY"], VALUE)


@pytest.mark.slow
def test_a_secret_may_be_declined_where_it_is_typed(holdfast: Holdfast, at_terminal: Callable[..., Screen]) -> None:
    screen = at_terminal("run", holdfast.write("key.yaml", ONE), "--id", "no-secret")
    screen.until(">")
    screen.type("/decline\r")
    screen.until("declined")
    assert screen.leave() == 1


@pytest.mark.slow
@pytest.mark.parametrize("words", [["--signal"], ["--signal", "--owner", "OWNER"]])
def test_a_secret_is_not_sent_by_signal(holdfast: Holdfast, words: list[str]) -> None:
    run = holdfast.park(ONE)["run"]
    next((Path(holdfast.folder) / "state").glob("questions.*.json")).unlink()
    refused = holdfast("answer", run, VALUE, *[run if word == "OWNER" else word for word in words], "--json")
    assert (refused.code, refused.json["error"]["type"]) == (5, "nothing_sent")
    assert VALUE not in shown(refused)
    assert holdfast("history", run, "--json").json == []


MIXED = """
name: mixed
steps:
  - kind: hitl
    name: keys
    ask: secret
    message: The account, please
    input_schema:
      type: object
      required: [user, key]
      properties:
        user: {type: string, secret: false, placeholder: shop-admin}
        key: {type: string, pattern: "^sk-"}
"""


@pytest.mark.slow
def test_plain_fields_are_shown_as_they_are_typed_and_secret_ones_are_not(
    holdfast: Holdfast, at_terminal: Callable[..., Screen]
) -> None:
    screen = at_terminal("run", holdfast.write("mixed.yaml", MIXED), "--id", "mixed")
    screen.until("user (such as shop-admin):")
    screen.type("shop\r")
    screen.until("key:")
    screen.type("hunter2 alone\r")
    screen.until("must have the form ^sk-")
    screen.until("key:")
    screen.type("sk-hunter2\r")
    assert screen.leave() == 0
    assert ("shop" in screen.text, "hunter2" in screen.text) == (True, False)


@pytest.mark.slow
def test_secrets_are_listed_rotated_and_removed(holdfast: Holdfast) -> None:
    run = holdfast.start(ONE)
    assert holdfast("answer", run, "key", VALUE).code == 0
    reference = holdfast("result", run, "--wait", "--json").json["output"]
    listed = [one for one in holdfast("secret", "list", "--json").json if one["reference"] == reference]
    assert len(listed) == 1
    assert holdfast("secret", "rotate", reference, typed="better\n").code == 0
    assert kept(holdfast, reference) == "better"
    assert holdfast("secret", "remove", reference).code == 0
    gone = holdfast("secret", "remove", reference, "--json")
    assert (gone.code, gone.json["error"]["type"]) == (2, "bad_usage")
    assert holdfast("secret", "rotate", "secret:env/HOME", typed="x\n").code == 2
    assert reference not in holdfast("secret", "list").out
