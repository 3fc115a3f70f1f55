"""The problems of a blueprint: all of them at once, each with its place and a way out."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Literal


@dataclass(frozen=True)
class Problem:
    """A mistake of the author; `line` and `column` count from 1, and are 0 where a file has no text.

    >>> place = ("brief.yaml", 14, 11, "steps[2].when")
    >>> print(Problem(*place, "unknown_name", "unknown name 'drfat'", "did you mean 'draft'?"))
    brief.yaml:14:11 steps[2].when: unknown name 'drfat' (did you mean 'draft'?)
    >>> print(Problem("brief.yaml", 3, 3, "agents.old", "unused_agent", "nothing uses it", severity="warning"))
    brief.yaml:3:3 agents.old: warning: nothing uses it [unused_agent]
    """

    file: str
    line: int
    column: int
    path: str
    code: str
    message: str
    hint: str | None = None
    severity: Literal["error", "warning"] = "error"
    """A blueprint with an error cannot run; one with a warning can."""

    @property
    def reason(self) -> str:
        """What is wrong and the way out, without the place."""
        return self.message + (f" ({self.hint})" if self.hint else "")

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        location = f"{place} {self.path}" if self.path else place
        text = self.reason
        # A warning shows its code, which is what a comment that silences it has to name.
        return f"{location}: {text}" if self.severity == "error" else f"{location}: warning: {text} [{self.code}]"

    def to_json(self) -> dict[str, str | int | None]:
        return asdict(self)


class BlueprintError(ValueError):
    """The error of a blueprint that cannot run, with all its problems."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = in_order(problems)
        super().__init__("\n".join(map(str, self.problems)))

    def __reduce__(self) -> tuple[type["BlueprintError"], tuple[list[Problem]]]:
        return BlueprintError, (self.problems,)


def in_order(problems: Iterable[Problem]) -> list[Problem]:
    """Return the problems without duplicates, by file, line and column."""
    unique = dict.fromkeys(problems)
    return sorted(
        unique,
        key=lambda problem: (problem.file, problem.line, problem.column, problem.path, problem.code, problem.message),
    )
