"""Read rows with whatever their cells hold: for the verification a damaged cell is a finding, and no failure."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, Row, Table, Text, type_coerce

from holdfast.runtime.encryption import NotDecrypted
from holdfast.server.record.tables import SealedText

_KINDS = {str: "text", int: "whole number"}


@contextmanager
def read_as_stored(engine: Engine) -> Iterator[Connection]:
    """Open a connection on which a text that is no UTF-8 is read as bytes: SQLite keeps what it is given."""
    with engine.connect() as connection:
        if engine.dialect.name != "sqlite":
            yield connection
            return
        driver = connection.connection.driver_connection
        assert driver is not None
        driver.text_factory = _read_text
        try:
            yield connection
        finally:
            driver.text_factory = str


def _read_text(data: bytes) -> str | bytes:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def list_stored(table: Table) -> list[ColumnElement[Any]]:
    """Return the columns of a table for a query: as they are stored, encrypted ones without decrypting them."""
    return [
        type_coerce(column, Text).label(column.name) if isinstance(column.type, SealedText) else column
        for column in table.c
    ]


def open_cells(
    row: Row[Any], table: Table, connection: Connection, prefix: str = ""
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values of a row, None in place of a damaged one, and what is wrong with those by their columns.

    Args:
        row: The row, of `list_stored`.
        table: The table that it is of.
        connection: What it was read with.
        prefix: The beginning of the names that the query gave the columns.
    """
    values: dict[str, Any] = {}
    damage: dict[str, str] = {}
    for column in table.c:
        value = row._mapping[f"{prefix}{column.name}"]
        sealed = column.type if isinstance(column.type, SealedText) else None
        kind = str if sealed else column.type.python_type
        if not (isinstance(value, kind) or (value is None and column.nullable)):
            damage[column.name], value = f"its {column.name} is no {_KINDS[kind]}", None
        elif sealed:
            try:
                value = sealed.process_result_value(value, connection.dialect)
            except NotDecrypted as error:
                damage[column.name], value = f"its {column.name} cannot be read: {error}", None
        values[column.name] = value
    return values, damage
