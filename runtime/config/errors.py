"""The error of a configuration that cannot be used."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.blueprint.errors import Problem

CODE = "config_invalid"
"""The code of a problem of the configuration, as commands have it in JSON."""


class ConfigError(ValueError):
    """A configuration that cannot be used. The message has a line for each problem: place, key and way out."""

    def __init__(self, message: str, problems: Sequence[Problem] = ()) -> None:
        super().__init__(message)
        self._problems = list(problems)

    @property
    def problems(self) -> list[Problem]:
        """The problems as values; those of the environment have no place in a file."""
        lines = str(self).splitlines()
        return self._problems or [Problem("configuration", 0, 0, "", CODE, line) for line in lines]
