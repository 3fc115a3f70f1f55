"""The command `send`: an event of another system, to a run that waits for it."""

from __future__ import annotations

from typing import Annotated

import typer

from holdfast.cli.command import perform
from holdfast.cli.flags import AsJson, By, RunName
from holdfast.cli.output import DONE, print_json, say
from holdfast.cli.session import open_session
from holdfast.client.reading import input_of, person

app = typer.Typer(rich_markup_mode=None)
_OUTCOMES = {
    "taken": "The event {event} was taken.",
    "kept": "No step waits for it yet: the run keeps the event {event} for a day.",
    "sent": "No worker answers: the event {event} was sent, and is taken when a worker starts.",
}


@app.command()
def send(
    run: RunName,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The event's name, as the step waits `for` it.")],
    key: Annotated[str, typer.Argument(metavar="KEY", help="The event's key.")],
    payload: Annotated[str | None, typer.Argument(metavar="PAYLOAD", help="JSON, else text; @FILE is read.")] = None,
    id_: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="The event's id: sent twice, it counts once.")
    ] = None,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Send an event of another system to a run, for a step of kind `wait`. An early event is kept for a day."""
    perform(_send(run, (name, key, payload), id_, by, as_json), as_json)


async def _send(run: str, event: tuple[str, str, str | None], id_: str | None, by: str | None, as_json: bool) -> int:
    name, key, text = event
    payload = input_of(text, None)
    runs = (await open_session()).runs
    receipt = await runs.external_events.send(await runs.resolve(run), name, key, payload, id=id_, by=person(by))
    if as_json:
        print_json(receipt.model_dump(mode="json"))
    else:
        say(_OUTCOMES[receipt.status].format(event=receipt.event))
    return DONE
