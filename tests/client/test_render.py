"""Runs and questions as text for people."""

import io
import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from rich.text import Text

from holdfast.blueprint.questions import Input, OpenLink, Permission
from holdfast.cli.render import (
    Extract,
    answer_command,
    event_text,
    failure_text,
    question_text,
    tree_text,
    usage_text,
    waiting_text,
)
from holdfast.cli.tables import console, table
from holdfast.client.event_texts import progress
from holdfast.client.texts import preview
from holdfast.client.trace import Repetition, Span, build_trace, view
from holdfast.protocol.address import Address
from holdfast.protocol.children import Failure
from holdfast.protocol.events import Event
from holdfast.protocol.usage import Usage
from tests.client.questions import ACTION, decision, question


def event(type_: str, address: str = "pipeline:p;loop:l:2;step:s", **data: Any) -> Event:
    return Event(offset=7, time=datetime.now(UTC), type=type_, address=Address(address), data=data)


def plain(text: Text | None) -> str | None:
    return None if text is None else text.plain


def test_a_question_shows_place_message_and_numbered_options() -> None:
    shown = question_text(decision(message="Which\x1b[2J?")).plain
    assert shown.splitlines() == ["p · tone", "Which\ufffd[2J?", "   1  a  Alpha", "   2  b  Beta, too", "   3  1  One"]


def test_a_question_that_is_asked_again_is_shown_once() -> None:
    asked = Input(message="Which account?", info="Which account?").give_back("abc is no account number")
    assert question_text(question(asked)).plain.count("Which account?") == 1


def test_a_page_to_open_is_shown_in_full() -> None:
    url = f"https://pay.example/{'a' * 400}"
    asked = OpenLink(message="Pay.", info={"host": "pay.example", "url": url})
    assert question_text(question(asked)).plain.count(url) == 1


def test_a_form_that_waits_is_listed_with_its_fields() -> None:
    days = {"type": "integer", "title": "How many days?"}
    fields = {"days": days, "hotel": {"type": "boolean", "default": False}, "why": {"type": "string"}}
    asked = question(Input(message="?", form={"type": "object", "required": ["days"], "properties": fields}))
    listed = ["  days: How many days? (integer)", "  hotel (yes | no; default: no)", "  why (optional)"]
    assert waiting_text([asked]).plain.splitlines()[2:5] == listed
    assert len(waiting_text([question(Permission(message="?"))]).plain.splitlines()) == 3


def test_the_command_that_answers_fits_the_question() -> None:
    asked = question(Input(message="?"))
    assert answer_command(asked) == f"holdfast answer r {asked.id} VALUE"
    form = question(Input(message="?", form={"type": "object"})).model_copy(update={"run": "my run"})
    assert answer_command(form) == f"holdfast answer 'my run' {form.id} --content JSON"
    fields = {"type": "object", "properties": {"city": {}, "it's": {}}}
    named = question(Input(message="?", form=fields))
    assert answer_command(named).endswith("""--content '{"city": …, "it'"'"'s": …}'""")
    assert answer_command(question(Permission(message="?"))).endswith("yes  # or 'no, WHY'")
    word = question(Input(message="?", form=ACTION))
    assert answer_command(word) == f"holdfast answer r {word.id} VALUE  # retry, abort, or a JSON object"


@pytest.mark.parametrize(
    ("happened", "line"),
    [
        (event("loop.iteration", "pipeline:p;loop:l:2", iteration=2), "l 2"),
        (event("loop.iteration", "pipeline:p;loop:l:2", iteration=2, item={"a": 1}), 'l 2: {"a":1}'),
        (event("cache.hit", "pipeline:p;cache:rate", key="k"), "✓ rate  from the cache"),
        (event("step.skipped", name="s", kind="step", reason="condition_false"), "  · s skipped: condition_false"),
        (
            event("plan.revised", "pipeline:p;plan:go", revision=2, by="user:ana", reason="late\nguests"),
            "↻ go is at revision 2  user:ana  late guests",
        ),
        (event("plan.completed", "pipeline:p;plan:go", status="completed_with_errors"), "go: completed_with_errors"),
        (event("plan.completed", "pipeline:p;plan:go", status="completed"), None),
        (event("plan.completed", "pipeline:p;plan:go", status="completed", note="no tool ran"), "go: no tool ran"),
        (event("step.completed", name="s", kind="step", output={"a": 1}), '  ✓ s  {"a":1}'),
        (event("step.completed", name="s", kind="hitl", output="x"), None),
        (event("step.failed", name="s", kind="step", error="bad", message="bad\nluck"), "  ✗ s  bad luck"),
        (event("step.retrying", tool="post\n2", instead_of="send"), "  ↻ post 2 is called in place of send"),
        (event("step.retrying", tool="send", error="http_500", message="down"), "  ↻ s is tried again"),
        (event("question.answered", id="q", content="x", by="user:ana"), "  ← s  'x'  user:ana"),
        (event("model.requested", model="echo"), None),
        (event("of.a.newer.version", model="echo"), None),
    ],
)
def test_progress_tells_what_a_person_wants_to_know(happened: Event, line: str | None) -> None:
    assert plain(progress(happened)) == line


