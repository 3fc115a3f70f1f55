"""The configuration, from `holdfast.toml` and the environment; commands and workers load it.

The file is looked for in the current folder and its parents. Environment variables win; an empty one counts as unset:

`HOLDFAST_HOME`        the embedded server's state folder
`HOLDFAST_TASK_QUEUE`  `[worker] task_queue`
`HOLDFAST_IMPORTS`     `[worker] imports`, separated by commas
`HOLDFAST_HOLD`        `[worker] hold`: true or false
`HOLDFAST_PAYLOADS`    `[payloads] external`
`HOLDFAST_SECRETS`     `[secrets] store`
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails, PydanticCustomError

from holdfast.blueprint.durations import seconds_of
from holdfast.blueprint.people import USER, is_person
from holdfast.protocol.door import SizeLimit, SizeLimits
from holdfast.protocol.guard import Key, Scope

FILE_NAME = "holdfast.toml"
LATER_KEYS = (["payloads", "encryption_key_env"],)
"""Keys that are reserved and not supported in this version."""
PLACE = re.compile(r"dir:.+|s3://[a-z0-9][a-z0-9.-]+(/.*)?|gs://[a-z0-9][a-z0-9._-]+(/.*)?|")
PLACES: Final = 'must be dir:PATH, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, or "" to keep every value in Temporal'
SECRET_STORES: Final = "must be dir:PATH, a folder that clients and workers share"
STORE = re.compile(r"sqlite:(?!//|:).+|rediss?://[^/?#@\s]+(/\d*)?")

Text = Annotated[str, StringConstraints(min_length=1)]
Module = Annotated[str, StringConstraints(pattern=r"^[^\W\d]\w*(\.[^\W\d]\w*)*$")]
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]+$")]
Header = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")]

KEY_ID = "default"
"""The id of the key that `key_env` names."""
UNSHOWN: Final = "unshown"
"""The type of errors whose message does not repeat the value, which may be a secret in the wrong place."""


class ConfigError(ValueError):
    """A configuration that cannot be used. The message has a line for each problem: place, key and way out."""


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
        raise PydanticCustomError("place", PLACES)
    return text


class PayloadsSection(Section):
    """`[payloads]`: the store for large values; None means a folder of the embedded server, or no store elsewhere."""

    external: Annotated[str, AfterValidator(_place)] | None = None


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
        raise PydanticCustomError(UNSHOWN, SECRET_STORES)
    return text


class SecretsSection(Section):
    """`[secrets]`: the store for answers to `ask: secret`; for None see `PayloadsSection`."""

    store: Annotated[str, AfterValidator(_folder)] | None = None
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


@dataclass(frozen=True)
class Config:
    """The configuration in force: file, environment and defaults together."""

    home: Path
    """The embedded server's state folder, absolute."""
    folder: Path
    """The project's folder, where the worker runs: that of the file, else the current one."""
    path: Path | None = None
    """The file; None if there is none."""
    worker: WorkerSection = WorkerSection()
    models: Mapping[str, ModelSection] = field(default_factory=dict)
    mcp: Mapping[str, McpSection] = field(default_factory=dict)
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    answers: AnswersSection = AnswersSection()
    payloads: PayloadsSection = PayloadsSection()
    cache: CacheSection = CacheSection()
    secrets: SecretsSection = SecretsSection()
    limits: SizeLimits = SizeLimits()

    def answer_keys(self, *, every: bool = False) -> list[Key]:
        """Return the keys that make tokens; [] if commands need none.

        Args:
            every: Require every key that is named, as a worker does; a client may hold some of them only.

        Raises:
            ConfigError: None of the keys that are named is set or, with `every`, one is not.
        """
        if self.answers.key_env is not None:
            return [Key(KEY_ID, self._variable("answers.key_env", self.answers.key_env))]
        keys = self.answers.keys
        if not every:
            keys = [key for key in keys if os.environ.get(key.env)] or keys
        return [Key(key.id, self._variable("answers.keys", key.env), key.proves, frozenset(key.scope)) for key in keys]

    def cache_place(self) -> str:
        """Return the store for `cache` steps: `sqlite:` with an absolute path, or a Redis URL. Raises ConfigError."""
        if self.cache.url_env is not None:
            return self._variable("cache.url_env", self.cache.url_env)
        store = self.cache.store or f"sqlite:{self.home / 'cache.db'}"
        if not store.startswith("sqlite:"):
            return store
        path = Path(store.removeprefix("sqlite:")).expanduser()
        return f"sqlite:{(self.folder / path).resolve()}"

    def _variable(self, key: str, name: str) -> str:
        value = os.environ.get(name)
        if not value:
            raise ConfigError(f"{self.path or FILE_NAME}: {key}: {name} is not set; export {name}=…")
        return value

    def place(self, *, embedded: bool) -> str:
        """Return the store for large payloads: a bucket's URL, `dir:` with an absolute path, or "" for Temporal."""
        external = self.payloads.external
        if external is None:
            return f"dir:{self.home / 'payloads'}" if embedded else ""
        return f"dir:{self._resolved(external)}" if external.startswith("dir:") else external

    def secret_folder(self, *, embedded: bool) -> Path | None:
        """Return the folder for answers to `ask: secret`; None if none is configured."""
        if self.secrets.store is None:
            return self.home / "secrets" if embedded else None
        return self._resolved(self.secrets.store)

    def _resolved(self, place: str) -> Path:
        """Return the absolute path of a `dir:` setting."""
        return (self.folder / Path(place.removeprefix("dir:")).expanduser()).resolve()


