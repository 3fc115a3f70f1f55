"""The tables of `holdfast.toml`: what each key may hold."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)
from pydantic_core import PydanticCustomError

from holdfast.blueprint.durations import seconds_of
from holdfast.blueprint.people import USER, is_person
from holdfast.protocol.door import SizeLimits
from holdfast.protocol.guard import Scope

PLACE = re.compile(r"dir:.+|s3://[a-z0-9][a-z0-9.-]+(/.*)?|gs://[a-z0-9][a-z0-9._-]+(/.*)?|")
STORE = re.compile(r"sqlite:(?!//|:).+|rediss?://[^/?#@\s]+(/\d*)?")

Text = Annotated[str, StringConstraints(min_length=1)]
MODULE = r"^[^\W\d]\w*(\.[^\W\d]\w*)*$"
Module = Annotated[str, StringConstraints(pattern=MODULE)]
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]+$")]
Header = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")]

UNSHOWN: Final = "unshown"
"""The type of errors whose message does not repeat the value, which may be a secret in the wrong place."""


class Section(BaseModel):
    """A table of the file: immutable, and strict about its keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class WorkerSection(Section):
    """`[worker]`: the modules that the worker imports, and its task queue."""

    imports: list[Module] = []
    task_queue: Text = "holdfast"
    hold: bool = False
    """True to start no activity, so that nothing outside is touched; answers and queries are still served."""


def _seconds(value: object) -> float:
    try:
        return seconds_of(value)
    except ValueError:
        raise PydanticCustomError("duration", "must be a duration such as 90, 30s or 1h30m") from None


class ModelSection(Section):
    """`[models.NAME]`: the model that agents refer to by this name."""

    model: Text
    api_key_env: Text | None = None
    base_url: Annotated[str, StringConstraints(pattern=r"^https?://.")] | None = None
    timeout: Annotated[float, BeforeValidator(_seconds)] | None = None
    """Seconds that a request may take; in the file any duration, such as 90 or 1m30s."""


def _variable(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", text):
        raise PydanticCustomError(UNSHOWN, "must be the name of an environment variable, not its value")
    return text


def _endpoint(text: str) -> str:
    if not re.fullmatch(r"https?://[^/?#@\s]+([/?#]\S*)?", text):
        raise PydanticCustomError(UNSHOWN, "must be an http:// or https:// URL, without user or password")
    return text


Variable = Annotated[str, AfterValidator(_variable)]


def _member(text: str) -> str:
    if not (text.startswith(USER) and is_person(text)):
        raise PydanticCustomError("member", 'must be "user:NAME": a group holds users')
    return text


Member = Annotated[str, AfterValidator(_member)]


class McpSection(Section):
    """`[mcp.NAME]`: an MCP server, whose tools agents name as `mcp:NAME`: a command to start, or a URL."""

    command: Annotated[list[Text], Field(min_length=1)] | None = None
    url: Annotated[str, AfterValidator(_endpoint)] | None = None
    env: list[Variable] = []
    """Variables of the worker's environment that are passed to the command."""
    headers_env: dict[Header, Variable] = {}
    """Headers for the URL, each with the variable that holds its value."""

    @model_validator(mode="after")
    def _either(self) -> McpSection:
        if (self.command is None) == (self.url is None):
            raise PydanticCustomError(UNSHOWN, 'must have either command = ["…"] or url = "…"')
        if self.url is not None and self.env:
            raise PydanticCustomError(UNSHOWN, "must have headers_env in place of env: the server is a URL")
        if self.command is not None and self.headers_env:
            raise PydanticCustomError(UNSHOWN, "must have env in place of headers_env: the server is a command")
        return self


class KeySection(Section):
    """An entry of `[answers] keys`: a key, the identity that it proves, and its scopes."""

    id: Name
    env: Variable
    proves: Literal["client", "person"] = "client"
    scope: Annotated[list[Scope], Field(min_length=1)] = ["answer", "steer"]


class AnswersSection(Section):
    """`[answers]`: if there is a key, every answer and every command needs a token made with one."""

    key_env: Text | None = None
    """The short form of one key, with all scopes, that proves a client."""
    keys: list[KeySection] = []

    @model_validator(mode="after")
    def _distinct(self) -> AnswersSection:
        ids = [key.id for key in self.keys]
        if len(set(ids)) < len(ids):
            raise PydanticCustomError(UNSHOWN, "must have keys of different ids")
        if self.keys and self.key_env is not None:
            raise PydanticCustomError(UNSHOWN, "must have either keys or key_env; remove one of them")
        return self


def _place(text: str) -> str:
    if not PLACE.fullmatch(text):
        places = 'must be dir:PATH, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, or "" to keep every value in Temporal'
        raise PydanticCustomError("place", places)
    return text


PayloadStore = Annotated[str, AfterValidator(_place)]


class PayloadsSection(Section):
    """`[payloads]`: the store for large values; None means a folder of the embedded server, or no store elsewhere."""

    external: PayloadStore | None = None


def _store(text: str) -> str:
    if not STORE.fullmatch(text):
        way_out = "must be sqlite:PATH or redis://HOST:PORT/DB; a URL with a password goes into the variable of url_env"
        raise PydanticCustomError(UNSHOWN, way_out)
    return text


class CacheSection(Section):
    """`[cache]`: the store for results of `cache` steps; by default a file in the state folder."""

    store: Annotated[str, AfterValidator(_store)] | None = None
    url_env: Variable | None = None
    """The variable that holds the URL of a Redis with a password."""

    @model_validator(mode="after")
    def _one(self) -> CacheSection:
        if self.store is not None and self.url_env is not None:
            raise PydanticCustomError(UNSHOWN, "must have either store or url_env; remove one of them")
        return self


def _folder(text: str) -> str:
    if not re.fullmatch(r"dir:.+", text):
        raise PydanticCustomError(UNSHOWN, "must be dir:PATH, a folder that clients and workers share")
    return text


SecretStore = Annotated[str, AfterValidator(_folder)]


class SecretsSection(Section):
    """`[secrets]`: the store for answers to `ask: secret`; for None see `PayloadsSection`."""

    store: SecretStore | None = None
    env: list[Variable] = []
    """Variables of the worker's environment that an answer may refer to, as `secret:env/NAME`."""


class File(Section):
    """The contents of `holdfast.toml`."""

    worker: WorkerSection = WorkerSection()
    models: dict[str, ModelSection] = {}
    mcp: dict[Name, McpSection] = {}
    groups: dict[str, list[Member]] = {}
    answers: AnswersSection = AnswersSection()
    payloads: PayloadsSection = PayloadsSection()
    cache: CacheSection = CacheSection()
    secrets: SecretsSection = SecretsSection()
    limits: SizeLimits = SizeLimits()
    """Size limits of answers, inputs, tool results and model replies."""
