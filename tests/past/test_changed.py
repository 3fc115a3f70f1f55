"""A run goes on from another one with a changed blueprint: up to there that must do the same, or nothing is called."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import yaml

from holdfast.blueprint.load import loads
from holdfast.client.retries import adapt
from holdfast.protocol.access import AccessPolicy
from tests.conftest import Harness
from tests.control.undoable import block, plain
from tests.past.runs import ASK, fail, mend, paid, pay, retry
from tests.tools import read_done

Change = Callable[[Harness, list[Any]], list[Any]]
CHANGES: dict[str, Change] = {
    "renamed": lambda house, steps: [pay(house.folder, "ana", "renamed"), *steps[1:]],
    "inserted": lambda house, steps: [pay(house.folder, "eve", "inserted"), *steps],
    "asks": lambda house, steps: [{**ASK, "name": "first"}, *steps],
    "in a loop": lambda house, steps: [
        {"kind": "loop", "name": "l", "loop": {"max_loops": 1, "body": steps[:1]}},
        *steps[1:],
    ],
    "in a block": lambda house, steps: [{"kind": "block", "name": "b", "steps": steps[:1]}, *steps[1:]],
    "in a branch": lambda house, steps: [{"kind": "parallel", "name": "p", "branches": {"a": steps[:1]}}, *steps[1:]],
    "removed": lambda house, steps: steps[1:],
    "in another order": lambda house, steps: [steps[1], steps[0], *steps[2:]],
    "more rounds": lambda house, steps: [steps[0], _change_loop(steps[1], max_loops=3), *steps[2:]],
    "fewer rounds": lambda house, steps: [steps[0], _change_loop(steps[1], max_loops=1), *steps[2:]],
    "another exit": lambda house, steps: [steps[0], _change_loop(steps[1], exit_expression="false"), *steps[2:]],
    "renamed in a loop": lambda house, steps: [steps[0], _change_body(steps[1], name="renamed"), *steps[2:]],
    "another input of a loop": lambda house, steps: [steps[0], {**steps[1], "input": "new"}, *steps[2:]],
}


def _change_body(loop: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return a loop of one step with that step changed."""
    [step] = loop["loop"]["body"]
    return _change_loop(loop, body=[{**step, **changes}])


