"""Who may do what with a run: rules of the deployment, of the blueprint, and of the run itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest
from temporalio.client import WorkflowExecution

from holdfast.client.answering import Answering, Sender
from holdfast.client.permissions import Permissions, RunAccessCache, read_access
from holdfast.client.runs import Runs
from holdfast.client.tree import UnknownRun
from holdfast.protocol import guard
from holdfast.protocol.access import (
    THIS_MACHINE,
    AccessPolicy,
    AccessRules,
    Capability,
    Person,
    RunAccess,
    is_seen_by_nobody,
    may,
    may_see_question,
)
from holdfast.protocol.answers import Answer, Refusal
from holdfast.protocol.guard import Key
from holdfast.protocol.people import People
from holdfast.runtime.errors import NothingSent
from tests.conftest import Harness, until

GROUPS = {"hr": ["user:hana"], "ops": ["user:olga"], "staff": ["user:hana", "user:olga", "user:eve"]}
SIGNED_IN = AccessRules(enforced=True)
ASK = "steps: [{kind: hitl, name: ask, message: Raise the salary of Max?}]"
NESTED = """
steps:
  - kind: loop
    name: again
    loop: {max_loops: 3, body: [{kind: hitl, name: ask, message: Raise the salary of Max?}]}
"""


def rules(by_blueprint: dict[str, AccessPolicy] | None = None, **names: list[str]) -> AccessRules:
    return AccessRules(enforced=True, general=AccessPolicy(**names), by_blueprint=by_blueprint or {})  # type: ignore[arg-type]


def run(started_by: str | None = "user:sam", *, signed_in: bool = True, **written: list[str]) -> RunAccess:
    access = AccessPolicy(**written)  # type: ignore[arg-type]
    return RunAccess(blueprint="payroll-may", started_by=started_by, signed_in=signed_in, written=access)


def who_may(capability: Capability, access: RunAccess, rules_: AccessRules) -> str:
    people = {name: Person.of(f"user:{name}", GROUPS) for name in ("sam", "hana", "olga", "eve")}
    return " ".join(name for name, person in people.items() if may(person, capability, access, rules_))


@pytest.mark.parametrize(
    ("capability", "access", "deployment", "allowed"),
    [
        ("see", run(), SIGNED_IN, "sam"),
        ("steer", run(), SIGNED_IN, "sam"),
        ("start", run(), SIGNED_IN, "sam hana olga eve"),
        ("administer", run(), SIGNED_IN, ""),
        ("see", run(None, signed_in=False), SIGNED_IN, ""),
        ("see", run(), rules(steer=["group:ops"]), "sam olga"),
        ("see", run(see=["group:hr"]), SIGNED_IN, "sam hana"),
        # What is written in two places limits twice.
        ("see", run(see=["group:hr"]), rules(see=["group:staff"]), "sam hana"),
        ("see", run(see=["group:hr"]), rules(steer=["group:ops"]), "sam hana"),
        ("steer", run(see=["group:hr"]), rules(steer=["group:ops"]), "sam"),
        ("see", run(see=["group:hr"]), rules(see=["group:ops"]), "sam"),
        ("steer", run(steer=["group:ops"]), rules(see=["group:hr"]), ""),
        # A steer that the blueprint writes takes the place of the starter.
        ("steer", run(steer=["group:ops"]), SIGNED_IN, "olga"),
        ("see", run(steer=["group:ops"]), SIGNED_IN, "sam olga"),
        ("steer", run(), rules(steer=["group:ops"]), "sam olga"),
        ("answer", run(answer=["group:hr"]), rules(see=["group:staff"]), "hana"),
        ("comment", run(), rules(see=["group:staff"], comment=["group:ops"]), "olga"),
        ("administer", run(), rules(administer=["group:ops"]), "olga"),
        ("steer", run(), rules(administer=["group:ops"]), "sam olga"),
        ("start", run(start=["group:hr"]), SIGNED_IN, "hana"),
        # A table by the name of the blueprint takes the place of the general one, key by key.
        ("see", run(), rules({"payroll-*": AccessPolicy(see=["group:hr"])}, see=["group:staff"]), "sam hana"),
        ("see", run(), rules({"other-*": AccessPolicy(see=["group:hr"])}, see=["group:staff"]), "sam hana olga eve"),
        ("steer", run(), rules({"payroll-*": AccessPolicy(see=["group:hr"])}, steer=["group:ops"]), "sam"),
        # Where nobody signs in, what the blueprint says of commands counts all the same.
        ("see", run(see=["group:hr"]), THIS_MACHINE, "sam hana olga eve"),
        ("answer", run(see=["group:hr"]), THIS_MACHINE, "sam hana"),
        ("answer", run(), THIS_MACHINE, "sam hana olga eve"),
        ("steer", run(steer=["group:ops"]), THIS_MACHINE, "olga"),
        ("steer", run(), THIS_MACHINE, "sam hana olga eve"),
    ],
)
def test_each_level_limits_the_others(
    capability: Capability, access: RunAccess, deployment: AccessRules, allowed: str
) -> None:
    assert who_may(capability, access, deployment) == allowed


def test_a_token_for_steering_reaches_what_nobody_who_signed_in_has_started() -> None:
    token = Person.of("user:bot", {}, holds_steer=True)
    assert may(token, "steer", run(None, signed_in=False), SIGNED_IN)
    assert not may(token, "see", run(), SIGNED_IN)
    assert not may(token, "see", run(None, signed_in=False, see=["group:hr"]), SIGNED_IN)


def test_a_token_for_steering_counts_for_nothing_where_the_deployment_writes_who_may() -> None:
    token, theirs = Person.of("user:bot", {}, holds_steer=True), run("user:t1", signed_in=False)
    tenants = rules(see=["group:one"], steer=["group:one"])
    assert not any(may(token, capability, theirs, tenants) for capability in ("see", "answer", "comment", "steer"))
    assert may(Person.of("user:t1", {}, holds_steer=True), "steer", theirs, tenants)
    seeing = Person.of("user:bot", {"one": ["user:bot"]}, holds_steer=True)
    assert may(seeing, "see", theirs, rules(see=["group:one"], steer=["group:two"]))
    assert not may(seeing, "steer", theirs, rules(see=["group:one"], steer=["group:two"]))


def test_an_assignee_sees_the_question_and_not_the_run() -> None:
    eve, people = Person.of("user:eve", GROUPS), People(assignees=["group:staff"])
    assert may_see_question(eve, people, [], run(), SIGNED_IN) and not may(eve, "see", run(), SIGNED_IN)
    assert not may_see_question(eve, People(assignees=["group:hr"]), [], run(), SIGNED_IN)
    assert may_see_question(eve, People(assignees=["user:max"]), ["user:eve"], run(), SIGNED_IN)
    assert may_see_question(eve, People(assignees=["user:max"], delegations={"user:eve": "user:max"}), [], run())


def test_it_is_known_where_nobody_is_left() -> None:
    assert is_seen_by_nobody(run(None, signed_in=False), SIGNED_IN)
    assert is_seen_by_nobody(run("user:cron", signed_in=False), SIGNED_IN)
    assert not is_seen_by_nobody(run(None, signed_in=False), THIS_MACHINE)
    assert not is_seen_by_nobody(run(None, signed_in=False), rules(steer=["group:ops"]))
    assert not is_seen_by_nobody(run(None, signed_in=False, see=["group:hr"]), SIGNED_IN)
    assert not is_seen_by_nobody(run(), SIGNED_IN)


# Runs


def as_person(house: Harness, name: str, deployment: AccessRules) -> Runs:
    """The runs as a person sees them who has signed in."""
    sender = Sender(f"user:{name}", proof="person")
    permissions = Permissions(Person.of(sender.user, GROUPS), deployment, RunAccessCache())
    return replace_groups(house.runs).acting_as(sender, permissions)


def replace_groups(runs: Runs) -> Runs:
    return Runs(runs.client, runs.task_queue, replace(runs.answering, groups=GROUPS))


async def test_a_run_says_who_may_see_it_from_its_start_on(house: Harness) -> None:
    by_sam = as_person(house, "sam", SIGNED_IN)
    id_ = await by_sam.start(house.load("access: {see: ['group:HR']}\n" + ASK))
    house.started.append(id_)
    described = await house.runs.tree.describe(id_)
    assert await read_access(described) == RunAccess(
        blueprint="test", started_by="user:sam", signed_in=True, written=AccessPolicy(see=["group:hr"])
    )
    histories = await house.histories(id_)
    assert not any("UPSERT" in str(event.event_type) for event in histories[0].events[:3])


async def test_lists_show_what_one_may_see_below_a_run_too(house: Harness) -> None:
    id_ = await as_person(house, "sam", SIGNED_IN).start(house.load(NESTED))
    house.started.append(id_)
    await house.one(id_)
    deployment = rules(see=["group:ops"])

    async def shown(name: str) -> tuple[bool, bool]:
        runs = as_person(house, name, deployment)
        waiting, _ = await runs.lists.find_waiting()
        listed, _ = await runs.lists.page()
        return id_ in [row.run for row in waiting], id_ in [row.run for row in listed]

    async def is_listed() -> bool:
        return await shown("olga") == (True, True)

    await until(is_listed)
    assert await shown("sam") == (True, True)
    assert await shown("hana") == (False, False)


@pytest.mark.slow
async def test_a_page_of_runs_is_filled_with_those_that_one_may_see(house: Harness) -> None:
    """The list reads on behind the runs that it leaves out."""
    by_blueprint = {"hid-*": AccessPolicy(see=["group:hr"])}
    deployment = rules(by_blueprint, see=["group:ops"])
    name = f"{house.unique}-seen"
    for blueprint in (name, f"hid-{name}", name, f"hid-{name}", name):
        house.started.append(await house.runs.start(replace_name(house, blueprint)))
    olga = as_person(house, "olga", deployment)

    async def found() -> list[str]:
        rows, cursor = await olga.lists.page(size=2)
        more = [] if cursor is None else (await olga.lists.page(cursor, size=2))[0]
        return [row.blueprint for row in (*rows, *more) if name in row.blueprint]

    async def is_whole() -> bool:
        return len(await found()) == 3

    await until(is_whole)
    assert await found() == [name] * 3


def replace_name(house: Harness, name: str) -> Any:
    return house.load(ASK).model_copy(update={"name": name})


async def test_what_one_may_not_see_is_unknown_and_what_one_may_not_do_is_refused(house: Harness) -> None:
    id_ = await as_person(house, "sam", SIGNED_IN).start(house.load(ASK))
    house.started.append(id_)
    question = await house.one(id_)
    deployment = rules(see=["group:ops"], answer=["group:hr"])
    with pytest.raises(UnknownRun):
        await as_person(house, "eve", deployment).control.cancel(id_)
    with pytest.raises(UnknownRun):
        await as_person(house, "eve", deployment).access.answerable(id_, [question.id])
    with pytest.raises(Refusal, match="question"):
        await as_person(house, "eve", deployment).lists.find_question(question.id)
    olga = as_person(house, "olga", deployment)
    for command in (
        olga.control.cancel(id_),
        olga.control.pause(id_),
        olga.answer(id_, [Answer(question=question.id, content="y")]),
    ):
        with pytest.raises(Refusal) as caught:
            await command
        assert caught.value.code == "not_allowed"
    assert (await as_person(house, "sam", deployment).control.cancel(id_)).status == "cancelled"


@pytest.mark.parametrize("force", [False, True])
async def test_a_cancel_is_refused_to_who_may_not_steer(house: Harness, force: bool) -> None:
    id_ = await house.start("access: {steer: ['user:max']}\n" + ASK)
    await house.one(id_)
    for by in (None, "user:eve"):
        with pytest.raises(Refusal, match="user:max may steer this run"):
            await house.runs.control.cancel(id_, by=by, force=force)
    assert (await house.runs.state(id_)).status == "waiting"
    assert not (await house.runs.control.cancel(id_, by="user:max", force=force)).left


# Validators


INBOX = Key("inbox", "secret", proves="person")


@pytest.mark.slow
async def test_a_worker_refuses_who_has_signed_in_and_may_not(house: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever holds the inbox's key and asks no server meets the same rules in the workflow."""
    monkeypatch.setattr(guard.DEPLOYMENT, "keys", [INBOX])
    monkeypatch.setattr(guard.DEPLOYMENT, "access", rules(see=["group:ops"]))
    monkeypatch.setattr(guard.DEPLOYMENT, "groups", GROUPS)
    keyed = Runs(house.client, house.runs.task_queue, Answering(keys=[INBOX], groups=GROUPS))

    def by(name: str) -> Runs:
        return keyed.acting_as(Sender(f"user:{name}", proof="person"))

    id_ = await by("sam").start(house.load(ASK))
    house.started.append(id_)
    question = await house.one(id_)
    given = [Answer(question=question.id, content="yes")]
    for refused in (by("eve").answer(id_, given), by("eve").control.pause(id_), by("olga").control.pause(id_)):
        with pytest.raises(Refusal) as caught:
            await refused
        assert caught.value.code == "not_allowed"
    with pytest.raises(Refusal):
        await by("eve").assignment.claim(id_, question.id, by="user:eve")
    assert (await by("sam").control.pause(id_)).left == [] and (await by("sam").control.unpause(id_)).left == []
    await by("sam").assignment.claim(id_, question.id, by="user:sam")
    with pytest.raises(Refusal):
        await by("olga").assignment.release(id_, question.id, by="user:olga")
    monkeypatch.setattr(guard.DEPLOYMENT, "access", rules(see=["group:ops"], steer=["group:ops"]))
    await by("olga").assignment.release(id_, question.id, by="user:olga")
    assert (await by("olga").answer(id_, given))[0].status == "answered"


