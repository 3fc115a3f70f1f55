"""One seed: a blueprint, a schedule, and the promises that must hold under it."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import NamedTuple

from drills.simulate.blueprints import UNDONE, Generated, Generator, load, mend, write
from drills.simulate.choices import Choices, shrink
from drills.simulate.core import Core, Violation
from drills.simulate.going_back import (
    EndedRun,
    Going,
    choose_fork,
    choose_retry,
    fork_at,
    list_completed,
    list_undone,
    may_be_handled,
)
from drills.simulate.sdk import decode_failure
from drills.simulate.server import Move, Run
from drills.simulate.world import FIND, RING, RUN, World, pack, unpack
from holdfast.blueprint.json_values import JSON
from holdfast.protocol.events import CLOSING_TYPES, ChildStarted, Event, Names, QuestionCancelled
from holdfast.protocol.names import EVENTS, VIEW
from holdfast.protocol.runs import Definition, HistoryLimits
from holdfast.protocol.views import RunResult, WorkflowView

SCHEDULES = 10
"""Schedules of one blueprint: consecutive seeds share it, and its undisturbed run."""
FORKED = 0.2
"""The share of complete runs that are forked."""
FAILING = 0.15
"""The share of schedules in which a call may fail for good, so that the run may fail, and is retried."""
RETRIED = 0.5
"""The share of cancelled runs that are retried."""
MOST_MOVES = 2_000
SMALL = 20
"""Moves of the undisturbed run of a small blueprint, at most: three of five are, and take a fifth of the time."""
SOON = 2 * 86_400 * 1_000_000_000
"""Nanoseconds; a deadline that is further away is never reached before what it ends."""
MOST_DISTURBANCES = 40
"""In one schedule; after them it goes on in any order, but undisturbed."""
DISTURBING = {
    # What happens, and how often beside one plain move.
    "begin": 0.25,
    "elsewhere": 0.06,
    "lose": 0.15,
    "fail local": 0.1,
    "query in task": 0.2,
    "heartbeat": 0.2,
    "query": 0.25,
    "evict": 0.08,
    "lose worker": 0.05,
    "lose result": 0.05,
    "fail once": 0.05,
    "fail for good": 0.2,
    "answer by two": 0.1,
    "answer again": 0.1,
    "answer by signal": 0.25,
    "nonsense": 0.05,
    "pause": 0.04,
    "pause by signal": 0.04,
    "cancel run": 0.15,
    "fire": 0.05,
}
TOGETHER = (
    ("elsewhere", "query"),
    ("heartbeat", "query in task", "lose"),
    ("lose worker", "lose result", "pause"),
    ("begin", "pause", "pause by signal"),
    ("begin", "cancel run", "evict"),
)
"""Storms of several kinds that meet by chance too seldom."""


class Outcome(NamedTuple):
    """How a run has ended."""

    status: str
    output: JSON
    context: JSON
    effects: tuple[tuple[tuple[str, str], int], ...]


@dataclass(frozen=True)
class Failure:
    """A promise that a schedule has broken."""

    seed: int | None
    reason: str
    blueprint: Generated
    made: Sequence[int]
    """The choices of the schedule."""
    written: Sequence[int]
    """The choices of the blueprint."""
    moves: Sequence[str]


@dataclass
class Profile:
    """How a schedule disturbs: some are storms of one kind, in others some kinds never happen."""

    weights: dict[str, float]
    may_cancel: bool

    @classmethod
    def choose(cls, choices: Choices) -> Profile:
        """Return the profile of a schedule."""
        weights = dict(DISTURBING)
        storm = choices.below(4)
        names = sorted(weights)
        if choices.chance(0.5):  # what never happens leaves more room for the others
            weights = {name: 0.0 if choices.chance(0.5) else weight for name, weight in sorted(weights.items())}
        stormy = [names[choices.below(len(names))] for _ in range(storm)]
        if choices.chance(0.3):
            stormy += TOGETHER[choices.below(len(TOGETHER))]
        for name in stormy:
            weights[name] = DISTURBING[name] * 8
        if not choices.chance(FAILING):
            del weights["fail for good"]
        weights["end last local"] = 1.0  # is there only if the workflow makes several at once, which is a mistake
        return cls(weights, choices.chance(0.3))


@dataclass
class Simulation:
    """One run under one schedule."""

    generated: Generated
    choices: Choices
    disturbed: bool = True
    going: Going | None = None
    """What the run goes on from."""
    unchanged: Outcome | None = None
    """Where a fork has changed values: how the run would end without."""
    make_world: Callable[[Sequence[tuple[str, str]]], World] = World
    moves: list[str] = field(default_factory=list)
    replays: bool = True
    """Whether each history is replayed to its end, and not only where a workflow was evicted."""
    chains: bool = True
    """Whether runs go on from runs that went on from others, and forks change values."""
    told: Sequence[Event] = ()
    """The events of all workflows at the end, as clients list them."""
    ends: dict[str, Core] = field(default_factory=dict)
    """The workflows as they have ended, by the ids of their histories."""

    def run(self) -> Outcome:
        """Run to the end, and return how it has ended. Raises `Violation` for a promise that is broken."""
        self.start()
        return self.finish()

    def start(self) -> None:
        """Start the run, and make no move yet."""
        self.profile = Profile.choose(self.choices)
        self.disturbances_left = MOST_DISTURBANCES if self.disturbed else 0
        self.world = self.make_world(self.generated.events)
        self.server = self.world.server
        self.limits = self._choose_limits()
        past = None
        if self.going is not None:
            past, self.server.turn = self.going.past, self.going.turn
        limits, blueprint = self.limits, self.generated.blueprint
        definition = Definition(run="", blueprint=blueprint, history_limits=limits, past=past, local_tools=[FIND])
        self.world.start(definition, "tea")

    def finish(self) -> Outcome:
        """Go on to the end, and return how the run has ended. Raises `Violation` for a promise that is broken."""
        if not self.make_moves(MOST_MOVES):
            raise Violation(f"has not ended after {MOST_MOVES} moves: {self._describe_waiting()}")
        self._check_end()
        return self._read_outcome()

    def make_moves(self, most: int) -> bool:
        """Make so many moves, or as many as there are; return whether there are no more."""
        return not all(self._move() for _ in range(most))

    def _choose_limits(self) -> HistoryLimits:
        """Return the limits of a history: those of the run that this one goes on from, as a client starts it."""
        if self.going is not None:
            return self.going.limits
        is_short = self.choices.chance(0.5)
        return HistoryLimits(rounds=2, items=2) if is_short and self.disturbed else HistoryLimits()

    # Moves

    def _move(self) -> bool:
        """Make one move; return whether there was one."""
        self.world.look()
        plain = self._list_plain()
        if not plain:
            return False
        moves, weights = plain, [1.0] * len(plain)
        if self.disturbances_left:
            disturbing = [move for move in self._list_disturbing() if self.profile.weights[move.what]]
            moves = [*plain, *disturbing]
            weights += [self.profile.weights[move.what] for move in disturbing]
        index = self.choices.index(weights)
        self.disturbances_left -= index >= len(plain)
        move = moves[index]
        self.moves.append(f"{move.what}: {move.where}")
        move.make()
        if self.world.problems:
            raise Violation("; ".join(self.world.problems))
        return True

    def _list_plain(self) -> list[Move]:
        """Return what goes on by itself, in whichever order; time passes where nothing else is left."""
        server, world = self.server, self.world
        moves = list(server.operations)
        moves = [Move(move.what, move.where, lambda move=move: self._operate(move)) for move in moves]  # type: ignore[misc]
        for run in server.runs:
            moves += server.list_moves(run)[:1]
            moves += [move for call in run.calls.values() for move in world.list_call_moves(call)[:1]]
        moves += [*world.list_foreign_moves(), *world.list_answer_moves(), *world.list_event_moves()]
        moves = moves or world.list_late_moves() or world.list_resuming_moves()
        if not moves and (timers := server.list_timers()):
            moves = [Move("fire", timers[0][1].id, lambda: server.fire(*timers[0]))]
        return moves or world.list_last_moves()

    def _operate(self, move: Move) -> None:
        self.server.operations.remove(move)
        move.make()

    def _list_disturbing(self) -> list[Move]:
        server, world, profile = self.server, self.world, self.profile
        moves: list[Move] = []
        for run in server.runs:
            if run.closed or run in server.foreign:
                continue
            moves += server.list_moves(run)[1:]
            for call in run.calls.values():
                moves += [move for move in world.list_call_moves(call)[1:] if move.what in profile.weights]
            if run.answers_queries:
                moves.append(Move("query", run.id, lambda run=run: server.query(run, VIEW)))  # type: ignore[misc]
            if run.core is not None and run.task != "started":
                moves.append(Move("evict", run.id, lambda run=run: server.evict(run)))  # type: ignore[misc]
        moves += [*world.list_rival_moves(), *world.list_steering_moves()]
        if profile.may_cancel and not world.cancelled and not world.root.closed:
            moves.append(Move("cancel run", "run", world.cancel_run))
        if (timers := server.list_timers()) and timers[0][0] < server.now + SOON:
            moves.append(Move("fire", timers[0][1].id, lambda: server.fire(*timers[0])))
        return moves

    # Promises

    def _check_end(self) -> None:
        open_ = [run.id for run in self.server.runs if not run.closed and run not in self.server.foreign]
        if open_:
            raise Violation(
                f"hangs: nothing can happen any more, and there are open {open_}: {self._describe_waiting()}"
            )
        for run in self.server.runs:
            if run.closed == "terminated" and not self.world.cancelled:
                raise Violation(f"{run.id} was left behind by its parent")
        for (tool, address), count in self.world.activities.effects.items():
            if count > self._count_allowed(address):
                raise Violation(f"{tool} was called {count} times at {address}")
        if self.disturbed:
            self._check_journals()

    @property
    def end(self) -> EndedRun:
        """What another run may go on from, once this one has ended."""
        if not self.told:
            self._check_journals()
        return EndedRun(self.server, self.ends, self.told, self.generated.blueprint, self.limits, self.going)

    def _count_allowed(self, address: str) -> int:
        """Return how often something may be done at an address, by this run and the one that it goes on from."""
        return 1 if self.going is None else 1 + self.going.repeated[address]

    def _check_journals(self) -> None:
        """Read what the journal of every history says, once it is replayed to its end."""
        journals: dict[str, list[Event]] = {}
        for run in self.server.runs:
            if run.events:
                journals.setdefault(run.id, []).extend(self._read_journal(run, len(journals.get(run.id, []))))
        for events in journals.values():
            _check_order(events)
        everything = [event for events in journals.values() for event in events]
        self.told = list(_list_nested(journals, RUN))
        self._check_questions(everything)
        completed = list_completed(self.server, everything)
        undone = list_undone(everything)
        if self.going is not None:
            completed, undone = completed | self.going.completed, undone | self.going.undone
        _check_undone(completed, undone, self.world.activities.effects)
        if self.going is not None:
            self.going.check(self.server, everything)

    def _check_questions(self, events: Sequence[Event]) -> None:
        asked = Counter(event.data.id for event in events if event.type == "question.asked")  # type: ignore[attr-defined]
        closings = [event.data for event in events if event.type in CLOSING_TYPES]
        closed = Counter(data.id for data in closings)  # type: ignore[attr-defined]
        by = {data.id: _list_people(data.by, data.accepted_by) for data in closings}  # type: ignore[attr-defined]
        for id_, count in closed.items():
            if count > 1:
                raise Violation(f"question {id_} was closed {count} times")
        if not self.world.cancelled and (left := set(asked) - set(closed)):
            raise Violation(f"questions {sorted(left)} were never closed")
        dropped = {data.id for data in closings if isinstance(data, QuestionCancelled) and data.by is None}
        if not self.world.cancelled and (refused := self.world.too_late - dropped):
            raise Violation(f"an answer was refused, and nobody else had answered: {sorted(refused)}")
        for id_, person in self.world.receipts.items():
            if person not in by.get(id_, []):
                raise Violation(
                    f"question {id_}: {person} was told that they answered, and the record says {by.get(id_)}"
                )

    def _read_journal(self, run: Run, before: int) -> list[Event]:
        """Return the events of one history; `before`: how many there are in those that it continues."""
        core = self.ends[run.run_id] = self._load_end(run)
        events: list[Event] = []
        view = unpack(core.query(VIEW, None), WorkflowView)
        first = view.first_offset
        if view.status == "paused" and run.closed == "continued":
            self._check_goes_on_paused(run)
        if first != before:
            raise Violation(f"the events of {run.id} go on from {first}, and there are {before} before")
        while page := unpack(core.query(EVENTS, pack(first + len(events))), list[Event]):
            events += page
        return events

    def _load_end(self, run: Run) -> Core:
        """Return a workflow as it has ended: replayed, or without replays as it is in the cache if nothing is amiss."""
        core = run.core
        is_whole = core is not None and core.applied == len(run.events) and not core.evicting
        if core is None or self.replays or not is_whole or run.closed == "terminated":
            core = Core(run.events, run.run_id)
            core.replay(run.events)
        return core

    def discard_ends(self) -> None:
        """Evict the workflows that were replayed to their ends. Raises `Violation` if that fails."""
        for run in self.server.runs:
            if (core := self.ends.get(run.run_id)) is not None and core is not run.core:
                core.discard()

    def _check_goes_on_paused(self, run: Run) -> None:
        [following] = [each for each in self.server.runs if each.start.continued_from_execution_run_id == run.run_id]
        _, state = following.start.arguments
        if not json.loads(state.data).get("paused"):
            raise Violation(f"{run.id} was paused, and goes on in a new history as if it was not")

    def _describe_waiting(self) -> str:
        waiting = [f"{run.id} {run.task or ''} calls {len(run.calls)}" for run in self.server.runs if not run.closed]
        return "; ".join(waiting)

    def _read_outcome(self) -> Outcome:
        root = self.world.root
        effects = tuple(sorted(self.world.activities.effects.items()))
        if root.closed == "completed":
            result = unpack(root.result, RunResult)  # type: ignore[arg-type]
            return Outcome("completed", result.output, result.context, effects)
        error = decode_failure(root.result)  # type: ignore[arg-type]
        return Outcome(str(root.closed), getattr(error, "type", None), None, effects)


def _list_nested(journals: Mapping[str, Sequence[Event]], workflow: str) -> Iterator[Event]:
    """Yield the events of a workflow, those of each child after the event that records its start, as clients do."""
    for event in journals.get(workflow, ()):
        yield event
        if isinstance(event.data, ChildStarted):
            yield from _list_nested(journals, event.data.workflow)


def _list_people(*names: Names | None) -> list[str]:
    """Return all who had a part in the end of a question."""
    return [name for each in names if each for name in ([each] if isinstance(each, str) else each)]


def _check_order(events: Sequence[Event]) -> None:
    """Check the journal of one workflow: nothing of a question after its end, and no grant asked for once more."""
    closed: set[str] = set()
    granted = False
    for event in events:
        if event.type in ("question.reminded", "question.escalated") and event.data.id in closed:  # type: ignore[attr-defined]
            raise Violation(f"{event.type} after the end of a question at {event.address}")
        if event.type in CLOSING_TYPES:
            closed.add(event.data.id)  # type: ignore[attr-defined]
        if f";tool:{RING}:" not in event.address:
            continue
        if event.type == "question.asked" and event.data.kind == "permission" and granted:  # type: ignore[attr-defined]
            raise Violation(f"{event.address} asks for what was granted for the run")
        if event.type == "question.answered" and isinstance(content := event.data.content, dict):  # type: ignore[attr-defined]
            granted |= content.get("scope") == "run"


def _check_undone(completed: Set[str], undone: Set[str], effects: Mapping[tuple[str, str], int]) -> None:
    """Check that what the steps of a block did was undone, or told as not undone, if these have not all completed."""
    for _, address in effects:
        around, _, step = address.rpartition(";")
        before, _, name = around.rpartition(";block:")
        block = f"{before};block:{name.partition(';')[0]}"
        if step.startswith(f"step:{UNDONE}") and block not in completed and address not in undone:
            raise Violation(f"{address} was not undone, and its block has not completed")


# Seeds


class _Prepared(NamedTuple):
    generated: Generated
    expected: Outcome


@lru_cache(maxsize=4)
def _begin_undisturbed(written: tuple[int, ...]) -> Simulation:
    simulation = Simulation(write(Choices(written)), Choices([]), disturbed=False)
    simulation.start()
    return simulation


@lru_cache(maxsize=4)
def _prepare(written: tuple[int, ...]) -> _Prepared:
    """Return a blueprint, and what its undisturbed run comes to."""
    simulation = _begin_undisturbed(written)
    return _Prepared(simulation.generated, simulation.finish())


@lru_cache(maxsize=4)
def _expect(text: str, events: tuple[tuple[str, str], ...]) -> Outcome:
    """Return how the undisturbed run of a mended blueprint ends."""
    return Simulation(load(text, events), Choices([]), disturbed=False).run()


def choose_blueprint(seed: int) -> tuple[int, ...]:
    """Return the choices of the blueprint of a seed."""
    choices = Choices(random.Random(f"blueprint {seed // SCHEDULES}"))
    Generator(choices).write()
    return tuple(choices.made)


def forget_prepared() -> None:
    """Forget the runs that were not disturbed, as the product is another one now."""
    _begin_undisturbed.cache_clear()
    _prepare.cache_clear()
    _expect.cache_clear()


_choose = lru_cache(maxsize=4)(lambda number: choose_blueprint(number * SCHEDULES))


def prepare_seed(seed: int) -> tuple[Generated, Outcome]:
    """Return the blueprint of a seed, and how its undisturbed run ends. Raises `Violation` if that breaks a promise."""
    return _prepare(_choose(seed // SCHEDULES))


def is_small(seed: int) -> bool:
    """Return whether the blueprint of a seed is small: its undisturbed run, which a large one does not go on with.

    One that breaks a promise in so few moves is small, too, to be told of.
    """
    try:
        return _begin_undisturbed(_choose(seed // SCHEDULES)).make_moves(SMALL + 1)
    except Violation:
        _begin_undisturbed.cache_clear()  # from its beginning it breaks it again
        return True


def run_seed(seed: int, *, replays: bool = True, chains: bool = True) -> Failure | None:
    """Run the schedule of a seed; return what has failed, if anything has. See `run_choices`."""
    choices = Choices(random.Random(f"schedule {seed}"))
    return run_choices(_choose(seed // SCHEDULES), choices, seed, replays=replays, chains=chains)


def run_choices(
    written: tuple[int, ...], choices: Choices, seed: int | None = None, *, replays: bool = True, chains: bool = True
) -> Failure | None:
    """Run the blueprint and the schedule of these choices; return what has failed, if anything has.

    Args:
        written: The choices of the blueprint.
        choices: Those of the schedule.
        seed: Their seed, if they have one.
        replays: Whether each history is replayed to its end at last.
        chains: Whether runs go on from runs that went on from others, and forks change values.
    """
    try:
        generated, expected = _prepare(written)
    except Violation as violation:
        return Failure(seed, f"undisturbed: {violation}", write(Choices(written)), [], written, [])
    simulation = Simulation(generated, choices, replays=replays, chains=chains)
    try:
        outcome = simulation.run()
        if not (simulation.world.broke or (simulation.world.cancelled and outcome.status == "cancelled")):
            check_same(expected, outcome)
        _go_back(simulation, outcome, expected)
        simulation.discard_ends()
    except Violation as violation:
        return Failure(seed, str(violation), generated, choices.made, written, simulation.moves)
    return None


def _go_back(ended: Simulation, outcome: Outcome, expected: Outcome) -> None:
    """Fork some runs that are complete, and retry some that are not: what goes on from them has the same end."""
    world, choices, generated = ended.world, ended.choices, ended.generated
    past = ended.end
    going, is_retry, unchanged = None, outcome.status != "completed", ended.unchanged
    is_by_itself = outcome.status == "failed" and not world.broke and not world.cancelled
    mended = mend(generated) if is_by_itself else None
    if not is_retry:
        if (
            not world.broke
            and choices.chance(FORKED)
            and (going := choose_fork(past, choices, may_change=ended.chains)) is not None
        ):
            if (ends := _expect_fork(ended, going, expected)) is None:
                return
            expected, unchanged = ends
    elif mended is not None and past.changed is not None:  # nobody knows the end of the mended one with those values
        return
    elif mended is not None:
        generated, expected = mended, _expect(mended.text, mended.events)
        going = choose_retry(past, is_mended=True)
    elif (outcome.status == "failed" and world.broke) or (outcome.status == "cancelled" and choices.chance(RETRIED)):
        going = choose_retry(past, is_mended=False)
    if going is not None:
        ended.moves.append(going.name)
        make_world = partial(World, activities=world.activities if is_retry else None)
        after = replace(
            ended, generated=generated, going=going, make_world=make_world, ends={}, told=(), unchanged=unchanged
        )
        _check_going(ended, after, expected, is_retry=is_retry)


def _expect_fork(ended: Simulation, going: Going, expected: Outcome) -> tuple[Outcome, Outcome | None] | None:
    """Return how a fork ends, and how it would end without the values that it, or one before it, has changed.

    Of changed values that is what the same fork of the undisturbed run comes to; None where that has no such place.
    """
    if going.changed is None:
        return ended.unchanged or expected, None
    if going.changed.fork is not going.past.fork:  # which an earlier one has changed
        return expected, ended.unchanged
    quiet = Simulation(ended.generated, Choices([]), disturbed=False)
    quiet.run()
    if all(event.address != going.changed.fork.address for event in quiet.end.events):
        return None
    forked = replace(quiet, going=fork_at(quiet.end, going.changed.fork), ends={}, told=())
    outcome = forked.run()
    effects = {**dict(expected.effects), **dict(outcome.effects)}
    return outcome._replace(effects=tuple(sorted(effects.items()))), expected


def _check_going(ended: Simulation, after: Simulation, expected: Outcome, *, is_retry: bool) -> None:
    """Run what goes on from an ended run. Raises `Violation` if it has another end than expected."""
    outcome = after.run()
    world = ended.world
    if not (world.cancelled and world.broken_at and may_be_handled(world.broken_at, ended.generated.blueprint)):
        if not (after.world.cancelled or after.world.broke):
            _check_end_of_going(after, outcome, expected, is_retry=is_retry)
        if after.chains:
            _go_back(after, outcome, expected)
    after.discard_ends()


def _check_end_of_going(after: Simulation, outcome: Outcome, expected: Outcome, *, is_retry: bool) -> None:
    is_whole = outcome.status == "completed" and not is_retry
    more = dict(outcome.effects).items() - dict(expected.effects).items() if is_whole else ()
    if outcome[:3] != expected[:3] or more:
        assert after.going is not None
        raise Violation(f"{after.going.name} ends otherwise: {outcome}, not {expected}")


def check_same(expected: Outcome, outcome: Outcome) -> None:
    """Raise `Violation` if a run has ended otherwise than the undisturbed one."""
    # How far what stands beside a failure has come is a matter of the schedule.
    compared = 4 if expected.status == "completed" else 3
    if outcome[:compared] != expected[:compared]:
        raise Violation(f"ends otherwise than undisturbed: {outcome}, not {expected}")


def shrink_failure(failure: Failure) -> Failure:
    """Return a smaller failure: a smaller blueprint, a shorter schedule."""
    written = tuple(failure.written)
    best: Failure | None = None

    def fails(choices: Sequence[int]) -> bool:
        return run_choices(written, Choices(choices)) is not None

    def fails_smaller(choices: Sequence[int]) -> bool:
        nonlocal best
        try:
            found = run_choices(tuple(choices), Choices(failure.made))
        except ValueError:  # no blueprint any more
            return False
        best = found or best
        return found is not None

    written = tuple(shrink(written, fails_smaller, most=100))
    made = shrink(failure.made, fails)
    return run_choices(written, Choices(made)) or failure