def _change_loop(loop: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {**loop, "loop": {**loop["loop"], **changes}}


def write(house: Harness) -> list[Any]:
    """Return steps that pay three times, the last two in a loop."""
    rounds = {"max_loops": 2, "body": [pay(house.folder, "bob", "pay_round")]}
    return [pay(house.folder, "ana"), {"kind": "loop", "name": "rounds", "loop": rounds}]


async def stop(house: Harness, new: str) -> None:
    """Check that a run stops before it calls or asks anything."""
    before = paid(house)
    outcome = await house.result(new)
    assert outcome.error is not None
    assert (outcome.error.type, paid(house)) == ("past_differs", before)
    assert "question.asked" not in await house.types(new)


async def fork_completed(house: Harness, change: Change) -> str:
    steps = [*write(house), {"name": "end"}]
    run = await house.start(yaml.safe_dump({"steps": steps}))
    await house.output(run)
    changed = house.load(yaml.safe_dump({"steps": change(house, steps)}))
    new = await house.runs.fork(run, "end", blueprint=changed)
    house.started.append(new.run)
    return new.run


async def retry_failed(house: Harness, change: Change) -> str:
    steps = [*write(house), mend(house.folder)]
    run = await fail(house, steps)
    return await retry(house, run, blueprint=house.load(yaml.safe_dump({"steps": change(house, steps)})))


async def retry_cancelled(house: Harness, change: Change) -> str:
    steps = [*write(house), ASK]
    run = await house.start(yaml.safe_dump({"steps": steps}))
    await house.one(run)
    await house.runs.control.cancel(run)
    return await retry(house, run, blueprint=house.load(yaml.safe_dump({"steps": change(house, steps)})))


@pytest.mark.first_row
@pytest.mark.parametrize("change", CHANGES)
async def test_a_fork_of_what_does_something_else_before_its_place_is_stopped(house: Harness, change: str) -> None:
    await stop(house, await fork_completed(house, CHANGES[change]))


@pytest.mark.slow
@pytest.mark.first_row
@pytest.mark.parametrize("going_on", [retry_failed, retry_cancelled])
@pytest.mark.parametrize("change", CHANGES)
async def test_a_retry_of_what_does_something_else_before_its_failure_is_stopped(
    house: Harness, going_on: Callable[[Harness, Change], Awaitable[str]], change: str
) -> None:
    await stop(house, await going_on(house, CHANGES[change]))


FAILED: dict[str, Change] = {
    "renamed": lambda house, steps: [*steps[:2], {**steps[2], "name": "other"}],
    "in a block": lambda house, steps: [*steps[:2], block(steps[2])],
    "in a loop": lambda house, steps: [
        *steps[:2],
        {"kind": "loop", "name": "l", "loop": {"max_loops": 1, "body": steps[2:]}},
    ],
    "in a branch": lambda house, steps: [*steps[:2], {"kind": "parallel", "name": "p", "branches": {"a": steps[2:]}}],
}


@pytest.mark.slow
@pytest.mark.first_row
@pytest.mark.parametrize("change", FAILED)
async def test_a_retry_in_which_the_failed_step_has_another_name_or_place_is_stopped(
    house: Harness, change: str
) -> None:
    """Nothing says that it is the one that failed. With the blueprint as it was the stopped run goes on."""
    steps = [pay(house.folder, "ana"), ASK, mend(house.folder)]
    run = await fail(house, steps, {"granted": True})
    changed, own = (house.load(yaml.safe_dump({"steps": one})) for one in (FAILED[change](house, steps), steps))
    stopped = await retry(house, run, blueprint=changed)
    await stop(house, stopped)
    assert await house.output(await retry(house, stopped, blueprint=own)) == "mended 1"
    assert paid(house) == 1


@pytest.mark.parametrize("message", ["Pay it?", "Pay twice?"])
async def test_an_answer_is_met_by_the_question_that_was_answered_alone(house: Harness, message: str) -> None:
    asked = {"kind": "hitl", "name": "agree", "ask": "permission", "message": "Pay it?"}
    run = await house.start(yaml.safe_dump({"steps": [asked, {"name": "end"}]}))
    await house.answer(run, {"granted": True})
    await house.output(run)
    steps = [{**asked, "message": message}, {"name": "end", "input": "new"}]
    forked = await house.runs.fork(run, "end", blueprint=house.load(yaml.safe_dump({"steps": steps})))
    house.started.append(forked.run)
    if message == "Pay it?":
        assert await house.output(forked.run) == "new"
    else:
        await stop(house, forked.run)


@pytest.mark.slow
async def test_another_timeout_in_what_is_met_changes_nothing(house: Harness) -> None:
    steps = [*write(house), {"name": "end"}]
    run = await house.start(yaml.safe_dump({"steps": steps}))
    await house.output(run)
    other = [steps[0], _change_body(steps[1], timeout="5m"), steps[2]]
    forked = await house.runs.fork(run, "end", blueprint=house.load(yaml.safe_dump({"steps": other})))
    house.started.append(forked.run)
    assert (await house.output(forked.run), paid(house)) == ({"paid": 1, "to": "bob"}, 3)


@pytest.mark.slow
async def test_a_changed_blueprint_may_have_another_name(house: Harness) -> None:
    """A file's name is that of its blueprint; the addresses of the new run are those of the old one."""
    steps = [*write(house), {"name": "end"}]
    run = await house.start(yaml.safe_dump({"steps": steps}))
    await house.output(run)
    changed = house.load(yaml.safe_dump({"name": "other", "steps": [*steps, {"name": "more", "input": "new"}]}))
    forked = await house.runs.fork(run, "end", blueprint=changed)
    house.started.append(forked.run)
    assert (await house.output(forked.run), paid(house)) == ("new", 3)


@pytest.mark.slow
async def test_what_is_changed_from_the_place_on_is_done(house: Harness) -> None:
    """In the same iteration, and behind the loop."""
    rounds = [pay(house.folder, "bob", "pay_round"), {"name": "said", "input": "old"}]
    steps = [{"kind": "loop", "name": "l", "loop": {"max_loops": 2, "body": rounds}}, {"name": "end"}]
    run = await house.start(yaml.safe_dump({"steps": steps}))
    assert await house.output(run) == "old"
    rounds[1] = {"name": "says", "input": "new"}
    changed = house.load(yaml.safe_dump({"steps": [*steps, pay(house.folder, "eve", "more")]}))
    forked = await house.runs.fork(run, "loop:l:2", blueprint=changed)
    house.started.append(forked.run)
    assert (await house.output(forked.run), paid(house)) == ({"paid": 1, "to": "eve"}, 4)


@pytest.mark.slow
async def test_what_an_expression_has_ended_beside_it_goes_on_once_it_is_mended(house: Harness) -> None:
    """The question in the other branch is asked again, and the last steps of the block come at its end."""

    def write_with(text: str) -> str:
        fails = [pay(house.folder, "ana"), {"name": "adds", "input": text}]
        both = {"kind": "parallel", "name": "both", "branches": {"a": fails, "b": [ASK]}}
        return yaml.safe_dump({"steps": [block(both, **{"finally": [plain(house, "give")]})]})

    run = await house.start(write_with("{{ input.n + 1 }}"), {"n": "one"})
    outcome = await house.result(run)
    assert outcome.error is not None
    assert (outcome.error.type, paid(house), read_done(house.folder)) == ("expression_error", 1, ["give"])
    new = await retry(house, run, blueprint=house.load(write_with("{{ input.n }}")))
    await house.answer(new, {"granted": True})
    assert await house.output(new) == {"a": "one", "b": True}
    assert (paid(house), read_done(house.folder)) == (1, ["give", "give"])


def test_a_changed_blueprint_has_the_name_and_the_access_of_the_run() -> None:
    """A file that lost its `access` must not show everybody what the earlier run did."""
    steps = "steps: [{name: a, input: x}]"
    own = loads(f"{{name: own, access: {{see: ['group:hr']}}, {steps}}}")
    changed = adapt(loads(f"{{name: mended, {steps}}}"), own)
    assert changed is not None
    assert (changed.name, AccessPolicy.read(changed).see) == ("own", ["group:hr"])