@pytest.mark.parametrize("key", ["see", "answer"])
async def test_a_blueprint_that_says_who_may_answer_takes_no_signal(house: Harness, key: str) -> None:
    id_ = await house.start(f"access: {{{key}: ['user:hana']}}\n" + ASK)
    question = await house.one(id_)
    await house.client.get_workflow_handle(id_).signal("answer", {"question": question.id, "content": "yes"})

    async def refused() -> str:
        return "".join(signal.code for signal in (await house.runs.tree.view(id_)).refused)

    assert await until(refused) == "not_allowed"
    with pytest.raises(NothingSent, match="takes no signals"):
        await house.answer(id_, "yes", question, by="user:hana", signal=True)
    with pytest.raises(Refusal):
        await house.answer(id_, "yes", question, by="user:eve")
    assert (await house.answer(id_, "yes", question, by="user:hana")).status == "answered"


class _Unreadable:
    """A run whose memo was written with a codec that this client does not have."""

    async def memo_value(self, *_: object, **__: object) -> RunAccess:
        raise KeyError("Unknown payload encoding binary/zlib")


async def test_a_run_whose_rules_cannot_be_read_is_seen_by_nobody_who_signs_in_and_ends_no_list() -> None:
    run = await read_access(cast(WorkflowExecution, _Unreadable()))
    ana = Person(frozenset({"user:ana"}))
    assert not may(ana, "see", run, rules(see=["user:ana"]))
    assert may(ana, "see", run)
