"""The configuration, from `holdfast.toml` and the environment; commands and workers load it.

The file is looked for in the current folder and its parents; a command on a blueprint looks there, too. Variables win
over it: `HOLDFAST_TASK_QUEUE`, `HOLDFAST_IMPORTS` and `HOLDFAST_HOLD` over `[worker]`, `HOLDFAST_PAYLOADS` over
`[payloads] external`, `HOLDFAST_SECRETS` over `[secrets] store`. `HOLDFAST_HOME` is the embedded server's state folder;
without it that is `.holdfast` beside the file, else the nearest one of the current folder and its parents.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path

from holdfast.blueprint.json_values import JSONObject
from holdfast.blueprint.packages import add_importer
from holdfast.protocol.access import THIS_MACHINE, AccessRules
from holdfast.protocol.guard import Key
from holdfast.runtime.config.file import ConfigError, read_file
from holdfast.runtime.config.sections import (
    MAX_CONCURRENCY,
    NOTICE_KINDS,
    EncryptionSection,
    File,
    HookSection,
    McpSection,
    ModelSection,
    NoticeKind,
    NotifySection,
    NotifyTable,
    PersonSection,
    SecretsSection,
    ServeSection,
    WorkerSection,
)
from holdfast.runtime.config.variables import OVERRIDDEN, Overrides, WorkerSettings, WorkerVariables

__all__ = [
    "MAX_CONCURRENCY",
    "NOTICE_KINDS",
    "Config",
    "ConfigError",
    "HookSection",
    "McpSection",
    "ModelSection",
    "NoticeKind",
    "NotifySection",
    "NotifyTable",
    "PersonSection",
    "EncryptionSection",
    "SecretsSection",
    "ServeSection",
    "WorkerSection",
    "WorkerSettings",
    "WorkerVariables",
    "has_runs",
    "load_config",
    "load_config_for",
]

FILE_NAME = "holdfast.toml"
STATE_FOLDER = ".holdfast"
STATE_FILE = "server.json"
"""What each start of an embedded server writes into its state folder."""
KEY_ID = "default"
"""The id of the key that `key_env` names."""


class Config(File):
    """The configuration in force: file, environment and defaults together."""

    home: Path
    """The embedded server's state folder, absolute."""
    folder: Path
    """The project's folder, where the worker runs: that of the file, else of the state folder, else the current one."""
    path: Path | None = None
    """The file; None if there is none."""

    def answer_keys(self, *, every: bool = False) -> list[Key]:
        """Return the keys that make tokens; [] if commands need none.

        Args:
            every: Require every key that is named, as a worker does; a client may hold some of them only.

        Raises:
            ConfigError: None of the keys that are named is set or, with `every`, one is not.
        """
        if self.answers.key_env is not None:
            return [Key(KEY_ID, self.variable("answers.key_env", self.answers.key_env))]
        keys = self.answers.keys
        if not every:
            keys = [key for key in keys if os.environ.get(key.env)] or keys
        return [Key(key.id, self.variable("answers.keys", key.env), key.proves, frozenset(key.scope)) for key in keys]

    @property
    def signs_people_in(self) -> bool:
        """True where a provider or a proxy signs people in; else everybody comes by a link that this machine makes."""
        return self.serve.oidc is not None or self.serve.user_header is not None

    def access_rules(self) -> AccessRules:
        """Return who may do what: by `[access]`, which counts where it is written and where people sign in."""
        if self.access is None:
            return AccessRules(enforced=True) if self.signs_people_in else THIS_MACHINE
        special = {glob: section.access() for glob, section in self.access.by_blueprint.items()}
        return AccessRules(enforced=True, general=self.access.access(), by_blueprint=special)

    def cache_place(self) -> str:
        """Return the store for `cache` steps: `sqlite:` with an absolute path, or a Redis URL. Raises ConfigError."""
        if self.cache.url_env is not None:
            return self.variable("cache.url_env", self.cache.url_env)
        return self._database(self.cache.store or f"sqlite:{self.home / 'cache.db'}")

    def record_place(self) -> str:
        """Return the record's database: `sqlite:` with an absolute path, or `postgresql://…`. Raises ConfigError."""
        if self.record.url_env is not None:
            return self.variable("record.url_env", self.record.url_env)
        return self._database(self.record.store or f"sqlite:{self.home / 'record.sqlite'}")

    def with_record(self, place: str) -> Config:
        """Return the same configuration with another database for the record, relative to the current folder."""
        if place.startswith("sqlite:"):
            place = f"sqlite:{Path(place.removeprefix('sqlite:')).expanduser().absolute()}"
        return self.model_copy(update={"record": self.record.model_copy(update={"store": place, "url_env": None})})

    def _database(self, place: str) -> str:
        """Return a place with the absolute path of a SQLite file; others as they are."""
        if not place.startswith("sqlite:"):
            return place
        path = Path(place.removeprefix("sqlite:")).expanduser()
        return f"sqlite:{(self.folder / path).resolve()}"

    def record_key(self) -> str | None:
        """Return the key of the record's checkpoints; None if none is named, and the state folder's counts."""
        name = self.record.key_env
        return None if name is None else self.variable("record.key_env", name)

    def variable(self, key: str, name: str) -> str:
        """Return the value of a variable that a key of the file names. Raises `ConfigError` if it is not set."""
        value = os.environ.get(name)
        if not value:
            raise ConfigError(f"{self.path or FILE_NAME}: {key}: {name} is not set; export {name}=…")
        return value

    def place(self, *, embedded: bool) -> str:
        """Return the store for large payloads: a bucket's URL, `dir:` with an absolute path, or "" for Temporal."""
        external = self.payloads.external
        if external is None:
            return f"dir:{self.home / 'payloads'}" if embedded else ""
        return f"dir:{self._resolve(external)}" if external.startswith("dir:") else external

    def secret_folder(self, *, embedded: bool) -> Path | None:
        """Return the folder for answers to `ask: secret`; None if none is configured."""
        if self.secrets.store is None:
            return self.home / "secrets" if embedded else None
        return self._resolve(self.secrets.store)

    def attachment_folders(self) -> list[Path]:
        """Return the folders whose files questions may show, absolute."""
        return [self._resolve(folder) for folder in self.worker.attachments]

    def check_folders(self) -> None:
        """Raise `ConfigError` if a setting that names a folder names a file, or something below one."""
        external, store = self.payloads.external, self.secrets.store
        named = [("worker.attachments", folder) for folder in self.worker.attachments]
        named += [("payloads.external", external)] if external is not None and external.startswith("dir:") else []
        named += [("secrets.store", store)] if store is not None else []
        for key, place in named:
            _check_folder(self._resolve(place), f"{self.path or FILE_NAME}: {key}: {place}")

    def _resolve(self, place: str) -> Path:
        """Return the absolute path of a setting that names a folder."""
        return (self.folder / Path(place.removeprefix("dir:")).expanduser()).resolve()


