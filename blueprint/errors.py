"""What is wrong with a blueprint: every problem at once, each with its place and a way out."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Literal


@dataclass(frozen=True)
class Problem:
    """One mistake of the author; `line` and `column` count from 1, and are 0 where a file has no text.

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

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        where = f"{place} {self.path}" if self.path else place
        told = self.message + (f" ({self.hint})" if self.hint else "")
        # A warning shows its code, which is what a comment that silences it has to name.
        return f"{where}: {told}" if self.severity == "error" else f"{where}: warning: {told} [{self.code}]"

    def to_json(self) -> dict[str, str | int | None]:
        return asdict(self)


class BlueprintError(ValueError):
    """A blueprint that cannot run, with everything that was found."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = in_order(problems)
        super().__init__("\n".join(map(str, self.problems)))

    def __reduce__(self) -> tuple[type["BlueprintError"], tuple[list[Problem]]]:
        return BlueprintError, (self.problems,)


def in_order(problems: Iterable[Problem]) -> list[Problem]:
    """Each once, by file, line and column."""
    unique = dict.fromkeys(problems)
    return sorted(unique, key=lambda one: (one.file, one.line, one.column, one.path, one.code, one.message))
