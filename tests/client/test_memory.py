"""The questions seen last: in a file that several processes read and write."""

from pathlib import Path

from holdfast.blueprint.questions import Input
from holdfast.client.memory import LARGEST, LARGEST_FILE, LARGEST_QUESTION, QuestionMemory
from tests.client.questions import question

FIRST, SECOND = (question(Input(message=name), f"pipeline:p;hitl:{name}") for name in ("first", "second"))


def test_a_question_is_found_that_another_process_has_seen(tmp_path: Path) -> None:
    ours, other = (QuestionMemory(tmp_path / "seen.json") for _ in range(2))
    ours.keep([FIRST])
    other.keep([SECOND])
    assert (ours.find(SECOND.id), other.of("r")) == (SECOND, [FIRST, SECOND])


def test_the_file_is_written_only_when_something_new_was_seen(tmp_path: Path) -> None:
    memory = QuestionMemory(tmp_path / "seen.json")
    memory.keep([FIRST])
    before = (tmp_path / "seen.json").stat()
    memory.keep([FIRST])
    assert (tmp_path / "seen.json").stat() == before


def test_what_is_written_later_is_found_at_once_and_joins_what_others_wrote(tmp_path: Path) -> None:
    ours, other = (QuestionMemory(tmp_path / "seen.json") for _ in range(2))
    ours.writes_at_once = False
    ours.keep([FIRST])
    other.keep([SECOND])
    assert (ours.find(FIRST.id), ours.find(SECOND.id), other.find(FIRST.id)) == (FIRST, SECOND, None)
    ours.write()
    assert QuestionMemory(tmp_path / "seen.json").of("r") == [SECOND, FIRST]


def test_the_latest_are_kept(tmp_path: Path) -> None:
    memory = QuestionMemory(tmp_path / "seen.json")
    many = [question(Input(message="?"), f"pipeline:p;hitl:q{number}") for number in range(LARGEST + 1)]
    memory.keep(many)
    assert (memory.find(many[0].id), memory.find(many[-1].id)) == (None, many[-1])


def test_no_question_that_is_large_is_kept_and_as_many_others_as_the_file_may_hold(tmp_path: Path) -> None:
    memory = QuestionMemory(tmp_path / "seen.json")
    size = LARGEST_QUESTION - 10_000
    large = [question(Input(message="x" * size), f"pipeline:p;hitl:q{number}") for number in range(90)]
    memory.keep([question(Input(message="x" * LARGEST_QUESTION), "pipeline:p;hitl:too_large"), *large, FIRST])
    assert (tmp_path / "seen.json").stat().st_size <= LARGEST_FILE + 1_000
    kept = QuestionMemory(tmp_path / "seen.json").of("r")
    assert kept[-1] == FIRST
    assert LARGEST_FILE // LARGEST_QUESTION < len(kept) < len(large)
    assert memory.find(large[0].id) == large[0]
