"""`holdfast retry` and `fork` on the command line."""

from __future__ import annotations

import yaml

from tests.client.command import Holdfast
from tests.past.runs import ASK, mend
from tests.tools import calls


def test_a_failed_run_goes_on_once_its_cause_is_mended(holdfast: Holdfast) -> None:
    """The permission that was given before is not asked for again."""
    (holdfast.folder / "broken").touch()
    file = holdfast.write("mend.yaml", yaml.safe_dump({"steps": [ASK, mend(holdfast.folder)]}))
    failed = holdfast("run", file, "--id", "breaks", typed="yes\n")
    assert (failed.code, "go on with: holdfast retry breaks" in failed.err) == (1, True)
    (holdfast.folder / "broken").unlink()
    ended = holdfast("retry", "breaks", "--json")
    assert (ended.code, ended.json["run"], ended.json["output"]) == (0, "breaks~2", "mended 1")
    assert "run breaks~2 goes on from breaks, at mend · mend" in ended.err
    again = holdfast("retry", "breaks", "--no-wait", "--json")
    assert again.json == {"run": "breaks~2", "past": "breaks", "at": None, "new": False}
    assert calls(holdfast.folder, "mended") == 1
    assert "retried as breaks~2" in holdfast("show", "breaks").out
    assert holdfast("show", "breaks~2", "--json").json["past"] == "breaks"


def test_what_cannot_be_retried_says_why(holdfast: Holdfast) -> None:
    file = holdfast.write("fine.yaml", "steps: [{name: a, input: done}]")
    assert holdfast("run", file, "--id", "fine").code == 0
    refused = holdfast("retry", "fine")
    assert (refused.code, "fine is complete" in refused.err) == (2, True)


def test_a_fork_begins_in_the_middle_with_another_value(holdfast: Holdfast) -> None:
    """The question before the place is not asked again."""
    said = {"name": "said", "input": "{{ context.word }}"}
    file = holdfast.write("words.yaml", yaml.safe_dump({"context": {"word": "old"}, "steps": [ASK, said]}))
    assert holdfast("run", file, "--id", "words", typed="yes\n").code == 0
    ended = holdfast("fork", "words", "--at", "said", "--set", "word=new", "--id", "other-words", "--json")
    assert (ended.code, ended.json["run"], ended.json["output"]) == (0, "other-words", "new")
    assert "run other-words begins in words, at words · said" in ended.err
    compared = holdfast("diff", "words", "other-words")
    assert (compared.code, "said  output: 'old' → 'new'" in compared.out) == (1, True)
    assert "2 steps alike" not in compared.err and "1 step alike" in compared.err
    assert holdfast("diff", "words", "words", "--json").json == {
        "runs": ["words", "words"],
        "differences": [],
        "alike": 2,
    }
