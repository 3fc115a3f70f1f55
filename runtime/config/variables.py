"""The HOLDFAST_… variables: overrides of `holdfast.toml`, and a worker's own. An empty one counts as unset."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from holdfast.runtime.config.file import ConfigError
from holdfast.runtime.config.logs import LogFormat, LogLevel
from holdfast.runtime.config.sections import MODULE, MOST_PROCESSES, UNSHOWN, Line, PayloadStore, SecretStore

PREFIX = "HOLDFAST_"


class Variables(BaseModel, frozen=True, extra="forbid", defer_build=True):
    """Settings from the environment: a setting's variable is its name in capitals behind HOLDFAST_."""

    @classmethod
    def read(cls) -> Self:
        """Return the settings of this process's environment. Raises `ConfigError`."""
        values = {name: os.environ.get(f"{PREFIX}{name.upper()}") for name in cls.model_fields}
        try:
            return cls.model_validate({name: value for name, value in values.items() if value})
        except ValidationError as error:
            raise ConfigError("\n".join(map(_problem, error.errors()))) from None


def _problem(detail: ErrorDetails) -> str:
    name = f"{PREFIX}{str(detail['loc'][0]).upper()}"
    if detail["type"] == UNSHOWN:
        return f"{name}: {_message(detail)}"
    text = str(detail["input"])
    return f"{name}={text if text.strip() and text.isprintable() else repr(text)}: {_message(detail)}"


def _message(detail: ErrorDetails) -> str:
    match detail["type"]:
        case "bool_parsing":
            return "must be true or false"
        case "literal_error":
            return f"must be {detail['ctx']['expected']}"
    return detail["msg"]


def _modules(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not all(re.fullmatch(MODULE, name) for name in names):
        raise PydanticCustomError("modules", "must be module names separated by commas")
    return names


def _at_least(least: int, most: int | None = None) -> BeforeValidator:
    bounds = f"{least} or more" if most is None else f"{least} to {most}"

    def number(value: object) -> int:
        if not str(value).isdecimal() or int(str(value)) < least or (most is not None and int(str(value)) > most):
            raise PydanticCustomError("number", "must be a whole number, {bounds}", {"bounds": bounds})
        return int(str(value))

    return BeforeValidator(number)


class Overrides(Variables):
    """The variables that win over `holdfast.toml`, and the one that names the state folder."""

    home: Line | None = None
    task_queue: Line = ""
    imports: Annotated[list[str], BeforeValidator(_modules)] = []
    hold: bool = False
    processes: Annotated[int, _at_least(1, MOST_PROCESSES)] = 1
    payloads: PayloadStore = ""
    secrets: SecretStore = ""


OVERRIDDEN = {
    "task_queue": ("worker", "task_queue"),
    "imports": ("worker", "imports"),
    "hold": ("worker", "hold"),
    "processes": ("worker", "processes"),
    "payloads": ("payloads", "external"),
    "secrets": ("secrets", "store"),
}
"""The section and key of the file that each variable wins over."""


class LogVariables(Variables):
    """The log of a process that is no worker, such as the web server."""

    log_format: LogFormat = "text"
    log_level: LogLevel = "info"


class WorkerSettings(BaseModel, frozen=True, extra="forbid", defer_build=True):
    """The settings of a worker beside its configuration."""

    grace: Annotated[int, _at_least(0)] = 10
    """Seconds that running activities get at shutdown."""
    connect_seconds: Annotated[int, _at_least(0)] = 30
    """Seconds in which a worker that starts tries to reach the server, which may start or restart just then."""
    max_activities: Annotated[int, _at_least(1)] = 100
    max_workflow_tasks: Annotated[int, _at_least(2)] = 10
    """They share one interpreter: with more, none is done sooner, and each comes nearer to the SDK's limit of 2 s."""
    max_cached_workflows: Annotated[int, _at_least(0)] = 1000
    health_port: Annotated[int, _at_least(0, 65535)] = 0
    """0: no health check."""
    metrics_port: Annotated[int, _at_least(0, 65535)] = 0
    """0: no metrics."""
    log_format: LogFormat = "text"
    log_level: LogLevel = "info"
    build_id: Line = ""
    """Turns on worker versioning: the build of `deployment`."""
    deployment: Line = "holdfast"
    versioning: Literal["auto_upgrade", "pinned"] = "auto_upgrade"

    @property
    def version_name(self) -> str:
        """Deployment and build, as people name a version."""
        return f"{self.deployment}/{self.build_id}"


class WorkerVariables(Variables, WorkerSettings):
    """The same, from the environment."""

    inbox_key_file: Path | None = None
    """The file of the key of the embedded set's inbox; the embedded set alone gives it to its worker."""
