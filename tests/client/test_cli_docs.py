"""The command `docs`: every page of the documentation by its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.client.command import Holdfast


@pytest.fixture
def holdfast(tmp_path: Path) -> Holdfast:
    return Holdfast(tmp_path)


def test_the_pages_are_listed_with_the_questions_they_answer(holdfast: Holdfast) -> None:
    titles = {row["page"]: row["title"] for row in holdfast("docs", "--json").json}
    assert titles["loops"] == "How does a loop with people work?" and "README" not in titles


def test_a_page_is_printed_by_its_name_or_its_file(holdfast: Holdfast) -> None:
    page = holdfast("docs", "loops").out
    assert page.startswith("# How does a loop with people work?") and page == holdfast("docs", "loops.md").out


def test_an_unknown_page_is_refused_with_the_nearest(holdfast: Holdfast) -> None:
    done = holdfast("docs", "loop")
    assert (done.code, "did you mean 'loops'?" in done.err) == (2, True)


def test_a_code_leads_to_what_the_pages_say_of_it(holdfast: Holdfast) -> None:
    rows = {row["page"]: row["text"] for row in holdfast("docs", "tool_input", "--json").json}
    assert rows.keys() == {"failures", "mcp", "validate"}
    assert rows["failures"] == "| `tool_input` | the arguments do not fit what the tool takes |"
    assert "mcp" in holdfast("docs", "tool_error").out and "validate" in holdfast("docs", "unused_revisions").out
