"""The migrations of the record's database, by Alembic: one file a version. The store applies them when it is opened."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config as AlembicConfig
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from holdfast.runtime.errors import RecordError

FOLDER = Path(__file__).parent


def migrate(connection: Connection) -> None:
    """Bring the database to the newest version, in the connection's transaction.

    Raises:
        RecordError: The database is of a later version than this program knows.
    """
    check_version(connection)
    command.upgrade(alembic_config(connection), "head")


def revisions() -> list[str]:
    """Return the versions that this program knows, the first one first. `versions` is the folder with their files."""
    scripts = ScriptDirectory(str(FOLDER))
    return [script.revision for script in scripts.walk_revisions()][::-1]


def is_newest(connection: Connection) -> bool:
    """Return whether the database is of the newest version. Raises as `migrate`."""
    return check_version(connection) == revisions()[-1]


def check_version(connection: Connection) -> str | None:
    """Return the version of the database; None if it has no tables yet. Raises as `migrate`."""
    version = MigrationContext.configure(connection).get_current_revision()
    if version is not None and version not in revisions():
        raise RecordError(
            f"it is of version {version}, and this Holdfast knows versions up to {revisions()[-1]}; use the Holdfast "
            "that has opened it, or a later one"
        )
    return version


def alembic_config(connection: Connection) -> AlembicConfig:
    """Return what Alembic's commands need to work in the connection's transaction."""
    settings = AlembicConfig()
    # In Alembic's settings a % begins the name of another setting.
    settings.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    settings.attributes["connection"] = connection
    return settings