LARGE = {"a": ["tea " * 30, {"b\x1b": "x" * 300}], "short": [1, 2]}


def below(text: Text) -> dict[str, Any]:
    """Read the data of an event from the lines below its first one."""
    keys = re.split(r"^ {8}(\w+): ", text.plain.partition("\n")[2], flags=re.MULTILINE)[1:]
    return {key: json.loads(value) for key, value in zip(keys[::2], keys[1::2], strict=True)}


def test_every_event_has_a_line() -> None:
    assert "tool.called" in event_text(event("tool.called", tool="search"), None).plain
    newer = event_text(event("of.a.newer.version", depth=[1]), None).plain
    assert newer.endswith('p · l 2 · s  {"depth":[1]}')
    assert "of.a.newer.version" in newer


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_a_terminal_shows_the_whole_data_of_an_event_to_be_copied(columns: int) -> None:
    shown = event_text(event("of.a.newer.version", output=LARGE, name="s" * 90), columns)
    assert below(shown) == {"output": LARGE, "name": "s" * 90}
    assert all(len(line) <= columns or line.strip().count('"') <= 4 for line in shown.plain.splitlines())


def test_a_short_event_stays_in_one_line_of_a_terminal_and_a_long_one_in_a_pipe() -> None:
    assert "\n" not in event_text(event("tool.called", tool="search"), 80).plain
    whole = event_text(event("of.a.newer.version", output=LARGE), None).plain
    assert json.loads(whole[whole.index("{") :]) == {"output": LARGE} and "\n" not in whole


def test_an_id_in_a_table_is_whole_in_a_terminal_that_is_narrower() -> None:
    assert table(("RUN", "STATUS"), [("r" * 90, "running")], room=60).plain.splitlines()[2:] == ["r" * 90, "  running"]


def test_only_the_last_column_of_a_table_is_cut() -> None:
    assert table(("A", "B"), [("long-id", "m" * 50)], room=40).plain.splitlines() == [
        "A        B",
        "long-id  mmmmmmmmmmmmmmmmmmmmmmmmmmmmmm…",
    ]


@pytest.mark.parametrize(("room", "lines"), [(60, 2), (80, 2), (120, 1)])
def test_in_a_narrow_terminal_a_row_takes_several_lines_and_shows_every_column(room: int, lines: int) -> None:
    row = (
        "brief-cae74e61",
        "9b0c9ad9ff4ac7d2",
        "clarify (12)",
        "3 min ago",
        "user:ana, group:editors",
        "Is it so? " * 9,
    )
    shown = table(("RUN", "QUESTION", "STEP", "SINCE", "FOR", "MESSAGE"), [row], room).plain
    assert all(cell[:30].strip() in shown for cell in row)
    assert (len(shown.splitlines()), max(map(len, shown.splitlines())) <= room) == (2 * lines, True)


def test_a_tree_shows_the_last_iterations_of_a_loop() -> None:
    step = Span("s", "step", "pipeline:p;loop:l:1;step:s", "completed", output=1)
    loop = Span("l", "loop", "pipeline:p;loop:l", "running", iterations_left_out=4)
    loop.iterations = [Repetition(n, [step]) for n in range(5, 8)]
    lines = tree_text([view(loop)], Extract(last=1)).plain.splitlines()
    assert lines == ["  ▸ l (loop)", "    … 6 earlier ones: --all", "    7", "      ✓ s  1"]


@pytest.mark.parametrize(("total", "line"), [(3, "0 of 3 done"), (None, "0 of 2 done")])
def test_the_items_of_a_map_are_counted_as_they_are_done(total: int | None, line: str) -> None:
    items = [Repetition(n, [], item=f"city {n}") for n in range(2)]
    each = Span("each", "map", "pipeline:p;map:each", "running", items=items, total=total)
    assert tree_text([view(each)]).plain.splitlines()[0] == f"  ▸ each (map)  {line}"


