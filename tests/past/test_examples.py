"""Every example is forked at places of each kind: nothing is called or asked twice, and the end is the same."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import pytest

from holdfast.blueprint.core import write_yaml
from holdfast.blueprint.json_values import JSONObject
from holdfast.client.case_recorder import CaseRecorder, RecordedCase
from holdfast.client.places import PLACES, describe_place
from holdfast.client.run_histories import Histories
from holdfast.client.runs import Runs
from holdfast.client.states import RunState
from holdfast.protocol.address import Address
from holdfast.protocol.past import ResumePoint
from holdfast.runtime.config import load_config
from holdfast.runtime.errors import BadInput
from holdfast.testkit.environment import TestEnvironment
from holdfast.testkit.files import CaseFile, read_cases
from holdfast.testkit.running import CaseRun, run_case
from tests.repository import EXAMPLES
from tests.testkit.conftest import stage

__all__ = ["stage"]
FILES = [path.with_name(f"{path.stem}.test.yaml") for path in EXAMPLES]


REFUSED = r"a run cannot begin inside the (agent|plan|clarify) |has lost its race"
"""What is said of places that no fork begins at."""


@dataclass
class ForkRun(CaseRun):
    """A fork that is attended as a test is."""

    past: str = ""
    at: str = ""
    refused: str = ""

    async def start(self) -> None:
        try:
            await self.runs.fork(self.past, self.at, id=self.run)
        except BadInput as error:
            self.refused = str(error)
            raise


class Made(NamedTuple):
    """A call of a run."""

    address: str
    at: datetime
    """By the clock of the server."""


@dataclass
class Original:
    """A run that is forked, and what it did."""

    runs: Runs
    run: str
    recorder: CaseRecorder
    recorded: RecordedCase
    calls: dict[str, Made]
    """By their ids."""
    places: dict[str, datetime]
    """When it came to each place."""
    times: dict[str, datetime]
    """When something was first told at each address, by the workflow's clock, which a test moves forward."""

    def has_from(self, place: str, address: str, at: datetime) -> bool:
        """Return whether what was called at an address came at a place, or after it."""
        if place.startswith(f"{address};"):  # what a step or an iteration calls comes before its inside, or behind it
            inside = [call.at for call in self.calls.values() if call.address.startswith(f"{address};")]
            return at > min(inside, default=at)
        while address not in self.times:
            address = address.rpartition(";")[0]
        return self.times[address] >= self.places[place]


def choose_places(places: Iterable[str]) -> list[str]:
    """Return one place of each kind (steps in a loop, branches, items of a map): with others before it and behind."""
    kinds: dict[tuple[str, ...], list[str]] = {}
    for place in places:
        kinds.setdefault(tuple(part.partition(":")[0] for part in place.split(";")), []).append(place)
    return [alike[len(alike) // 2] for alike in kinds.values()]


async def read(runs: Runs, state: RunState) -> Original:
    recorder = CaseRecorder(runs.tree, state)
    recorded = await recorder.record("as in the run")
    places: dict[str, datetime] = {}
    times: dict[str, datetime] = {}
    for event in await runs.watch.events(state.run):
        times.setdefault(event.address, event.time)
        if isinstance(event.data, PLACES):
            places.setdefault(event.address, event.time)
    return Original(runs, state.run, recorder, recorded, await read_calls(runs, state.run), places, times)


async def read_calls(runs: Runs, run: str) -> dict[str, Made]:
    """Return the calls of models and tools that stand in the histories of a run, by their ids."""
    histories, made = Histories(runs.tree, run), {}
    async for history in histories.walk():
        for id_, call in history.calls.items():
            # A local call has no request there; its address is in its id.
            request = {"address": call.address} if call.request is None else await histories.decode(call.request)
            if request.get("address"):
                made[id_] = Made(request["address"], call.at)
    return made


def limit(original: Original, fork: ResumePoint) -> JSONObject:
    """Return the run as a test of its fork: what comes from a place on, and nothing of other branches and items."""
    recorder, case = original.recorder, original.recorded.case
    kept = recorder.calls, recorder.answers
    since = original.places[fork.address]
    recorder.calls = [
        call
        for call in kept[0]
        if original.has_from(fork.address, call.address, call.at) and not fork.is_beside(call.address)
    ]
    recorder.answers = [reply for reply in kept[1] if reply.at > since and not fork.is_beside(reply.address)]
    again: JSONObject = {"tools": recorder.write_tools(), "answers": recorder.write_answers()}
    calls = {**dict.fromkeys(case["expect"].get("calls", {}), []), **recorder.expect_calls()}
    recorder.calls, recorder.answers = kept
    end = {key: value for key, value in case["expect"].items() if key not in ("questions", "calls")}
    if not any("cache" in note for note in original.recorded.notes):  # each run of a test has a cache of its own
        end["calls"] = calls
    return {**case, **again, "expect": end}


async def fork_at(place: str, original: Original, stage: TestEnvironment, file: CaseFile, folder: Path) -> list[str]:
    """Fork a run at a place, and return what is wrong with the fork; nothing of one that is refused with its reason."""
    fork = describe_place(original.recorded.blueprint, Address(place))
    written = folder / "fork.test.yaml"
    beside = file.path.with_name(file.path.name.replace(".test.yaml", ".yaml"))
    beside = beside if beside.exists() else beside.with_suffix(".json")
    written.write_text(write_yaml({"blueprint": str(beside), "tests": [limit(original, fork)]}))
    config = load_config(file.path.parent)
    again = replace(read_cases(written, config), path=file.path)
    run = ForkRun(stage, await stage.house(config), again, again.cases[0], past=original.run, at=place)
    differences = await run.differences()
    if run.refused:
        return [] if re.search(REFUSED, run.refused) else [run.refused]
    made = await read_calls(original.runs, run.run)
    before = {
        id_
        for id_, call in original.calls.items()
        if not original.has_from(place, call.address, call.at) or fork.is_beside(call.address)
    }
    return [*map(str, differences), *(f"twice: {made[id_].address}" for id_ in made.keys() & before)]


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.removesuffix(".test.yaml"))
async def test_a_fork_does_nothing_twice(stage: TestEnvironment, path: Path, tmp_path: Path) -> None:
    """Payments, mails and all else that tools do are counted by what the fork's own histories have."""
    file = read_cases(path, load_config(path.parent))
    found: dict[str, list[str]] = {}

    async def observe(runs: Runs, state: RunState) -> None:
        if state.status != "running":
            original = await read(runs, state)
            for place in choose_places(original.places):
                found[place] = await fork_at(place, original, stage, file, tmp_path)

    # The one that completes, if there is one.
    case = min(file.cases, key=lambda case: ["completed", "failed", "waiting", "cancelled"].index(case.status))
    await run_case(stage, file, case, observer=observe)
    assert found
    assert {place: wrong for place, wrong in found.items() if wrong} == {}
