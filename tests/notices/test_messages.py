"""The texts of messages: languages, templates of the project, what they may not do."""

from __future__ import annotations

import logging
import re
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.runtime.config import NOTICE_KINDS, ConfigError
from holdfast.server.notices.messages import TEXTS, Messages, make_sample, make_samples
from holdfast.server.notices.texts import list_languages


@pytest.mark.parametrize("locale", list_languages(TEXTS))
def test_every_notice_has_a_title_and_the_link_once(locale: str) -> None:
    for delivery in make_samples():
        message = Messages().of(delivery, locale)
        assert message.title and "\n" not in message.title
        assert message.body.count(delivery.link) == 1


def test_every_catalogue_has_the_same_keys_and_places() -> None:
    def places(language: str) -> dict[str, list[str]]:
        text = (TEXTS / f"{language}.toml").read_text()
        return {
            key: sorted(re.findall(r"\{(\w+)\}", value)) for key, value in re.findall(r'^(\w+) = "(.*)"', text, re.M)
        }

    assert all(places(language) == places("en") for language in list_languages(TEXTS))


@pytest.mark.parametrize(
    ("locale", "title"),
    [
        ("de-AT", "Eine Frage an Sie: Which tone?"),
        ("xx", "A question for you: Which tone?"),
        (None, "A question for you: Which tone?"),
    ],
)
def test_a_message_is_in_the_language_of_its_reader(locale: str | None, title: str) -> None:
    assert Messages().of(make_sample("asked"), locale).title == title


def test_a_template_of_the_project_wins_for_its_kind_and_language(tmp_path: Path) -> None:
    (tmp_path / "asked.de.txt").write_text("Na? {{ message }}\n{{ link }}\n")
    (tmp_path / "notice.txt").write_text("{{ kind }}!\n")
    messages = Messages(tmp_path)
    messages.check()
    titles = [messages.of(make_sample(kind), "de").title for kind in ("asked", "reminded")]
    assert (titles, messages.of(make_sample("asked")).title) == (["Na? Which tone?", "reminded!"], "asked!")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{{ titel }}", "asked.fr.txt.*'titel' is undefined"),
        ("a\n{% if %}", r"asked.fr.txt:2: Expected an expression"),
        ("{{ ''.__class__.__mro__ }}", "asked.fr.txt.*unsafe"),
    ],
)
def test_a_bad_template_is_found_before_it_is_needed(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "asked.fr.txt").write_text(text)
    with pytest.raises(ConfigError, match=problem):
        Messages(tmp_path).check()


def test_a_template_that_fails_loses_no_notice(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "asked.txt").write_text("{{ question.nothing.of_it }}")
    with caplog.at_level(logging.WARNING):
        assert Messages(tmp_path).of(make_sample("asked")).title == "A question for you: Which tone?"
    assert str(tmp_path) in caplog.text


def test_a_message_cannot_steer_a_screen_or_hide_its_end() -> None:
    delivery = make_sample("asked")
    question = {**(delivery.notice.question or {}), "message": "a\x1b[2J\u202eb" + "x" * 5_000}
    message = Messages().of(replace(delivery, notice=delivery.notice.model_copy(update={"question": question})))
    assert not re.search("[\x1b\u202e]", message.title + message.body)
    assert len(message.title) <= 150 and len(message.body) < 2_000


def test_samples_have_every_kind() -> None:
    assert [delivery.notice.kind for delivery in make_samples()] == list(NOTICE_KINDS)


@pytest.mark.parametrize(("locale", "title"), [(None, "30 questions for you"), ("de", "30 Fragen an Sie")])
def test_a_digest_shows_the_first_and_counts_the_others(locale: str | None, title: str) -> None:
    deliveries = [replace(make_sample("asked"), link=f"https://inbox/{number}") for number in range(30)]
    text = Messages().digest(deliveries, "https://inbox/home", locale)
    assert (text.title, "https://inbox/19\n" in text.body, "https://inbox/20" in text.body) == (title, True, False)
    assert "10 " in text.body and "https://inbox/home" in text.body