def test_a_tree_of_a_plan_shows_titles_items_reasons_and_how_it_ended() -> None:
    plan, loop, item = "pipeline:p;plan:go", "pipeline:p;plan:go;loop:l", "pipeline:p;plan:go;loop:l:1"
    events = [
        event("step.started", plan, name="go", kind="plan"),
        event("step.started", f"{plan};step:1", name="1", kind="step", title="List"),
        event("step.completed", f"{plan};step:1", name="1", kind="step", output="a"),
        event("step.started", loop, name="l", kind="loop"),
        event("loop.iteration", item, iteration=1, item="ana"),
        event("step.skipped", f"{item};hitl:2", name="2", kind="hitl", reason="condition_false"),
        event("step.completed", loop, name="l", kind="loop", output="completed_with_errors"),
        event("step.failed", f"{plan};step:3", name="3", kind="step", error="condition_type", message="no number"),
        event("plan.revised", plan, revision=2, by="user:ana"),
        event("plan.completed", plan, status="completed_with_errors"),
        event("step.completed", plan, name="go", kind="plan", output={}),
    ]
    trace = build_trace(events, name="p", address="pipeline:p", status="completed")
    assert tree_text(view(trace).steps).plain.splitlines() == [
        "  ✓ go (plan)  completed_with_errors  revision 2  user:ana",
        "    ✓ 1 List  'a'",
        "    ✓ l (loop)  'completed_with_errors'",
        "      1: 'ana'",
        "        · 2  condition_false",
        "    ✗ 3  no number",
    ]


def test_a_failed_plan_is_told_with_how_its_steps_ended() -> None:
    steps = {
        "1": {"status": "completed"},
        "2": {"status": "skipped", "reason": "declined"},
        "3": {"status": "completed"},
    }
    error = Failure(type="plan_failed", message="no", output={"status": "failed", "steps": steps, "loops": {}})
    assert (
        failure_text("r", "failed", error)
        == "run r failed: no\n  plan_failed\n  completed: 1, 3\n  skipped: 2 (declined)"
    )
    other = error.model_copy(update={"output": "a text"})
    assert failure_text("r", "failed", other) == f"run r failed: no\n  {other.type}"


@pytest.mark.parametrize(
    ("type_", "end"),
    [
        ("tool_error", "holdfast retry r"),
        ("expression_error", "holdfast retry r --blueprint FILE"),
        ("output_invalid", "holdfast retry r [--blueprint FILE]"),
        ("limit_reached", "holdfast retry r --blueprint FILE"),
        ("bad_options", "holdfast retry r --blueprint FILE"),
    ],
)
def test_what_only_another_blueprint_mends_says_so(type_: str, end: str) -> None:
    error = Failure(type=type_, message="no", address="pipeline:p/step:a")
    assert failure_text("r", "failed", error).endswith(f"go on with: {end}")


def test_nothing_is_wrapped_or_coloured_outside_a_terminal() -> None:
    out = io.StringIO()
    console(out).print(Text("x" * 500, "bold red"))
    assert out.getvalue() == "x" * 500 + "\n"
    assert preview("a\nb\x07") == r"'a\nb\x07'"


def test_a_tree_tells_what_came_from_the_cache() -> None:
    hit = Span("rate", "cache", "pipeline:p;cache:rate", "completed", output=2)
    inner = Span("w", "step", "pipeline:p;cache:rate;step:w", "completed", output=2)
    trace = Span("p", "pipeline", "pipeline:p", "completed", steps=[hit, replace(hit, steps=[inner])])
    shown = tree_text(view(trace).steps).plain
    assert shown.splitlines() == ["  ✓ rate (from the cache)  2", "  ✓ rate (cache)  2", "    ✓ w  2"]


def test_a_tree_says_which_steps_were_superseded() -> None:
    lost = Span("ask", "hitl", "pipeline:p;hitl:ask", "superseded")
    shown = tree_text(view(Span("p", "pipeline", "pipeline:p", "completed", steps=[lost])).steps).plain
    assert shown.splitlines() == ["  · ask  superseded"]


def test_one_is_told_as_one() -> None:
    assert usage_text(Usage(requests=1, input_tokens=1)) == "1 model request, 1 token"
    assert usage_text(Usage(requests=2)) == "2 model requests, 0 tokens"
    done = event("loop.completed", "pipeline:p;loop:l", iterations=1, reason="condition")
    assert plain(progress(done)) == "l: 1 iteration, condition"


def test_a_long_cell_in_a_pipe_makes_no_other_line_long() -> None:
    rows = table(("QUESTION", "ANSWER"), [("Well?" * 40, "yes"), ("Now?", "no")]).plain.splitlines()
    assert rows[1].endswith("?  yes") and rows[2] == "Now?".ljust(42) + "no"
