"""The error of a faulty expression, and suggestions for misspelt names."""

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice

_SHOWN = 80
_COMPARED = 200


class ExpressionError(ValueError):
    """An author's mistake in an expression or template; `line` counts from 1 inside the text.

    >>> print(ExpressionError("unknown name 'drfat'", "did you mean 'draft'?", "drfat == 1"))
    drfat == 1: unknown name 'drfat' (did you mean 'draft'?)
    """

    def __init__(self, message: str, hint: str | None = None, expression: str = "", line: int | None = None) -> None:
        super().__init__(message, hint, expression, line)
        self.message = message
        self.hint = hint
        self.expression = expression
        self.line = line

    def __str__(self) -> str:
        place = shorten(" ".join(self.expression.split()), _SHOWN)
        if self.line is not None and "\n" in self.expression.strip():
            place += f" line {self.line}"
        text = f"{place}: {self.message}" if place else self.message
        return f"{text} ({self.hint})" if self.hint else text


def nearest(name: str, names: Iterable[str], likeness: float = 0.6) -> str | None:
    """Return the name most similar to this one, or None; `likeness` is from 0 to 1, the same.

    >>> nearest("drfat", ["draft", "input"])
    'draft'
    """
    if len(name) > _SHOWN:
        return None
    candidates = [key for key in islice(names, _COMPARED) if isinstance(key, str) and len(key) <= _SHOWN]
    return next(iter(get_close_matches(name, candidates, n=1, cutoff=likeness)), None)


def did_you_mean(name: str, names: Iterable[str]) -> str | None:
    """Return "did you mean …?" with the most similar name, or None.

    >>> did_you_mean("drfat", ["draft", "input"])
    "did you mean 'draft'?"
    """
    close = nearest(name, names)
    return None if close is None else f"did you mean {close!r}?"


def shorten(text: str, size: int) -> str:
    return text if len(text) <= size else text[: size - 1] + "…"
