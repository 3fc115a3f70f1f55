"""Checks of `holdfast doctor` that need no server: variables that the configuration names, keys, folders."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import BaseModel

from holdfast.cli.doctor.findings import Finding, Status, make_fault
from holdfast.runtime.config import Config, ConfigError
from holdfast.runtime.encryption import load_key_ring
from holdfast.runtime.own_files import is_open_to_others
from holdfast.runtime.payloads import find_folder

USERS = {
    "answers": "clients, workers and the inbox",
    "cache": "workers",
    "hooks": "serve",
    "mcp": "workers",
    "models": "workers",
    "notify": "serve",
    "record": "serve, and commands that read the record",
    "secrets": "clients and workers",
    "serve": "serve",
}
"""Who needs the variables that a section of `holdfast.toml` names."""

PRIVATE: Mapping[str, Status] = {"state": "warning", "secrets": "fault"}
"""The folders for their owner alone, and how bad it is where others may look into them."""

PROBE_BYTES = 65_536
"""Room that a folder must have."""


def check_machine(config: Config, *, is_shared: bool) -> list[Finding]:
    """Return what is wrong with the configuration and with the folders here.

    Args:
        config: The configuration.
        is_shared: True for a server that others may reach, too.
    """
    return [
        _check_keys(config, is_shared=is_shared),
        _check_encryption(config),
        *_check_variables(config),
        *_check_folders(config, is_shared=is_shared),
    ]


def _check_keys(config: Config, *, is_shared: bool) -> Finding:
    try:
        keys = config.answer_keys()
    except ConfigError as error:
        return Finding("keys", "fault", str(error), "Without its key this machine cannot send answers.")
    if keys:
        here = [key.id for key in keys]
        missing = [f"{key.id} ({key.env} is not set)" for key in config.answers.keys if key.id not in here]
        lacking = f"; not here: {', '.join(missing)}, which a worker needs" if missing else ""
        return Finding("keys", "ok", f"answers and commands need a token; keys here: {', '.join(here)}{lacking}")
    if not is_shared:
        return Finding("keys", "ok", "answers need no token; only this machine can reach the local server")
    remedy = "If others can reach Temporal too, name keys in [answers] of holdfast.toml."
    message = "answers need no token: anyone who can reach Temporal can answer in anybody's name"
    return Finding("keys", "warning", message, remedy)


def _check_encryption(config: Config) -> Finding:
    try:
        keys = load_key_ring(config).ids
    except ConfigError as error:
        return make_fault("encryption", error)
    if not keys:
        return Finding("encryption", "ok", "nothing is encrypted: [encryption] has no keys")
    return Finding("encryption", "ok", f"'{keys[0]}' encrypts; keys here: {', '.join(keys)}")


def _check_variables(config: Config) -> list[Finding]:
    unset = [(place, name) for place, name in _named_variables(config, "") if not os.environ.get(name)]
    # `_check_keys` and `_check_encryption` have told of these: of several keys of [answers] a client may hold one.
    unset = [(place, name) for place, name in unset if not place.startswith(("answers.", "encryption."))]
    return [
        Finding(
            "variables",
            "warning",
            f"{place}: {name} is not set on this machine",
            f"Export it where it is needed: {USERS.get(place.partition('.')[0], 'workers')}.",
        )
        for place, name in unset
    ] or [Finding("variables", "ok", "the variables that holdfast.toml names, beside those of keys, are set here")]


def _named_variables(section: object, place: str) -> Iterator[tuple[str, str]]:
    """Yield the place and the name of each environment variable that the configuration names."""
    match section:
        case BaseModel():
            for key, value in section:  # dict(section) would call the keys of [answers]
                yield from _of_key(key, value, f"{place}.{key}" if place else key)
        case dict():
            for key, value in section.items():
                yield from _named_variables(value, f"{place}.{key}")
        case list():
            for number, value in enumerate(section):
                yield from _named_variables(value, f"{place}[{number}]")


def _of_key(key: str, value: object, place: str) -> Iterator[tuple[str, str]]:
    if not (key == "env" or key.endswith("_env")):
        yield from _named_variables(value, place)
        return
    names = value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]
    yield from ((place, name) for name in names if isinstance(name, str))


def _check_folders(config: Config, *, is_shared: bool) -> list[Finding]:
    folders = {"state": config.home}
    if payloads := find_folder(config.place(embedded=False)):
        folders["payloads"] = payloads
    if secrets := config.secret_folder(embedded=not is_shared):
        folders["secrets"] = secrets
    return [
        *(_check_folder(name, folder) for name, folder in folders.items()),
        *(
            _tell_of_open_folder(name, folders[name])
            for name in PRIVATE
            if name in folders and is_open_to_others(folders[name])
        ),
    ]


def _tell_of_open_folder(name: str, folder: Path) -> Finding:
    told = f"{name}: others may look into {folder}"
    told += ", so no secret is kept there" if name == "secrets" else ""
    return Finding("storage", PRIVATE[name], told, f"Type: chmod 700 {folder}")


def _check_folder(name: str, folder: Path) -> Finding:
    existing = next(place for place in (folder, *folder.parents) if place.exists())
    try:
        with tempfile.TemporaryFile(dir=existing, buffering=0) as file:
            file.write(bytes(PROBE_BYTES))  # a file without content can be made on a full disk, too
            return Finding("storage", "ok", f"{name}: {folder} can be written")
    except OSError as error:
        way = "Make room there" if error.errno == errno.ENOSPC else f"Make {existing} a folder that this user may write"
        remedy = f"{way}, or name another one in holdfast.toml."
        return Finding("storage", "fault", f"{name}: {folder} cannot be written: {error.strerror}", remedy)
