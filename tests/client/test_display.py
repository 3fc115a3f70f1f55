"""What others wrote is harmless where it is shown: in a terminal, in JSON, in Temporal's UI."""

import asyncio
import io
import json
import sys
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from rich.console import Console
from rich.text import Text

from holdfast.blueprint.parts import Option
from holdfast.blueprint.questions import Decision, Input, Permission
from holdfast.cli.output import json_text, print_text, say
from holdfast.cli.prompts import Terminal
from holdfast.cli.render import question_text, wrap
from holdfast.cli.tables import console, table
from holdfast.protocol.address import Address
from holdfast.protocol.display import clean, code, markdown
from holdfast.protocol.people import People
from holdfast.protocol.questions import QuestionRequest, open_question
from holdfast.protocol.runs import write_summary
from holdfast.protocol.views import RefusedSignal, WorkflowView
from holdfast.workflows.details import write_details
from tests.client.questions import question
from tests.repository import ROOT

HOSTILE = "\x1b]0;title\x07\x9b2J\u202ereversed\u2066\u200f\u2028\n  2  fake"
STEERING = set("\x1b\x07\x9b\u202e\u2066\u200f\u2028\ud800")
MARKDOWN = "![x](http://a.example/p) <img src=http://a.example/q> [go](http://b.example) www.c.example # *now*"


class Screen(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def screened(monkeypatch: pytest.MonkeyPatch) -> Screen:
    """Called in a test, not before it: pytest sets its own streams in between."""
    shown = Screen()
    monkeypatch.setattr(sys, "stdout", shown)
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setenv("NO_COLOR", "1")
    return shown


def test_whatever_is_printed_cannot_steer_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = screened(monkeypatch)
    out = console()
    for text in (HOSTILE + "\ud800", Text(HOSTILE), Text("a ").append(HOSTILE, "bold"), table(("A",), [(HOSTILE,)])):
        out.print(text, style="red")
    print_text(HOSTILE)
    say(HOSTILE)
    print_text(json_text({HOSTILE: HOSTILE}))
    assert len(screen.getvalue()) > 200 and not STEERING & set(screen.getvalue())


def test_a_result_goes_into_a_pipe_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = io.StringIO()
    monkeypatch.setattr(sys, "stdout", pipe)
    print_text("\x1b[1m\u202e")
    assert pipe.getvalue() == "\x1b[1m\u202e\n"


@pytest.mark.slow
@settings(max_examples=30)
@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5))
def test_json_stays_the_same_value(value: Any) -> None:
    assert json.loads(json_text(value)) == value


def test_the_fields_of_a_form_cannot_steer_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = screened(monkeypatch)
    field = {"type": "string", "title": HOSTILE, "description": HOSTILE, "default": HOSTILE}
    form = {"type": "object", "properties": {HOSTILE: {"enum": [HOSTILE]}, "b": field}, "required": [HOSTILE]}
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"x\n/later\n")))
    asyncio.run(Terminal(console(), editing=False).answer(question(Input(message="?", form=form))))
    assert "reversed" in screen.getvalue() and not STEERING & set(screen.getvalue())
    assert "\n  2  fake" not in screen.getvalue()


def test_a_consent_refuses_what_is_no_answer_in_the_words_of_its_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = screened(monkeypatch)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"perhaps\n/later\n")))
    asyncio.run(Terminal(console(), editing=False).answer(question(Permission(message="?"))))
    assert 'say yes, or "no, WHY"' in screen.getvalue()


def test_an_option_is_one_line() -> None:
    asked = question(Decision(message="?", options=[Option(id="a\nb", label=HOSTILE, description="c\nd")]))
    assert len(question_text(asked).plain.splitlines()) == 3


def effects(text: str) -> list[str]:
    """Return the types of everything in the Markdown that is not plain words, code or the frame of them."""
    tokens = [one for block in MarkdownIt("gfm-like", {"linkify": False}).parse(text) for one in (block.children or [])]
    harmless = ("text", "text_special", "code_inline", "softbreak", "hardbreak")
    return [one.type for one in tokens if one.type not in harmless]


