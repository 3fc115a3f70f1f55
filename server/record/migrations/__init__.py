"""The migrations of the record's database, by Alembic: one file a version. The store applies them when it is opened.

Whether a database is of the newest version is read without Alembic: it takes as long to load as all that a command
which reads the record needs beside it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, inspect, text

from holdfast.runtime.errors import RecordError

if TYPE_CHECKING:
    from alembic.config import Config as AlembicConfig

FOLDER = Path(__file__).parent


def migrate(connection: Connection) -> None:
    """Bring the database to the newest version, in the connection's transaction.

    Raises:
        RecordError: The database is of a later version than this program knows.
    """
    if is_newest(connection):
        return
    from alembic import command  # noqa: PLC0415  see the head of this file

    command.upgrade(alembic_config(connection), "head")


def revisions() -> list[str]:
    """Return the versions that this program knows, the first one first: the numbers of the files in `versions`."""
    return sorted(file.name[1:].partition("_")[0] for file in (FOLDER / "versions").glob("r[0-9]*_*.py"))


def is_newest(connection: Connection) -> bool:
    """Return whether the database is of the newest version. Raises as `migrate`."""
    return check_version(connection) == revisions()[-1]


def check_version(connection: Connection) -> str | None:
    """Return the version of the database; None if it has no tables yet. Raises as `migrate`."""
    is_made = inspect(connection).has_table("alembic_version")
    version = connection.scalar(text("SELECT version_num FROM alembic_version")) if is_made else None
    if version is not None and version not in revisions():
        raise RecordError(
            f"it is of version {version}, and this Holdfast knows versions up to {revisions()[-1]}; use the Holdfast "
            "that has opened it, or a later one"
        )
    return version


def alembic_config(connection: Connection) -> AlembicConfig:
    """Return what Alembic's commands need to work in the connection's transaction."""
    from alembic.config import Config as AlembicConfig  # noqa: PLC0415  see the head of this file

    settings = AlembicConfig()
    # In Alembic's settings a % begins the name of another setting.
    settings.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    settings.attributes["connection"] = connection
    return settings
