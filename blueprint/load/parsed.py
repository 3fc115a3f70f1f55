"""What came of parsing a document: the blueprint, its problems and warnings, and its positions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from holdfast.blueprint.errors import BlueprintError, Problem
from holdfast.blueprint.kinds import Blueprint
from holdfast.blueprint.plan.document import path_in_plan
from holdfast.blueprint.positions import Parts, find_place, path_text
from holdfast.blueprint.source import PlacedDict


@dataclass(frozen=True)
class Parsed:
    """The outcome of parsing a text: a blueprint that may run if there are no problems."""

    blueprint: Blueprint | None
    problems: list[Problem]
    size: int = 0
    """Its values, with those of its imports."""
    warnings: list[Problem] = field(default_factory=list)
    """Lint warnings; looked for only if there are no problems."""
    core: PlacedDict | None = None
    imports: dict[str, Parsed] = field(default_factory=dict)
    is_plan: bool = False

    def valid(self) -> Blueprint:
        """Return the blueprint. Raises `BlueprintError` with all its problems."""
        if self.blueprint is None or self.problems:
            raise BlueprintError(self.problems)
        return self.blueprint

    def problem(self, path: Parts, code: str, message: str) -> Problem:
        """Return a problem at a path of the blueprint, with its place in the file where it is written."""
        match path:
            case ("imports", str(alias), *inner) if alias in self.imports and self.imports[alias].core is not None:
                problem = self.imports[alias].problem(tuple(inner), code, message)
                return replace(problem, path=path_text(path))
        if self.core is None:
            raise ValueError("nothing was read")
        place = path_text(path)
        return find_place(self.core, path).problem(path_in_plan(place) if self.is_plan else place, code, message)
