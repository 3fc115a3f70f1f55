"""Who may answer, from the command line: groups of holdfast.toml, `--by`, `--for`, a terminal that is told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.protocol import guard
from holdfast.runtime.config import load_config
from tests.client.command import Holdfast, Screen, with_worker
from tests.server import NAME, OFFICE

TOML = '[groups]\neditors = ["user:ana", "user:bob"]\n'
TWO = """
name: contract
steps:
  - {kind: hitl, name: approve, message: Sign it?, assignees: ["group:editors"], not_by: [requester], quorum: 2}
"""
EDITORS = """
name: editors
steps:
  - {kind: hitl, name: ask, message: Which?, assignees: ["group:editors"], quorum: 2}
"""


@pytest.fixture(scope="module")
def office(server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Holdfast]:
    """A namespace of its own, and a configuration that names a group; the user is zoe, who is not in it."""
    folder = tmp_path_factory.mktemp("office")
    (folder / "holdfast.toml").write_text(TOML)
    guard.DEPLOYMENT.groups = load_config(folder).groups
    with with_worker(folder, server, NAME + OFFICE) as command:
        yield command.having(HOLDFAST_USER="zoe")
    guard.DEPLOYMENT.groups = {}


def test_a_stranger_is_refused_and_two_editors_settle_it(office: Holdfast) -> None:
    run = office.start(EDITORS)
    stranger = office("answer", run, "red", "--json")
    assert (stranger.code, stranger.json["error"]["type"]) == (4, "not_allowed")
    assert "user:zoe may not answer it; group:editors may" in stranger.err
    first = office("answer", run, "red", "--by", "ana", "--key", "k", "--json")
    assert [one["status"] for one in first.json] == ["waiting_quorum"]
    assert office("answer", run, "red", "--by", "ana", "--key", "k", "--json").json == first.json
    again = office("answer", run, "blue", "--by", "ana", "--json")
    assert (again.code, again.json["error"]["type"]) == (4, "already_answered")
    listed = office("questions", run).out
    assert "waits for group:editors; 1 of 2 have accepted (user:ana)" in listed
    last = office("answer", run, "blue", "--by", "bob")
    assert last.out.startswith("answered by user:bob")
    assert office("result", run, "--wait", "--json").json["output"] == "blue"
    assert [one["by"] for one in office("history", run, "--json").json] == ["user:ana", "user:bob"]


@pytest.mark.slow
def test_what_waits_for_a_user_is_listed_and_what_the_user_has_accepted_is_not(office: Holdfast) -> None:
    run = office.start(EDITORS)
    office("answer", run, "red", "--by", "ana")

    def waits_for(user: str) -> bool:
        return run in [row["run"] for row in office("questions", "--for", user, "--json").json]

    office.listed(run)
    assert [waits_for(user) for user in ("ana", "user:bob", "zoe", "group:editors")] == [False, True, False, True]
    assert office("questions", "--for", "nobody").err.strip() == "No open questions for user:nobody."
    assert [one["id"] for one in office("questions", run, "--for", "bob", "--json").json] == [
        one["id"] for one in office("questions", run, "--json").json
    ]
    assert office("questions", run, "--for", "zoe", "--json").json == []
    office("answer", run, "red", "--by", "bob")


def test_an_answer_by_signal_is_not_sent(office: Holdfast) -> None:
    run = office.start(EDITORS)
    sent = office("answer", run, "red", "--signal", "--by", "ana", "--json")
    assert (sent.code, sent.json["error"]["type"]) == (5, "nothing_sent")
    assert "takes no signals, as group:editors may answer" in sent.err
    office("cancel", run)


@pytest.mark.slow
def test_a_person_who_may_not_answer_is_told_and_the_question_stays_open(office: Holdfast) -> None:
    parked = office.park(TWO, "--by", "ana", typed="yes\n")
    run = parked["run"]
    assert parked["questions"][0]["not_by"] == ["user:ana"]
    assert parked["questions"][0]["answers_so_far"] == 0
    screen = Screen(office, "attach", run, "--by", "ana")
    screen.until("user:ana may not answer it; group:editors (but not user:ana) may")
    screen.until("holdfast answer")
    assert screen.leave() == 3
    screen.close()
    assert len(office("questions", run, "--json").json) == 1
    office("cancel", run)


@pytest.mark.slow
def test_a_person_who_has_accepted_at_a_terminal_is_not_asked_again(office: Holdfast) -> None:
    run = office.start(EDITORS)
    screen = Screen(office, "attach", run, "--by", "ana")
    screen.until("waits for group:editors; 0 of 2 have accepted")
    screen.until(">")
    screen.type("red\r")
    screen.until("1 of 2 have accepted (user:ana)")
    assert screen.leave() == 3
    screen.close()
    assert office("attach", run, "--by", "bob", typed="red\n").code == 0


@pytest.mark.slow
def test_a_question_is_claimed_released_delegated_and_reassigned(office: Holdfast) -> None:
    run = office.start(EDITORS)
    claimed = office("claim", run, "--by", "ana", "--for", "30m", "--json").json
    assert (claimed["status"], claimed["by"]) == ("claimed", "user:ana")
    assert "claimed by user:ana until" in office("questions", run).out
    assert office("answer", run, "red", "--by", "bob").code == 4
    assert office("release", run, "ask", "--by", "ana").out.startswith("released by user:ana: editors · ask")
    refused = office("delegate", run, "--to", "group:nobody", "--by", "ana", "--json")
    assert (refused.code, refused.json["error"]["type"]) == (4, "not_allowed")
    assert office("delegate", run, "ask", "--to", "zoe", "--by", "ana", "--json").json["assignees"] == [
        "group:editors",
        "user:zoe",
    ]
    given = office("delegate", run, "ask", "--to", "eve", "--by", "bob")
    assert given.out.startswith("delegated by user:bob to user:eve: editors · ask")
    moved = office("reassign", run, "ask", "--to", "max", "--to", "eve", "--comment", "on leave")
    assert moved.out.startswith("reassigned by user:zoe to user:max, user:eve: editors · ask")
    assert office("claim", run, "nothing", "--by", "max", "--json").json["error"]["type"] == "unknown_question"
    assert office("claim", run, "--for", "soon").code == 2
    office("cancel", run)


def test_a_start_says_where_nobody_may_see_the_run(office: Holdfast) -> None:
    """As people sign in, and neither `[access]` nor the blueprint names anybody."""
    sign_in = '[serve]\nuser_header = "X-User"\ntrusted_proxies = ["10.0.0.5"]\n'
    toml = office.folder / "holdfast.toml"
    toml.write_text(TOML + sign_in)
    try:
        (office.folder / "lonely.yaml").write_text(EDITORS)
        assert "nobody but user:zoe, signed in by this name, may see the run" in office("start", "lonely.yaml").err
        (office.folder / "lonely.yaml").write_text("access: {see: ['group:editors']}" + EDITORS)
        assert "may see the run" not in office("start", "lonely.yaml").err
    finally:
        toml.write_text(TOML)


@pytest.mark.slow
def test_a_cancel_is_refused_to_who_may_not_steer(office: Holdfast) -> None:
    run = office.start("access: {steer: ['user:ana']}" + EDITORS)
    for flags in ((), ("--force",)):
        refused = office("cancel", run, *flags, "--json")
        assert (refused.code, refused.json["error"]["type"]) == (4, "not_allowed"), refused
    assert office("cancel", run, "--by", "ana").code == 0
