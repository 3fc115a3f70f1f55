"""The fuzz run finds nothing in a second, and would find what it is for."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from random import Random

import pytest

from holdfast.blueprint.expressions.bounds import MAX_VALUE
from tests.fuzz.expressions import Verdict, beyond, is_template, judging, smallest
from tests.fuzz.growing import WORLD, Grown, grown
from tests.repository import ROOT

pytestmark = pytest.mark.slow


def test_a_second_of_it_finds_nothing() -> None:
    command = [sys.executable, "-m", "tests.fuzz.expressions", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "gave a value" in done.stdout


def hangs(text: str) -> Verdict:
    time.sleep(60)
    return True, ""


def raises(text: str) -> Verdict:
    return int(text) > 0, ""


def dies(text: str) -> Verdict:
    os.kill(os.getpid(), signal.SIGSEGV)
    return True, ""


@pytest.mark.parametrize(
    ("judge", "most", "told"), [(hangs, 0.5, "takes over 0.5 s"), (raises, 30, "crashes"), (dies, 30, "crashes")]
)
def test_a_hang_and_a_crash_are_found(judge: Callable[[str], Verdict], most: float, told: str) -> None:
    with judging(judge, most) as ask:
        assert told in ask("a")[1]


def test_after_a_crash_the_next_is_judged() -> None:
    with judging(raises, 30) as ask:
        assert ask("a")[1] and ask("1")[:2] == (True, "")


@pytest.mark.parametrize("value", [2**63 + 1, float("nan"), "x" * (MAX_VALUE + 1), [[10**20]], (1,), {1: 2}, object()])
def test_a_value_over_a_bound_is_found(value: object) -> None:
    assert beyond(value)


def test_what_is_only_read_may_be_large() -> None:
    assert [beyond(value) for value in (WORLD["huge"], [WORLD["vast"]], {"a": [1.5, None, True]})] == ["", "", ""]


def test_what_is_wrong_is_made_smaller() -> None:
    source = Grown("{} + {}", (Grown("1"), Grown("[{}, {}]", (Grown("9"), Grown("2")))))
    assert str(smallest(source, lambda text: (True, "wrong" * ("9" in text), 0))) == "9"
    assert str(smallest(source, lambda text: (True, "wrong" * ("+" in text and "9" in text), 0))) == "1 + 9"


def test_a_seed_grows_the_same_again() -> None:
    one, two = ([str(grown(random, 8)) for _ in range(200)] for random in (Random(7), Random(7)))
    assert one == two
    assert 20 < sum(map(is_template, one)) < 180
