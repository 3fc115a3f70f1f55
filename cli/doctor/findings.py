"""Values of `holdfast doctor`: what a check found."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

from holdfast.blueprint.json_values import JSONObject

Status = Literal["ok", "warning", "fault", "unchecked"]
"""`fault`: runs, answers or the record suffer; `warning`: they will, or may; `unchecked`: something was in the way."""


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    check: str
    """What was checked, such as `retention`: a stable name."""
    status: Status
    message: str
    remedy: str | None = None
    """The way to mend it; None where nothing is wrong."""

    def to_json(self) -> JSONObject:
        """Return it as `doctor --json` prints it."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def make_fault(check: str, error: Exception | str) -> Finding:
    """Return a fault of a message that ends with the way out, as ours do."""
    text = str(error)
    message, _, remedy = text.partition("; ") if "; " in text else text.partition(". ")
    return Finding(check, "fault", message, f"{remedy[:1].upper()}{remedy[1:]}" if remedy else None)
