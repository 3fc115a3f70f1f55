"""Schedules under the simulated server: the promises hold, and a simulator that is wrong would be noticed."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator

import pytest
from temporalio.bridge.proto.workflow_activation import InitializeWorkflow
from temporalio.bridge.proto.workflow_commands.workflow_commands_pb2 import ScheduleActivity

from drills.simulate import search
from drills.simulate.blueprints import MAKERS
from drills.simulate.breaks import BREAKS, plant
from drills.simulate.choices import Choices, shrink
from drills.simulate.core import Violation, match_commands
from drills.simulate.going_back import Going
from drills.simulate.recording import Recording
from drills.simulate.sdk import check_version
from drills.simulate.search import find_break, run_batches, split_seeds
from drills.simulate.server import Call, Run
from drills.simulate.simulation import SCHEDULES, choose_blueprint, forget_prepared, run_choices, run_seed
from drills.simulate.world import FIND, PAY, World, make_reply, pack
from holdfast.blueprint.kinds import KINDS
from holdfast.protocol.agents import Message, ModelRequest, ToolCall, ToolRequest, ToolSpec
from holdfast.protocol.past import Past
from holdfast.protocol.runs import HistoryLimits

BATCHES = 20
QUICKLY_FOUND = {
    "an answer leaves its question open": 18,
    "a validator lets everything in": 18,
    "an answer that comes late goes to another question": 82,
    "the key of an answer is forgotten": 88,
    "a lost call is made again, and nobody asked": 119,
    "a resume does not reach the children": 10,
    "events are numbered anew at continue-as-new": 10,
    "a cancel does not reach the children": 13,
    "a cancel is handled as a failure": 13,
    "a pause misses a child that is about to start": 10,
}
"""Some breaks, and the seed that finds each: the first one. `python -m drills.simulate --breaks` prints them.

They only make the tests quick, as the search begins there: after a change of the generator another seed finds a break.
"""
MOST_SEEDS = 1_000
"""So many are run from there on."""
CALL, TIMER = ("schedule_activity", "one", "call_tool"), ("start_timer", 1)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """The SDK writes a traceback for each answer that is refused."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.first_row
@pytest.mark.parametrize("batch", range(BATCHES))
def test_every_promise_holds_under_every_schedule(batch: int) -> None:
    for seed in range(batch * SCHEDULES, (batch + 1) * SCHEDULES):
        failure = run_seed(seed)
        assert failure is None, f"{failure.reason}: python -m drills.simulate --seed {seed}"


@pytest.mark.slow
def test_a_schedule_whose_replays_are_spared_is_judged_as_the_others_are() -> None:
    [mistake] = [each for each in BREAKS if each.name == "events are numbered anew at continue-as-new"]
    forget_prepared()
    try:
        with plant(mistake):
            seeds = range(QUICKLY_FOUND[mistake.name], MOST_SEEDS)
            failure = next((found for seed in seeds if (found := run_seed(seed, replays=False))), None)
    finally:
        forget_prepared()
    assert failure is not None
    assert "go on from" in failure.reason


@pytest.mark.slow
def test_a_cheap_search_leaves_out_large_blueprints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "is_small", lambda seed: seed != 0)
    first, second = run_batches(split_seeds(0, 2 * SCHEDULES), 1, cheap=True)
    assert (first.seeds, first.left_out) == (0, SCHEDULES)
    assert (second.seeds, second.left_out) == (SCHEDULES, 0)


@pytest.mark.slow
@pytest.mark.first_row
@pytest.mark.parametrize("name", QUICKLY_FOUND)
def test_a_break_that_is_planted_on_purpose_is_found(name: str) -> None:
    found = find_break(name, MOST_SEEDS, QUICKLY_FOUND[name])
    assert found.seed is not None, f"{found.schedules} schedules keep every promise while {name}"


def test_every_break_says_what_it_does_in_words_of_its_own() -> None:
    assert len({each.name for each in BREAKS}) == len(BREAKS) >= 20


def test_the_generator_writes_every_kind_of_step() -> None:
    assert MAKERS.keys() == KINDS.keys(), "a new kind comes with its line in drills/simulate/blueprints.py"


def test_what_is_imitated_is_the_sdk_that_is_installed() -> None:
    check_version()


def test_the_same_choices_make_the_same_schedule() -> None:
    written = choose_blueprint(3)
    first = Choices([2, 1, 3, 0, 2, 5, 1, 1, 4])
    second = Choices([2, 1, 3, 0, 2, 5, 1, 1, 4])
    run_choices(written, first)
    run_choices(written, second)
    assert first.made == second.made
    assert any(first.made)


def test_a_schedule_shrinks_to_what_it_fails_by() -> None:
    assert shrink([3, 0, 7, 1, 7, 2, 0, 9], lambda choices: list(choices).count(7) >= 1) == [7]


@pytest.mark.parametrize(
    "made",
    [[], [CALL], [TIMER, CALL], [CALL, ("start_timer", 2)], [CALL, TIMER, TIMER]],
    ids=["none", "fewer", "swapped", "another", "more"],
)
def test_other_commands_than_recorded_are_no_replay(made: list[tuple[object, ...]]) -> None:
    with pytest.raises(Violation, match="does not replay"):
        match_commands([CALL, TIMER], made)


def test_the_commands_that_were_recorded_are_a_replay() -> None:
    match_commands([CALL, TIMER], [CALL, TIMER])


def test_a_payment_that_may_have_acted_is_not_failed_for_good() -> None:
    world = World([])
    run = Run("run", "run#1", InitializeWorkflow(), Recording(InitializeWorkflow(), "run#1", 0))
    command = ScheduleActivity(activity_type="call_tool", arguments=[pack(ToolRequest(tool=PAY, address="one"))])
    assert "fail for good" in {move.what for move in world.list_call_moves(Call(run, command))}
    assert "fail for good" not in {move.what for move in world.list_call_moves(Call(run, command, attempt=2))}


@pytest.mark.parametrize("made_in", ["", "run#0-2"])
def test_a_call_that_is_made_again_must_name_a_history_that_made_it(made_in: str) -> None:
    server = World([]).server
    recording = Recording(InitializeWorkflow(), "run#1-1", 0)
    server.runs.append(Run("run", "run#1-1", InitializeWorkflow(), recording))
    going = Going("the retry", Past(run="run"), HistoryLimits(), frozenset(), Counter(), made={"run#0-1": {"one"}})
    recording.requests["one"] = {"begun": True, "made_in": "run#0-1"}
    going.check(server, [])
    recording.requests["one"]["made_in"] = made_in
    with pytest.raises(Violation, match="did not make it"):
        going.check(server, [])


def test_a_model_goes_on_where_turns_were_left_out_of_its_conversation() -> None:
    call = ToolCall(id="c1-0", name=FIND, args={"what": "tea"})
    spec = ToolSpec(name=FIND, description=FIND, parameters={"type": "object"}, reference=FIND)
    spoken = [Message(role="user", content="Work."), Message(role="assistant", tool_calls=[call])]
    assert make_reply(ModelRequest(step="st1", model="simulated", tools=[spec], messages=spoken)).tool_calls == []
