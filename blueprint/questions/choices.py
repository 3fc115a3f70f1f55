"""Questions with options: clarifications, decisions, and inputs that offer some."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.parts import Option
from holdfast.blueprint.questions.agreement import agrees, refuses
from holdfast.blueprint.questions.kind import TEXT, Asked, Draft, InvalidAnswer, brief, question_kind, some_text
from holdfast.blueprint.questions.options import fold


class OptionsAsked(Asked):
    """The base class of questions with options."""

    takes_options = True
    options: list[Option] = []
    allow_custom: bool = False
    max_selections: int = 1
    by_index: bool = False
    """True if a number stands for an option too, counted from 0."""

    @classmethod
    def of(cls, draft: Draft) -> Asked:
        fields = {"message": draft.message, "options": list(draft.options), "default": draft.default}
        own = {} if draft.allow_custom is None else {"allow_custom": draft.allow_custom}
        return cls.model_validate({**fields, "max_selections": draft.most, **own})

    @classmethod
    def held_by(cls, fields: Mapping[str, JSON]) -> JSONObject:
        return {**super().held_by(fields), "options": fields.get("options", [])}

    @property
    def choices(self) -> Sequence[Option]:
        return self.options

    @property
    def takes_own_words(self) -> bool:
        return self.allow_custom

    @property
    def most_choices(self) -> int:
        return self.max_selections

    def schema(self) -> JSONObject:
        item = TEXT if self.allow_custom or not self.options else {"enum": [option.id for option in self.options]}
        if self.max_selections == 1:
            return item
        return {"type": "array", "items": item, "minItems": 1, "maxItems": self.max_selections, "uniqueItems": True}

    @property
    def output_schema(self) -> JSONObject:
        only = {} if self.allow_custom or not self.options else {"enum": [option.id for option in self.options]}
        item = {"type": "string", **only}
        return item if self.max_selections == 1 else {"type": "array", "items": item}

    def accept(self, content: object) -> JSON:
        """Return the id of the chosen option, a list of ids, or custom text where that is allowed.

        A label stands for its option.
        """
        if self.max_selections == 1:
            return self._selection(content, "")
        if content == []:
            raise InvalidAnswer(f"choose 1 to {self.max_selections} options")
        if not isinstance(content, list):
            raise InvalidAnswer(f"expected a list of 1 to {self.max_selections} options, got {brief(content)}")
        if len(content) > self.max_selections:
            raise InvalidAnswer(f"at most {self.max_selections} options, got {len(content)}")
        chosen = [self._selection(item, f"[{index}]") for index, item in enumerate(content)]
        for index, item in enumerate(chosen):
            if item in chosen[:index]:
                raise InvalidAnswer(f"{brief(item)} is chosen twice", f"[{index}]")
        return chosen

    def _selection(self, content: object, path: str) -> str:
        # `type`, as True is an instance of int.
        if self.by_index and type(content) is int and 0 <= content < len(self.options):
            named = self._option(str(content))  # an option that is called "2" comes before the one at index 2
            return self.options[content].id if named is None else named.id
        if isinstance(content, str) and (option := self._option(content)):
            return option.id
        if self.allow_custom or not self.options:
            return some_text(content, path)
        ids = ", ".join(option.id for option in self.options)
        raise InvalidAnswer(f"{brief(content)} is not one of the options: {ids}", path)

    def _option(self, text: str) -> Option | None:
        """Return the option with this id or label: an exact match first, then one that ignores case and outer space."""
        for normalize in (str, fold):
            for option in self.options:
                # Compared as it was sent, and never escaped before it is shown: in a peer nobody could choose "Don't"
                # any more.
                if normalize(text) in (normalize(option.id), normalize(option.label)):
                    return option
        return None

    def yes(self) -> JSON:
        return self._only(agrees)

    def no(self, reason: str = "") -> JSON:
        return self._only(refuses)

    def _only(self, says: Callable[[str], bool]) -> JSON:
        """Return the choice of the only option whose id or label says so; None if there is no such one."""
        matches = [option.id for option in self.options if says(option.id) or says(option.label)]
        if len(matches) != 1:
            return None
        return matches[0] if self.max_selections == 1 else matches


@question_kind
class Clarification(OptionsAsked):
    """A question with suggestions, which a person may answer in their own words."""

    kind = "clarification"
    in_steps = "suggestions"
    request = request_to_choose = "asks {who}: {message}"
    offers = "Suggestions"
    allow_custom: bool = True


@question_kind
class Decision(OptionsAsked):
    """A choice between the given options only."""

    kind = "decision"
    in_steps = "a choice"
    consents = True
    needs_options = True


@question_kind
class Extension(Decision):
    """Whether something goes on that otherwise ends, at a limit say: a yes means its first option, which lets it."""

    kind = "extension"
    listed_as = "decision"

    def accept(self, content: object) -> JSON:
        return super().accept(self.read_short(content))

    def yes(self) -> JSON:
        return self.options[0].id

    def no(self, reason: str = "") -> JSON:
        """Return the only other option; None if there are several ways not to go on."""
        return self.options[1].id if len(self.options) == 2 else None

    def read(self, text: str) -> JSON:
        if self._option(text) is not None:
            return None
        return self.yes() if agrees(text) else self.no() if refuses(text) else None


@question_kind
class Choice(OptionsAsked):
    """An `input` that offers options."""

    kind = "choice"
    listed_as = "input"
