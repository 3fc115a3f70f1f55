"""`holdfast test --from RUN`: a run becomes a test, which is run at once."""

from __future__ import annotations

import pytest

from tests.client.command import Holdfast, Ran

FLOW = "steps: [{kind: hitl, name: ask, message: Who?}, {name: said, input: 'For {{ steps.ask.output }}'}]"


def write_test(holdfast: Holdfast, *words: str) -> Ran:
    """Run `holdfast test` as a process: it takes the descriptor of standard output for itself."""
    return holdfast.as_process()("test", *words)


@pytest.mark.slow
def test_a_run_becomes_a_test_behind_those_that_are_there(holdfast: Holdfast) -> None:
    holdfast.write("recorded.yaml", FLOW)
    ran = holdfast("run", "recorded.yaml", "--id", "first", typed="Ana\n")
    assert ran.code == 0, ran.err
    written = write_test(holdfast, "recorded.yaml", "--from", "first")
    assert (written.code, "✓ as in first" in written.out) == (0, True), written.err
    assert holdfast("run", "recorded.yaml", "--id", "second", typed="Bo\n").code == 0
    both = write_test(holdfast, "recorded.test.yaml", "--from", "second", "--json")
    assert [test["name"] for test in both.json["tests"]] == ["as in first", "as in second"]
    assert "content: Bo" in (holdfast.folder / "recorded.test.yaml").read_text()
    again = write_test(holdfast, "recorded.test.yaml", "--from", "second")
    assert (again.code, "already" in again.err) == (2, True)


@pytest.mark.slow
def test_a_run_without_a_blueprint_beside_it_says_what_to_name(holdfast: Holdfast) -> None:
    holdfast.write("recorded.yaml", FLOW)
    assert holdfast("run", "recorded.yaml", "--id", "third", typed="Ana\n").code == 0
    refused = write_test(holdfast, "elsewhere/other.yaml", "--from", "third")
    assert (refused.code, "holdfast test FILE --from RUN" in refused.err) == (2, True)


@pytest.mark.slow
def test_a_run_of_another_blueprint_becomes_no_test(holdfast: Holdfast) -> None:
    holdfast.write("one.yaml", FLOW)
    holdfast.write("two.yaml", "steps: [{kind: hitl, name: other, message: Whose?}]")
    assert holdfast("run", "one.yaml", "--id", "of-one", typed="Ana\n").code == 0
    refused = write_test(holdfast, "two.yaml", "--from", "of-one")
    assert (refused.code, "of-one is a run of 'one', and two.yaml is 'two'" in refused.err) == (2, True), refused
    assert not (holdfast.folder / "two.test.yaml").exists()


@pytest.mark.slow
def test_a_test_that_could_not_be_read_is_not_written(holdfast: Holdfast) -> None:
    holdfast.write("wide.yaml", "steps: [{name: one, input: '{{ input | length }}'}]")
    holdfast.write("wide.txt", "x" * 1_200_000)
    assert holdfast("run", "wide.yaml", "--id", "wide", "--input", "@wide.txt").code == 0
    refused = write_test(holdfast, "wide.yaml", "--from", "wide")
    assert (refused.code, "nothing is written" in refused.err) == (2, True), refused
    assert not (holdfast.folder / "wide.test.yaml").exists()


@pytest.mark.slow
def test_a_run_of_a_pipeline_that_python_builds_becomes_a_test(holdfast: Holdfast) -> None:
    text = "with Pipeline('tea') as brew:\n    ask.decision('kind', 'Which?', options=['green', 'black'])"
    holdfast.write("teas.py", f"from holdfast.build import Pipeline, ask\n{text}")
    assert holdfast("run", "teas:brew", "--id", "cup", typed="green\n").code == 0
    written = write_test(holdfast, "teas:brew", "--from", "cup")
    assert (written.code, "✓ as in cup" in written.out) == (0, True), written.err
    assert (holdfast.folder / "brew.test.yaml").read_text().startswith("blueprint: teas:brew\n")


TWICE = """
steps:
  - {kind: hitl, name: ask, message: Who?}
  - {kind: hitl, name: more, message: What more?}
  - {name: said, input: 'For {{ steps.ask.output }}: {{ steps.more.output }}'}
"""


@pytest.mark.slow
def test_a_run_that_went_on_from_another_becomes_a_test_with_the_answers_of_both(holdfast: Holdfast) -> None:
    holdfast.write("both.yaml", TWICE)
    assert holdfast("start", "both.yaml", "--id", "begun").code == 0
    assert holdfast("answer", "begun", "Ana").code == 0
    assert holdfast("cancel", "begun").code == 0
    retried = holdfast("retry", "begun", "--json")
    assert (retried.code, retried.json["status"]) == (3, "waiting"), retried.err
    assert holdfast("answer", "begun~2", "tea").code == 0
    forked = holdfast("fork", "begun~2", "--at", "said", "--json")
    assert forked.code == 0, forked.err
    for run in ("begun~2", forked.json["run"]):
        written = write_test(holdfast, "both.yaml", "--from", run)
        assert (written.code, f"✓ as in {run}" in written.out) == (0, True), written.out + written.err
    text = (holdfast.folder / "both.test.yaml").read_text()
    assert (text.count("content: Ana"), text.count("content: tea")) == (2, 2), text
