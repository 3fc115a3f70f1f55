"""The texts of messages: templates, in the language of whoever reads them. Used for services of Apprise.

A template is a text with a title in its first line. They are looked for as `asked.de.txt`, `asked.txt`,
`notice.de.txt` and `notice.txt`, each in the project's folder first, then in ours.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, FileSystemLoader, StrictUndefined, Template, TemplateError, TemplateSyntaxError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from holdfast.blueprint.json_values import JSONObject
from holdfast.protocol.display import clean, one_line
from holdfast.runtime.config import NOTICE_KINDS, ConfigError
from holdfast.server.notices.notice import OF_RUNS, Contact, Delivery, Notice, NoticeAnswer, NoticeFailure
from holdfast.server.notices.texts import find_nearest_language, list_languages, load_texts, widen_tag

log = logging.getLogger(__name__)

OURS = Path(__file__).parent / "templates"
TEXTS = Path(__file__).parent / "texts"
DIGEST = "digest"
"""The template of a message that tells of many questions."""
LONGEST_TITLE = 150
MOST_SHOWN = 20
"""Questions that a digest shows; the others are counted."""
LONGEST_TEXT = 1_000
"""Characters of a question's message that a notice shows."""


@dataclass(frozen=True)
class NoticeText:
    """A text to send."""

    title: str
    """In one line."""
    body: str


class Messages:
    """Makes the texts of deliveries.

    Args:
        folder: The project's own templates; None for ours alone.
    """

    def __init__(self, folder: Path | None = None) -> None:
        loaders = [FileSystemLoader(place) for place in (folder, OURS) if place]
        self._all, self._ours = _environment(ChoiceLoader(loaders)), _environment(loaders[-1])
        self._folder = folder

    def of(self, delivery: Delivery, locale: str | None = None) -> NoticeText:
        """Return the text of a delivery. A template of the project that fails is left aside, for no notice is lost."""
        try:
            return self._render_delivery(self._all, delivery, locale)
        except TemplateError as error:
            log.warning(
                "a template in %s fails (%s); the notice is sent with Holdfast's own template", self._folder, error
            )
            return self._render_delivery(self._ours, delivery, locale)

    def digest(self, deliveries: Sequence[Delivery], home: str, locale: str | None = None) -> NoticeText:
        """Return one text for many questions, with links to the first of them and to all."""
        rows = [
            {"subject": delivery.notice.subject, "link": delivery.link, "run": delivery.notice.run}
            for delivery in deliveries[:MOST_SHOWN]
        ]
        names = {"count": len(deliveries), "shown": rows, "more": len(deliveries) - len(rows), "home": home}
        try:
            return self._render(self._all, DIGEST, names, locale)
        except TemplateError as error:
            log.warning(
                "a template in %s fails (%s); the notice is sent with Holdfast's own template", self._folder, error
            )
            return self._render(self._ours, DIGEST, names, locale)

    def check(self) -> None:
        """Raise `ConfigError` if the folder is missing, or a template in it cannot be used for a notice."""
        if self._folder is None:
            return
        if not self._folder.is_dir():
            raise ConfigError(f"{self._folder}: no such folder; make it, or correct templates")
        tried = [(delivery.notice.kind, _list_names(delivery)) for delivery in make_samples()]
        several = {"count": 2, "shown": [{"subject": "", "link": "", "run": ""}], "more": 1, "home": ""}
        own = {path.name.split(".")[1] for path in self._folder.glob("*.*.txt")}
        for kind, names in [*tried, (DIGEST, several)]:
            for locale in sorted({*list_languages(TEXTS), *own}):
                self._check_template(kind, names, locale)

    def _check_template(self, kind: str, names: JSONObject, locale: str) -> None:
        place = str(self._folder)
        try:
            template, _ = self._choose_template(self._all, kind, locale)
            place = str(template.filename)
            self._render(self._all, kind, names, locale)
        except TemplateError as error:
            if isinstance(error, TemplateSyntaxError):
                place = f"{error.filename}:{error.lineno}"
            reason = f"{error.message}; for a notice of '{kind}', which has: {', '.join(sorted(names))}"
            raise ConfigError(f"{place}: {reason}") from None

    def _render_delivery(
        self, environment: ImmutableSandboxedEnvironment, delivery: Delivery, locale: str | None
    ) -> NoticeText:
        return self._render(environment, delivery.notice.kind, _list_names(delivery), locale)

    def _render(
        self, environment: ImmutableSandboxedEnvironment, kind: str, names: JSONObject, locale: str | None
    ) -> NoticeText:
        template, language = self._choose_template(environment, kind, locale)
        text = template.render(names, t=load_texts(language, TEXTS))
        title, _, body = clean(text).strip().partition("\n")
        return NoticeText(one_line(title).strip()[:LONGEST_TITLE], f"{body.strip()}\n")

    def _choose_template(
        self, environment: ImmutableSandboxedEnvironment, kind: str, locale: str | None
    ) -> tuple[Template, str]:
        """Return the template for a kind of notice, and the language of the words in it."""
        tags = widen_tag(locale or "")
        stems = (kind,) if kind == DIGEST else (kind, "notice")
        names = [f"{name}{end}.txt" for name in stems for end in (*(f".{tag}" for tag in tags), "")]
        return environment.select_template(names), find_nearest_language(tags, TEXTS)


