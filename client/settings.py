"""Settings that HOLDFAST_… variables give to a worker: how much it does at a time, its shutdown, health and version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from holdfast.client.config import ConfigError


def _at_least(least: int) -> BeforeValidator:
    def number(value: object) -> int:
        if not str(value).isdecimal() or int(str(value)) < least:
            raise PydanticCustomError("number", "must be a whole number, {least} or more", {"least": least})
        return int(str(value))

    return BeforeValidator(number)


class WorkerSettings(BaseModel):
    """The settings of a worker. A setting's variable is its name in capitals behind HOLDFAST_."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    grace: Annotated[int, _at_least(0)] = 10
    """Seconds that running activities get at shutdown."""
    max_activities: Annotated[int, _at_least(1)] = 100
    max_workflow_tasks: Annotated[int, _at_least(2)] = 10
    """They share one interpreter: with more, none is done sooner, and each comes nearer to the SDK's limit of 2 s."""
    max_cached_workflows: Annotated[int, _at_least(0)] = 1000
    health_port: Annotated[int, _at_least(0)] = 0
    """0: no health check."""
    build_id: str = ""
    """Turns on worker versioning: the build of `deployment`."""
    deployment: str = "holdfast"
    versioning: Literal["auto_upgrade", "pinned"] = "auto_upgrade"

    @staticmethod
    def of(environment: Mapping[str, str]) -> WorkerSettings:
        """Return the settings of these variables; an empty one counts as unset. Raises `ConfigError`."""
        variables = {name: environment.get(_variable(name)) for name in WorkerSettings.model_fields}
        try:
            return WorkerSettings.model_validate({name: value for name, value in variables.items() if value})
        except ValidationError as error:
            raise ConfigError("\n".join(_problem(detail) for detail in error.errors())) from None

    @property
    def version_name(self) -> str:
        """Deployment and build, as people name a version."""
        return f"{self.deployment}/{self.build_id}"


def _variable(name: str) -> str:
    return f"HOLDFAST_{name.upper()}"


def _problem(error: ErrorDetails) -> str:
    expected = error["ctx"]["expected"] if error["type"] == "literal_error" else None
    message = f"must be {expected}" if expected else error["msg"]
    return f"{_variable(str(error['loc'][0]))}={error['input']}: {message}"
