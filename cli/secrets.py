"""The commands of the secret store: `secret list`, `secret rotate`, `secret remove`. None of them shows a value."""

from __future__ import annotations

from typing import Annotated

import typer

from holdfast.blueprint.questions.secret import DIRECTORY, SecretReference, reference_in
from holdfast.cli.command import perform
from holdfast.cli.flags import AsJson
from holdfast.cli.output import DONE, print_json, say
from holdfast.cli.prompts import read_value
from holdfast.cli.tables import ago, print_table
from holdfast.client.reading import BadUsage
from holdfast.runtime.config import ConfigError, load_config
from holdfast.runtime.connection import is_server_named
from holdfast.runtime.secrets import UNSET, SecretDirectory, keeper

app = typer.Typer(rich_markup_mode=None)
secret = typer.Typer(rich_markup_mode=None, help="List, rotate and remove the secrets that people have entered.")
app.add_typer(secret, name="secret")

Reference = Annotated[
    str, typer.Argument(metavar="REFERENCE", help="The reference of the value: secret:dir/ID, or only its ID.")
]


@secret.command("list")
def list_secrets(as_json: AsJson = False) -> None:
    """List the references of the values in the store, oldest first; no value is shown."""
    perform(_list(as_json), as_json)


@secret.command("rotate")
def rotate_secret(reference: Reference, as_json: AsJson = False) -> None:
    """Replace a value with one that is typed without echo, or piped in; runs that refer to it read the new one."""
    perform(_rotate(reference, as_json), as_json)


@secret.command("remove")
def remove_secret(reference: Reference, as_json: AsJson = False) -> None:
    """Remove a value; a tool of a run that still refers to it fails with unknown_secret."""
    perform(_remove(reference, as_json), as_json)


async def _list(as_json: bool) -> int:
    kept = _store().list()
    if as_json:
        print_json(
            [
                {
                    "reference": str(secret.reference),
                    "since": secret.since.isoformat(),
                    "encrypted": secret.is_encrypted,
                }
                for secret in kept
            ]
        )
    elif kept:
        rows = [(str(secret.reference), ago(secret.since), "yes" if secret.is_encrypted else "no") for secret in kept]
        print_table(("REFERENCE", "SINCE", "ENCRYPTED"), rows)
    else:
        say("The store holds no secrets.")
    return DONE


async def _rotate(text: str, as_json: bool) -> int:
    store, reference = _store(), _reference(text)
    value = await read_value("new value: ")
    if value is None or not value.strip():
        raise BadUsage("no value was given; nothing was changed")
    if not store.rotate(reference.id, value):
        raise _unknown(reference)
    return _report_done("rotated", reference, as_json)


async def _remove(text: str, as_json: bool) -> int:
    store, reference = _store(), _reference(text)
    if not store.drop(reference.id):
        raise _unknown(reference)
    return _report_done("removed", reference, as_json)


def _report_done(what: str, reference: SecretReference, as_json: bool) -> int:
    print_json({what: str(reference)}) if as_json else say(f"{reference} is {what}")
    return DONE


def _store() -> SecretDirectory:
    store = keeper(load_config(), embedded=not is_server_named())
    if store is None:
        raise ConfigError(UNSET)
    return store


def _reference(text: str) -> SecretReference:
    """Return the reference of a value in the store. Raises `BadUsage`."""
    reference = reference_in(text) or reference_in(str(SecretReference(DIRECTORY, text)))
    if reference is None:
        raise BadUsage("this is not a reference secret:dir/ID; list them with: holdfast secret list")
    if reference.store != DIRECTORY:
        raise BadUsage(f"{reference} is a variable of the worker's environment; change it where the worker runs")
    return reference


def _unknown(reference: SecretReference) -> BadUsage:
    return BadUsage(f"{reference} is not in the store; list what is with: holdfast secret list")
