"""The blueprints that people may start from elsewhere: what `[serve] blueprints` names, folders and `pkg.mod:name`.

The API, the pages and assistants offer them; nobody outside names any other file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from holdfast.blueprint.errors import BlueprintError, Problem
from holdfast.blueprint.kinds import Blueprint
from holdfast.blueprint.load import is_target, load
from holdfast.blueprint.text_files import BLUEPRINT_SUFFIXES, has_steps, walk_files
from holdfast.runtime.config import Config
from holdfast.runtime.errors import BadInput

MOST_OFFERED = 500
"""The most files that are listed."""


@dataclass(frozen=True)
class Offered:
    """A blueprint that may be started."""

    name: str
    """Its path in its folder, without the suffix, such as `letters/brief`; or `pkg.mod:name`."""
    path: str | Path
    folder: Path

    @property
    def title(self) -> str:
        """Return the name for people: of a file that is called as its folder is, the folder alone."""
        folder, _, file = self.name.rpartition("/")
        return folder if folder.rpartition("/")[2] == file else self.name

    def read(self) -> Blueprint:
        """Return the blueprint. Raises `BlueprintError` with its problems, whose files are named from the folder."""
        try:
            return load(self.path)
        except BlueprintError as error:
            raise BlueprintError(map(self._shorten_place, error.problems)) from None

    def _shorten_place(self, problem: Problem) -> Problem:
        return replace(problem, file=problem.file.removeprefix(f"{self.folder}/"))


def list_folders(config: Config) -> list[Path]:
    """Return the folders that `[serve] blueprints` names, absolute."""
    names = [name for name in config.serve.blueprints if not is_target(name)]
    return [(config.folder / Path(name).expanduser()).resolve() for name in names]


def offer_project(config: Config) -> Config:
    """Return the configuration of a local inbox: where no folders are named, the project's own is offered."""
    if config.serve.blueprints:
        return config
    return config.model_copy(update={"serve": config.serve.model_copy(update={"blueprints": ["."]})})


Allows = Callable[[Blueprint], bool]
"""Whether somebody may start runs of a blueprint."""


def list_offered(config: Config, allows: Allows | None = None) -> list[Offered]:
    """Return what may be started, sorted by name; of several of one name that of the first folder.

    A file that holds no steps, such as scripted replies or tests, is left out; one with mistakes is not, as its author
    would look for it.

    Args:
        config: The configuration.
        allows: Leaves out the blueprints that somebody may not start; None: all may be started.
    """
    built = [name for name in config.serve.blueprints if is_target(name)]
    by_name = {name: Offered(name, name, config.folder) for name in built}
    for folder in list_folders(config):
        for path in _files(folder):
            name = path.relative_to(folder).with_suffix("").as_posix()
            if name not in by_name and _is_offered(path):
                by_name[name] = Offered(name, path, folder)
    every = [by_name[name] for name in sorted(by_name)]
    return [offer for offer in every if allows is None or _is_allowed(offer, allows)][:MOST_OFFERED]


def _is_allowed(offer: Offered, allows: Allows) -> bool:
    try:
        return allows(offer.read())
    except BlueprintError:
        return True


def find_offered(config: Config, name: str, allows: Allows | None = None) -> Offered:
    """Return the blueprint of this name, which may have its suffix. Raises `BadInput` with the names there are.

    Args:
        config: The configuration.
        name: The name.
        allows: As in `list_offered`.
    """
    wanted = name.removesuffix(Path(name).suffix) if Path(name).suffix in BLUEPRINT_SUFFIXES else name
    every = list_offered(config, allows)
    for blueprint in every:
        if blueprint.name == wanted:
            return blueprint
    if not config.serve.blueprints:
        raise BadInput("no blueprint can be started from here: name folders as blueprints in [serve] of holdfast.toml")
    names = ", ".join(blueprint.name for blueprint in every) or "none"
    raise BadInput(f"there is no blueprint {name[:200]!r}; there are: {names}")


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder and those below it, in order; hidden ones and links that lead out are left out."""
    for path in walk_files(folder, BLUEPRINT_SUFFIXES):
        if path.is_file() and path.resolve().is_relative_to(folder):
            yield path


def _is_offered(path: Path) -> bool:
    try:
        return has_steps(path)
    except OSError:
        return False