def load_config(start: Path | None = None) -> Config:
    """Return the configuration for a folder (by default the current one). Raises ConfigError."""
    start = (start or Path.cwd()).resolve()
    path = _find_file(start)
    file = read_file(path) if path else File.model_construct()  # a command builds no model without need
    variables = Overrides.read()
    folder = path.parent if path else _find_state(start) or start
    home = Path(variables.home).expanduser().resolve() if variables.home else folder / STATE_FOLDER
    _check_folder(home, f"HOLDFAST_HOME={variables.home}" if variables.home else f"{home}")
    config = Config.model_construct(home=home, folder=folder, path=path, **_merge_sections(file, variables))
    config.check_folders()
    return config


def load_config_for(file: Path, tell: Callable[[str], None]) -> Config:
    """Return the configuration for a blueprint: that of the current folder, else that of the blueprint's folder.

    The current folder comes first, as the commands that follow on a run look there.

    Args:
        file: The blueprint.
        tell: Called with a message where the configuration of the blueprint's folder is not used, or is alone.

    Raises:
        ConfigError: The file of the configuration cannot be used.
    """
    here, own = _find_file(Path.cwd()), _find_file(file.resolve().parent)
    if own is None or own == here:
        return load_config()
    way = f"cd {_display(own.parent)}"
    if here is None:
        tell(f"{_display(own)} counts; its runs are kept beside it: {way}")
        return load_config(own.parent)
    tell(f"{_display(own)} is not read, as here {_display(here)} counts; to use it: {way}")
    return load_config()


def has_runs(home: Path) -> bool:
    """Return whether an embedded server has ever run on this state folder."""
    return (home / STATE_FILE).is_file()


def _find_file(start: Path) -> Path | None:
    """Return the nearest `holdfast.toml` of a folder and its parents."""
    return next((path for folder in (start, *start.parents) if (path := folder / FILE_NAME).is_file()), None)


def _find_state(start: Path) -> Path | None:
    """Return the nearest of a folder and its parents that has runs of this user, as a repository of git is found."""
    return next((folder for folder in (start, *start.parents) if _is_state_of_user(folder / STATE_FOLDER)), None)


def _is_state_of_user(home: Path) -> bool:
    # Of this user: in a folder that all may write to, somebody else may have put one, with a worker of theirs.
    try:
        return (home / STATE_FILE).stat().st_uid == os.getuid()
    except OSError:
        return False


def _display(path: Path) -> str:
    """Return a path as it is typed from the current folder."""
    return os.path.relpath(path)


def _check_folder(path: Path, place: str) -> None:
    """Raise `ConfigError` if a path of the configuration cannot be a folder, as something else is in its way."""
    # os.path takes what may not be looked at for missing; whoever uses it says why it cannot.
    there = next(step for step in (path, *path.parents) if os.path.exists(step))
    if not os.path.isdir(there):
        way = "name another folder" if there == path else "name one that is not below it"
        raise ConfigError(f"{place}: {there} is a file, and no folder; {way}, or remove the file")


def _merge_sections(file: File, variables: Overrides) -> JSONObject:
    """Return the tables of the file, with the values of the variables that are set in place of its own."""
    sections, values = dict(file), dict(variables)
    for name in variables.model_fields_set & OVERRIDDEN.keys():
        section, key = OVERRIDDEN[name]
        sections[section] = sections[section].model_copy(update={key: values[name]})
    return sections


def _import_packages(folder: Path | None) -> dict[str, str]:
    """Import the packages of `[worker] imports`, and return by package why one cannot be imported here."""
    config = load_config()
    if config.path is None and folder is not None:
        config = load_config(folder)
    if str(config.folder) not in sys.path:
        sys.path.insert(1, str(config.folder))
    failed = {}
    for name in config.worker.imports:
        try:
            importlib.import_module(name)
        except Exception as error:  # noqa: BLE001 importing runs the author's code, which may raise anything
            failed[name] = f"{type(error).__name__}: {error}"
    return failed


# Every process that shows or reads questions has a configuration, and so finds the kinds of its author's packages.
add_importer(_import_packages)