def _environment(loader: Any) -> ImmutableSandboxedEnvironment:
    return ImmutableSandboxedEnvironment(
        loader=loader, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )


def _list_names(delivery: Delivery) -> JSONObject:
    """Return the names that templates see."""
    notice, contact = delivery.notice, delivery.contact
    question = notice.question or {}
    return {
        "kind": notice.kind,
        "run": notice.run,
        "blueprint": notice.blueprint or notice.run,
        "link": delivery.link,
        "subject": notice.subject,
        "question": question,
        "message": _cut(str(question.get("message", ""))),
        "options": [str(option.get("label") or option["id"]) for option in question.get("options", [])],
        "assignees": question.get("assignees", []),
        "deadline": _show_time(question.get("deadline")),
        "answer": notice.answer,
        "failure": notice.failure,
        "delegated_by": notice.delegated_by,
        "reminder": notice.reminder,
        "unreachable": notice.unreachable,
        "missing": notice.missing,
        "contact": contact,
    }


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT].rstrip()} …"


def _show_time(text: str | None) -> str | None:
    """Return a time in UTC for people: the reader's own time zone is not known."""
    return None if text is None else f"{datetime.fromisoformat(text).astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def make_samples() -> list[Delivery]:
    """Return a delivery of each kind with every part that its kind may have, to try templates with."""
    return [make_sample(kind) for kind in NOTICE_KINDS]


def make_sample(kind: Any, contact: Contact | None = None) -> Delivery:
    """Return a delivery of one kind that tells of no real run."""
    now = datetime.now(UTC)
    question = {
        "id": "0" * 16,
        "address": "pipeline:example;hitl:tone",
        "owner": "example-01",
        "run": "example-01",
        "kind": "decision",
        "message": "Which tone?",
        "options": [{"id": "warm", "label": "Warm"}, {"id": "formal", "label": "Formal"}],
        "asked_at": now.isoformat(),
        "deadline": now.isoformat(),
        "assignees": ["user:ana"],
    }
    notice = Notice(
        kind=kind,
        run="example-01",
        blueprint="example",
        time=now,
        question=None if kind in OF_RUNS else question,
        answer=NoticeAnswer(status="answered", by="user:ana") if kind in ("answered", "accepted", "expired") else None,
        failure=NoticeFailure(type="example", message="An example.") if kind in OF_RUNS else None,
        unreachable=["user:ana"] if kind == "unreachable" else [],
        reminder=1 if kind == "reminded" else None,
    )
    return Delivery("0" * 32, notice, "https://example.com/", contact or Contact("user:ana", instead_of="user:bob"))
