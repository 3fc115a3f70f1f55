"""Questions that MCP servers ask while one of their tools is called: a form to fill in, or a page to open.

Declining and cancelling them are answers of their own, which the server hears.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.parts import Option
from holdfast.blueprint.questions.agreement import agrees
from holdfast.blueprint.questions.choices import OptionsAsked
from holdfast.blueprint.questions.kind import Asked, question_kind

OPENED = [  # made so, they build no model at import
    Option.model_construct(id="yes", label="I have opened it, and am done there"),
    Option.model_construct(id="no", label="I will not open it"),
]


@question_kind
class Elicitation(Asked):
    """A form of an MCP server."""

    kind = "elicitation"
    listed_as = "input"
    tells_refusals = True
    form: JSONObject
    """JSON Schema of the content: an object of plain values."""

    @classmethod
    def held_by(cls, fields: Mapping[str, JSON]) -> JSONObject:
        return {**super().held_by(fields), "form": fields["requestedSchema"]}

    def schema(self) -> JSONObject:
        return self.form

    def yes(self) -> JSON:
        """Return an empty form where it has no fields: it only asks to go on."""
        return None if self.fields else {}

    def read(self, text: str) -> JSON:
        return self.yes() if agrees(text) else None


@question_kind
class OpenLink(OptionsAsked):
    """A page that an MCP server wants a person to open: what is typed there does not pass through Holdfast."""

    kind = "open_link"
    listed_as = "decision"
    consents = True
    tells_refusals = True
    options: list[Option] = OPENED

    @property
    def link(self) -> str | None:
        url = self.info.get("url") if isinstance(self.info, dict) else None
        return url if isinstance(url, str) else None

    def says_no(self, content: object) -> bool:
        return bool(content != self.yes())
