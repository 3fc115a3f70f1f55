"""The command for the channels of notices: `notify list`, `notify test`."""

from __future__ import annotations

import secrets
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated

import typer

from holdfast.blueprint.json_values import JSONObject
from holdfast.cli.command import perform
from holdfast.cli.flags import AsJson
from holdfast.cli.output import DONE, FAILED, print_json, say
from holdfast.cli.tables import print_table
from holdfast.client.reading import BadUsage, person
from holdfast.protocol.people import read_user
from holdfast.runtime.config import NOTICE_KINDS, Config, NoticeKind, NotifyTable, load_config
from holdfast.runtime.encryption import load_key_ring
from holdfast.server.notices.channels import AddressBook, Channel, describe_channel, make_channel
from holdfast.server.notices.messages import make_sample
from holdfast.server.notices.notice import Contact, Delivery
from holdfast.server.notices.outbox import count_notices, find_last_trouble
from holdfast.server.notices.transports import DeliveryFailed
from holdfast.server.record.store import RecordStore, read_store

app = typer.Typer(rich_markup_mode=None)
notify = typer.Typer(rich_markup_mode=None, no_args_is_help=True)
LOCALLY = "http://127.0.0.1:8090"
"""The address of `holdfast serve` where none is configured."""
EXAMPLES = 'webhook = "https://…", command = ["…"], apprise_env = "NAME" (the variable that holds a service\'s URL)'
"""The ways of a channel: an installed wheel has no pages of docs to look them up in."""

app.add_typer(notify, name="notify", help="List the notification channels, and test one.")


@notify.command(name="list")
def list_channels(as_json: AsJson = False) -> None:
    """List the channels of [notify]: what each tells, and of whose questions."""
    perform(_list(as_json), as_json)


@notify.command()
def test(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The channel: NAME of [notify.NAME].")],
    to: Annotated[
        str | None, typer.Option("--to", metavar="USER", help="Who is notified, for a personal channel; default: you.")
    ] = None,
    event: Annotated[
        str, typer.Option("--event", metavar="EVENT", help=f"One of {', '.join(NOTICE_KINDS)}.")
    ] = "asked",
    as_json: AsJson = False,
) -> None:
    """Send a test notice over a channel. Exit code 1 if it was not delivered."""
    perform(_test(name, to, event, as_json), as_json)


async def _list(as_json: bool) -> int:
    config = load_config()
    store = read_store(config.record_place(), load_key_ring(config)) if config.notify.channels else None
    channels = [_show(config.notify, name, store) for name in config.notify.channels]
    if as_json:
        print_json(channels)
    elif not channels:
        say(f"No channels. Add [notify.NAME] to holdfast.toml, with one of: {EXAMPLES}")
    else:
        titles = ("channel", "sends to", "of", "notices", "events")
        print_table(titles, [_cells(channel) for channel in channels])
    return DONE


def _show(table: NotifyTable, name: str, store: RecordStore | None) -> JSONObject:
    """Return a channel with the notices of the last days that its outbox remembers."""
    section, amounts = table.channels[name], count_notices(store).get(name) if store else None
    return {
        "name": name,
        "sends": describe_channel(section),
        "events": list(section.events),
        "to": section.to,
        "fallback": name == table.fallback,
        **{state: (amounts or {}).get(state, 0) for state in ("delivered", "waiting", "dead")},
        "trouble": find_last_trouble(store, name) if store and amounts else None,
    }


def _cells(channel: JSONObject) -> list[str]:
    name = f"{channel['name']} (fallback)" if channel["fallback"] else channel["name"]
    to, events = ", ".join(channel["to"] or ["all"]), ", ".join(channel["events"])
    return [name, channel["sends"], to, _amounts(channel), events]


def _amounts(channel: JSONObject) -> str:
    """Return what became of a channel's notices, in words; what is none is left out."""
    words = {"delivered": "sent", "waiting": "waiting", "dead": "given up"}
    amounts = ", ".join(f"{channel[state]} {word}" for state, word in words.items() if channel[state])
    return f"{amounts or 'none yet'}" + (f" ({channel['trouble']})" if channel["trouble"] else "")


async def _test(name: str, to: str | None, event: str, as_json: bool) -> int:
    config = load_config()
    kind = next((kind for kind in NOTICE_KINDS if kind == event), None)
    if kind is None:
        raise BadUsage(f"--event {event}: must be one of {', '.join(NOTICE_KINDS)}")
    channel = _channel(config, name)
    contact = _contact(config, channel, to)
    delivery = replace(_sample(channel, kind, contact), link=f"{config.serve.url or LOCALLY}/")
    try:
        await channel.transport.send(delivery)
    except DeliveryFailed as error:
        return _report(name, delivery, str(error), as_json)
    finally:
        await channel.transport.close()
    return _report(name, delivery, None, as_json)


def _channel(config: Config, name: str) -> Channel:
    """Return a channel by name. Raises `BadUsage` or `ConfigError`."""
    section = config.notify.channels.get(name)
    if section is None:
        names = ", ".join(config.notify.channels) or "none"
        raise BadUsage(f"there is no channel '{name}'; configured in [notify]: {names}")
    return make_channel(config, name, section)


def _contact(config: Config, channel: Channel, to: str | None) -> Contact | None:
    """Return the person who is told, of a personal channel. Raises `BadUsage` if they cannot be reached by it."""
    if not channel.transport.is_personal:
        if to is not None:
            raise BadUsage(f"--to: the channel '{channel.name}' is not a personal channel; leave it out")
        return None
    user = read_user(person(to))
    if user is None:
        raise BadUsage(f"--to {to}: must be a user, such as user:ana")
    contact = AddressBook(config.people, config.groups).contact(user)
    if not channel.transport.reaches(contact):
        table = user.partition(":")[2]
        raise BadUsage(f"{user} has no e-mail address; add [people.{table}] with email to holdfast.toml, or give --to")
    return contact


def _sample(channel: Channel, kind: NoticeKind, contact: Contact | None) -> Delivery:
    """Return a notice that says that it is a test."""
    delivery = make_sample(kind, contact)
    notice = delivery.notice
    text = f"This is a test of the channel '{channel.name}'. Nobody needs to answer."
    question = notice.question and {**notice.question, "message": text, "options": [], "assignees": []}
    test_notice = notice.model_copy(update={"question": question, "time": datetime.now(UTC)})
    return replace(delivery, id=secrets.token_hex(8), notice=test_notice, contact=contact)


def _report(name: str, delivery: Delivery, trouble: str | None, as_json: bool) -> int:
    user = None if delivery.contact is None else delivery.contact.user
    if as_json:
        print_json({"channel": name, "to": user, "id": delivery.id, "delivered": trouble is None, "error": trouble})
    elif trouble is None:
        say(f"delivered by {name}" + (f" to {user}" if user else "") + f" (id {delivery.id})")
    else:
        say(f"not delivered by {name}: {trouble}")
    return DONE if trouble is None else FAILED