def load_config(start: Path | None = None) -> Config:
    """Return the configuration for a folder (by default the current one). Raises ConfigError."""
    start = (start or Path.cwd()).resolve()
    path = next((p for folder in (start, *start.parents) if (p := folder / FILE_NAME).is_file()), None)
    file = _read(path) if path else File()
    folder = path.parent if path else start
    home = os.environ.get("HOLDFAST_HOME")
    return Config(
        home=Path(home).expanduser().resolve() if home else folder / ".holdfast",
        folder=folder,
        path=path,
        worker=_with_environment(file.worker),
        models=file.models,
        mcp=file.mcp,
        groups=file.groups,
        answers=file.answers,
        payloads=_payloads(file.payloads),
        cache=file.cache,
        secrets=_secrets(file.secrets),
        limits=file.limits,
    )


def _with_environment(worker: WorkerSection) -> WorkerSection:
    """Return the `[worker]` section with the environment's values in place of its own."""
    values = worker.model_dump()
    if queue := os.environ.get("HOLDFAST_TASK_QUEUE"):
        values["task_queue"] = queue
    if imports := os.environ.get("HOLDFAST_IMPORTS"):
        values["imports"] = [name.strip() for name in imports.split(",") if name.strip()]
    if hold := os.environ.get("HOLDFAST_HOLD"):
        if hold not in ("true", "false"):
            raise ConfigError(f"HOLDFAST_HOLD={hold}: must be true or false")
        values["hold"] = hold == "true"
    try:
        return WorkerSection.model_validate(values)
    except ValidationError as error:
        raise ConfigError(f"HOLDFAST_IMPORTS={imports}: must be module names separated by commas") from error


def _payloads(section: PayloadsSection) -> PayloadsSection:
    """Return the `[payloads]` section with the environment's value in place of its own."""
    place = os.environ.get("HOLDFAST_PAYLOADS")
    try:
        return PayloadsSection(external=place) if place else section
    except ValidationError as error:
        raise ConfigError(f"HOLDFAST_PAYLOADS={place}: {PLACES}") from error


def _secrets(section: SecretsSection) -> SecretsSection:
    """Return the `[secrets]` section with the environment's value in place of its own."""
    store = os.environ.get("HOLDFAST_SECRETS")
    try:
        return SecretsSection(store=store, env=section.env) if store else section
    except ValidationError as error:
        raise ConfigError(f"HOLDFAST_SECRETS: {SECRET_STORES}") from error


def _read(path: Path) -> File:
    """Parse and check a file. Raises ConfigError with every problem."""
    try:
        text = path.read_text(encoding="utf-8")
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(_syntax(path, error)) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}; make it a readable UTF-8 file") from error
    try:
        return File.model_validate(raw)
    except ValidationError as error:
        raise ConfigError("\n".join(_problem(path, text, detail) for detail in error.errors())) from None


def _syntax(path: Path, error: tomllib.TOMLDecodeError) -> str:
    """Return the message for a TOML error, with line and column in front."""
    message, _, position = str(error).partition(" (at ")
    numbers = re.findall(r"\d+", position)
    place = ":".join([str(path), *numbers])
    return f"{place}: not valid TOML: {message[:1].lower()}{message[1:]}; text needs quotes, a list needs brackets"


def _problem(path: Path, text: str, detail: ErrorDetails) -> str:
    """Return the line for one problem: place, key, problem, way out."""
    key = [str(part) for part in detail["loc"]]
    return f"{path}:{_line(text, key)}: {'.'.join(key)}: {_explanation(key, detail)}"


def _explanation(key: list[str], detail: ErrorDetails) -> str:
    """Return the problem with a value, and the way out."""
    if detail["type"] == "missing":
        return f'missing; add {key[-1]} = "…"'
    if detail["type"] == UNSHOWN:
        return detail["msg"]
    if detail["type"] != "extra_forbidden":
        return f"{detail['msg'][:1].lower()}{detail['msg'][1:]}, not {detail['input']!r}"
    if key in LATER_KEYS:
        return "is not part of this version; remove the key"
    valid = _valid_keys(key)
    near = difflib.get_close_matches(key[-1], valid, 1)
    return "unknown key" + (f" (did you mean '{near[0]}'?)" if near else f"; known here: {', '.join(valid)}")


def _valid_keys(key: list[str]) -> list[str]:
    """Return the keys that are valid in the table of this one."""
    tables: dict[str, type[BaseModel]] = {
        "worker": WorkerSection,
        "models": ModelSection,
        "mcp": McpSection,
        "answers": AnswersSection,
        "payloads": PayloadsSection,
        "cache": CacheSection,
        "secrets": SecretsSection,
        "limits": SizeLimits if len(key) == 2 else SizeLimit,
    }
    if key[:2] == ["answers", "keys"]:
        return list(KeySection.model_fields)
    return list((File if len(key) == 1 else tables[key[0]]).model_fields)


def _line(text: str, key: list[str]) -> int:
    """Return the line, from 1, of a key, or of its nearest table: tomllib reports no positions."""
    best, line = 0, 1
    for number, path in _keys_of(text):
        common = len(os.path.commonprefix([key, path]))
        if common > best:
            best, line = common, number
    return line


def _keys_of(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line and the full path of every table header and key of a file."""
    table: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[+([^\[\]]+)\]", line):
            table = _parts(header[1])
            yield number, table
        elif name := re.match(r"""\s*([\w."'-]+)\s*=""", line):
            yield number, table + _parts(name[1])


def _parts(dotted: str) -> list[Any]:
    return [part.strip().strip("\"'") for part in dotted.split(".")]
