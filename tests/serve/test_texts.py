"""The catalogue of the pages: another language is a file, and every state and every end has words."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from holdfast.client.views.steps import Mark
from holdfast.protocol.events import EVENT_TYPES, QuestionAccepted, QuestionClosed, QuestionEvent, QuestionMet
from holdfast.runtime.config import ConfigError
from holdfast.server.notices.texts import check_texts, choose_language, load_texts
from holdfast.server.web.pages import templating
from holdfast.server.web.pages.templating import LANGUAGES

_USED = re.compile(r"""\bt\(\s*["']([\w.]+)["']\s*[,)]""")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "en.toml").write_text(
        'hello = "Hello {name}"\nbye = "Bye"\n[n]\nx = {one = "a day", other = "{count} days"}'
    )
    (tmp_path / "de.toml").write_text('hello = "Hallo {name}"')
    return tmp_path


def test_a_language_is_a_file(folder: Path) -> None:
    assert load_texts("de", folder)("hello", name="Ana") == "Hallo Ana"


def test_what_a_language_leaves_out_is_shown_in_english(folder: Path) -> None:
    assert load_texts("de", folder)("bye") == "Bye"


def test_own_texts_come_before_ours_and_a_tag_in_any_case(folder: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "pt-BR.toml").write_text('bye = "Tchau"')
    (own / "en.toml").write_text('hello = "Welcome {name}"')
    assert choose_language("pt-br", folder, own) == "pt-BR"
    t = load_texts("pt-BR", folder, own)
    assert [t("bye"), t("hello", name="Ana")] == ["Tchau", "Welcome Ana"]


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("de", 'helo = "Hallo"', "unknown text helo; did you mean hello?"),
        ("de", 'hello = "Hallo {user}"', "hello: unknown name {user}; there are: {name}"),
        ("de", "[n]\nx = {one = '{', other = ''}", "n.x: "),
        ("de", "hello = Hallo", "Invalid value"),
        ("de_AT", "", "the tag of a language"),
    ],
)
def test_own_texts_that_no_page_would_use_are_refused(folder: Path, name: str, text: str, reason: str) -> None:
    own = folder / "own"
    own.mkdir()
    (own / f"{name}.toml").write_text(text)
    with pytest.raises(ConfigError, match=re.escape(reason)):
        check_texts(own, folder)


def test_a_text_that_counts_has_two_forms(folder: Path) -> None:
    t = load_texts("en", folder)
    assert [t("n.x", count=1), t("n.x", count=3)] == ["a day", "3 days"]


@pytest.mark.parametrize(
    ("accepted", "language"), [("de-AT,en;q=0.5", "de"), ("en;q=0.1, de;q=0.9", "de"), ("x;q=y", "en")]
)
def test_the_reader_s_browser_chooses_the_language(folder: Path, accepted: str, language: str) -> None:
    assert choose_language(accepted, folder) == language


def test_every_text_that_a_template_or_page_names_is_there() -> None:
    files = [*templating.FOLDER.rglob("*.html"), *templating.FOLDER.rglob("*.py")]
    used = {key for file in files for key in _USED.findall(file.read_text())}
    assert used
    assert used - load_texts("en", LANGUAGES).entries.keys() == set(), "add them to pages/languages/en.toml"


def test_every_event_of_a_question_has_a_word() -> None:
    words = {type_.partition(".")[2] for type_, data in EVENT_TYPES.items() if issubclass(data, QuestionEvent)}
    missing = {f"runs.event.{word}" for word in words} - load_texts("en", LANGUAGES).entries.keys()
    assert missing == set(), "add them to pages/languages/en.toml"


def test_static_files_have_addresses_that_change_with_them() -> None:
    assert re.fullmatch(r"/static/style\.css\?v=[0-9a-f]{12}", templating._static("style.css"))


TEXTS = load_texts("en", LANGUAGES)
ENDS = [kind.type.removeprefix("question.") for kind in (QuestionAccepted, *QuestionClosed.__subclasses__())]


def test_every_state_of_a_step_has_words() -> None:
    assert [mark for mark in get_args(Mark) if f"runs.status.{mark}" not in TEXTS] == []


def test_every_end_of_a_question_has_words() -> None:
    assert [
        end for end in [*ENDS, QuestionMet.type.removeprefix("question.")] if f"runs.reply_of.{end}" not in TEXTS
    ] == []
    assert [end for end in ENDS if f"closed.how.{end}" not in TEXTS] == []
