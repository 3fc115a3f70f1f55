"""The base class of steps in which something asks people: a tool, an agent, a clarification, a plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pydantic import Field

from holdfast.blueprint.findings import Findings
from holdfast.blueprint.kinds.base import Step
from holdfast.blueprint.kinds.document import Blueprint
from holdfast.blueprint.kinds.people_lists import check_people, groups_in
from holdfast.blueprint.kinds.template_values import PEOPLE, TemplateForm
from holdfast.blueprint.parts import Requirement, Template
from holdfast.blueprint.words.text import Vocabulary


class AskingStep(Step):
    """A step whose questions are not its own: they come up while it runs."""

    assignees: list[str] | str = Field(
        [],
        description="Who may answer what is asked while the step runs or when it fails: `user:x`, `group:y`, or a "
        "template of a list; default: anyone.",
        examples=[["user:ana", "group:editors"], "{{ context.owners }}"],
    )

    @property
    def asks_people(self) -> bool:
        """False if nothing of the step can ask anybody."""
        return True

    def requires(self) -> Iterator[Requirement]:
        yield from groups_in(self.assignees, "assignees")

    def reads(self) -> Mapping[str, Template]:
        return {**super().reads(), "assignees": self.assignees}

    def template_forms(self) -> Mapping[str, TemplateForm]:
        return {**super().template_forms(), "assignees": PEOPLE}

    def check(self, path: str, blueprint: Blueprint, findings: Findings) -> None:
        super().check(path, blueprint, findings)
        if "assignees" not in self.model_fields_set:
            return
        if not self.asks_people and self.on_error != "ask":
            message = "'assignees' belongs to steps that run an agent, a tool or a graph: nothing else here asks people"
            hint = "remove it, or give it to a hitl step; with on_error: ask they decide about a failure"
            findings.add_key(f"{path}.assignees", "conflict", message, hint)
        check_people(self.assignees, "assignees", f"{path}.assignees", findings)

    def get_assignees(self) -> Sequence[str] | str:
        """See base class."""
        return self.assignees

    def asked_sentence(self, names: Vocabulary) -> str:
        """Return who is asked as a sentence with a space before it; empty if it is anyone."""
        people = self.people(names)
        return f" What it asks goes to {people}." if people else ""