def words(text: str) -> str:
    tokens = [one for block in MarkdownIt("gfm-like", {"linkify": False}).parse(text) for one in (block.children or [])]
    return "".join(" " if one.type.endswith("break") else one.content for one in tokens)


@settings(max_examples=30)
@given(st.text(alphabet="ab 1.)-+=#>_*`~![]()<>|&;:/\\@$\"'w\n\t", max_size=40))
def test_markdown_of_others_has_no_effect_and_its_words_stay(text: str) -> None:
    shown = markdown(text)
    tree = MarkdownIt("gfm-like", {"linkify": False}).parse(shown)
    assert {block.type for block in tree} <= {"paragraph_open", "inline", "paragraph_close"}
    assert effects(shown) == []
    assert "".join(words(shown).split()) == "".join(text.split())


@settings(max_examples=30)
@given(st.text(alphabet="ab `\\<\n", max_size=20))
def test_code_of_others_stays_code(text: str) -> None:
    assert effects(f"- {code(text)} label") == []


@settings(max_examples=30)
@given(st.text(alphabet="a`:/![](*é.", min_size=150, max_size=400))
def test_a_summary_that_is_cut_is_whole_markdown(text: str) -> None:
    shown = write_summary(f"x {text}")
    assert effects(shown) == [] and len(shown.encode()) <= 200


def test_temporals_ui_gets_no_image_link_or_html_of_others() -> None:
    asked = Decision(message=MARKDOWN, options=[Option(id="`a", label=MARKDOWN)])
    at = datetime.now(UTC)
    request = QuestionRequest(asked, Address("pipeline:p;hitl:h"), people=People(assignees=[f"user:{MARKDOWN}"]))
    open_ = open_question(request, owner="r", history="h", run="r", round_=1, at=at)
    refused = RefusedSignal(at=at, code="invalid_answer", message=f"{MARKDOWN}\n\n```\n{MARKDOWN}")
    view = WorkflowView.model_construct(
        run="r", blueprint="b", address="pipeline:p", status="waiting", iteration=None, children=[], refused=[refused]
    )
    shown = write_details(view, [open_])
    assert effects(shown) == ["strong_open", "strong_close"]  # the blueprint's name, which is ours
    assert clean(MARKDOWN.split()[0]) in words(shown)


def test_the_commands_print_in_one_place() -> None:
    files = [path for path in (ROOT / "cli").rglob("*.py") if path.name not in ("output.py", "prompts.py")]
    printing = [
        path.name for path in files for line in path.read_text().splitlines() if line.strip().startswith("print(")
    ]
    assert printing == []


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_a_question_is_wrapped_between_words_and_options_are_set_in(columns: int) -> None:
    about = "Wait for Monday and tell the customers beforehand by mail, as we did with the version before that"
    message = "Roll out version 4.2 of the billing service now? " * 4 + "\n- " + "It goes to many customers. " * 8
    asked = question(Decision(message=message, options=[Option(id="wait", label=about, risk="low")]))
    out = Console(file=io.StringIO(), force_terminal=True, width=columns, _environ={"TERM": "xterm"})
    plain, shown = question_text(asked).plain, wrap(question_text(asked), out).plain
    assert max(map(len, shown.splitlines())) <= columns and shown.split() == plain.split()
    option = shown[shown.index("   1  wait") :].splitlines()
    assert len(option) > 1 and all(line.startswith(" " * 12) for line in option[1:])


def test_a_line_with_an_object_is_not_broken_as_it_may_be_copied() -> None:
    out = Console(file=io.StringIO(), force_terminal=True, width=60, _environ={"TERM": "xterm"})
    line = 'args: {"to": "' + "tea and cake " * 9 + '"}'
    assert wrap(Text(f"p · ask\n{line}"), out).plain.splitlines()[1] == line


def test_a_long_address_is_not_broken_and_a_pipe_gets_the_text_as_it_is() -> None:
    url = "https://a.example/" + "x" * 100
    out = Console(file=io.StringIO(), force_terminal=True, width=60, _environ={"TERM": "xterm"})
    assert url in wrap(Text(f"Open {url} now"), out).plain
    assert wrap(Text(f"Open {url} now"), console(io.StringIO())).plain == f"Open {url} now"
