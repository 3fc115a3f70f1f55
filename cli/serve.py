"""The commands of the web server: `serve` and `token`."""

from __future__ import annotations

import os
import socket
import sys
from dataclasses import dataclass
from typing import Annotated, NoReturn, get_args

import typer

from holdfast.blueprint.durations import read_duration
from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.people import USER
from holdfast.cli.command import perform
from holdfast.cli.flags import AsJson
from holdfast.cli.output import DONE, print_json, print_text, say
from holdfast.cli.session import open_session
from holdfast.cli.tables import print_table
from holdfast.client.catalogue import offer_project
from holdfast.client.reading import BadUsage, person
from holdfast.protocol.people import read_user
from holdfast.runtime.config import Config, ConfigError, load_config
from holdfast.runtime.config.logs import configure_logging
from holdfast.runtime.config.variables import LogVariables
from holdfast.runtime.connection import check_search_attributes, is_server_named
from holdfast.runtime.embedded import Startup
from holdfast.runtime.embedded.inbox import BACKGROUND, FIRST_PORT, GRACE, find_inbox, make_serve_command
from holdfast.runtime.embedded.processes import stop
from holdfast.runtime.embedded.server import HOST
from holdfast.server.record.record import Record
from holdfast.server.web.addresses import once_link, signs_in_by_link
from holdfast.server.web.app import create_app
from holdfast.server.web.background import run_background
from holdfast.server.web.credentials import ApiTokens, WebScope, open_web_store
from holdfast.server.web.gate import Gate, read_groups
from holdfast.server.web.hooks import look_up_hooks
from holdfast.server.web.listener import bind, listen, make_url
from holdfast.server.web.site import Site

app = typer.Typer(rich_markup_mode=None)
token_app = typer.Typer(rich_markup_mode=None, help="Create, list and revoke API tokens of `holdfast serve`.")
app.add_typer(token_app, name="token")


@dataclass(frozen=True)
class _ServeOptions:
    """The options of `serve`."""

    user: str | None
    as_json: bool
    background: bool
    ui_url: str | None


@app.command()
def serve(
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Address to listen on.")] = HOST,
    port: Annotated[
        int, typer.Option("--port", metavar="N", min=0, max=65535, help="Port to listen on; 0: any free one.")
    ] = FIRST_PORT,
    user: Annotated[
        str | None, typer.Option("--as", metavar="USER", help="The person of the one-time link; default: your login.")
    ] = None,
    listener: Annotated[int | None, typer.Option("--listener", hidden=True)] = None,
    background: Annotated[bool, typer.Option(BACKGROUND, hidden=True)] = False,
    ui_url: Annotated[str | None, typer.Option("--ui-url", hidden=True)] = None,
    as_json: AsJson = False,
) -> None:
    """Serve the inbox and the API in the foreground; print a link that signs one browser in. Ctrl-C stops it."""
    perform(_start(host, port, listener, _ServeOptions(user, as_json, background, ui_url)), as_json)


async def _start(host: str, port: int, descriptor: int | None, options: _ServeOptions) -> int:
    if descriptor is not None:
        return await _serve(socket.socket(fileno=descriptor), options)
    if options.user:
        _user(options.user)
    if is_server_named():
        return await _serve(bind(host, port), options)
    config = load_config()
    await _make_room(config)
    return _become(config, bind(host, port), options)


@token_app.command("create")
def create_token(
    user: Annotated[str, typer.Option("--user", metavar="USER", help="The person or program that it is for.")],
    group: Annotated[list[str] | None, typer.Option("--group", metavar="GROUP", help="A group; repeatable.")] = None,
    scope: Annotated[
        list[str] | None,
        typer.Option("--scope", help="What it allows: read, answer, steer; repeatable. Default: read and answer."),
    ] = None,
    expires: Annotated[str, typer.Option("--expires", metavar="TIME", help="How long it is valid, or never.")] = "90d",
    service: Annotated[
        bool, typer.Option("--service", help="For a program, which may not consent to anything.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Create an API token and print it. It cannot be shown again."""
    perform(_create_token(user, group or [], scope or ["read", "answer"], expires, service, as_json), as_json)


@token_app.command("list")
def list_tokens(as_json: AsJson = False) -> None:
    """List the API tokens."""
    perform(_list_tokens(as_json), as_json)


@token_app.command("revoke")
def revoke_token(
    token: Annotated[str, typer.Argument(metavar="ID", help="The token's id.")], as_json: AsJson = False
) -> None:
    """Make an API token invalid."""
    perform(_revoke_token(token, as_json), as_json)


async def _create_token(
    user: str, groups: list[str], scopes: list[str], expires: str, service: bool, as_json: bool
) -> int:
    name, life = _user(user), _life(expires)
    named = [_group(group) for group in groups]
    granted = [_scope(text) for text in scopes]
    token, text = _tokens().create(name, groups=named, scopes=granted, life=life, is_service=service)
    if as_json:
        print_json({"id": token.id, "token": text})
    else:
        print_text(text)
        purpose = ", ".join(sorted(token.scopes))
        say(f"token {token.id} for {name} ({purpose}); revoke it with: holdfast token revoke {token.id}")
    return DONE


async def _list_tokens(as_json: bool) -> int:
    rows = [token.to_json() for token in _tokens().list()]
    if as_json:
        print_json(rows)
    elif rows:
        columns = ("id", "user", "kind", "scopes", "status", "expires", "used")
        print_table([name.upper() for name in columns], [[_cell(row[name]) for name in columns] for row in rows])
    else:
        say("No API tokens.")
    return DONE


async def _revoke_token(id_: str, as_json: bool) -> int:
    if not _tokens().revoke(id_):
        raise BadUsage(f"no API token {id_!r}; list them with: holdfast token list")
    print_json({"revoked": id_}) if as_json else say(f"token {id_} is revoked")
    return DONE


def _cell(value: JSON) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value or "-")


def _tokens() -> ApiTokens:
    return ApiTokens(open_web_store(load_config()))


def _user(name: str) -> str:
    """Return a user as assignees name it. Raises `BadUsage`."""
    user = read_user(name)
    if user is None:
        raise BadUsage(f"{name!r} is not a user; write user:NAME or NAME")
    return user


def _group(name: str) -> str:
    """Return a group as assignees name it. Raises `BadUsage`."""
    groups = () if name.startswith(USER) else read_groups([name])
    if not groups:
        raise BadUsage(f"--group {name!r}: not a group; write group:NAME or NAME")
    return groups[0]


def _scope(text: str) -> WebScope:
    """Return a scope. Raises `BadUsage`."""
    scopes: tuple[WebScope, ...] = get_args(WebScope)
    if text not in scopes:
        raise BadUsage(f"--scope {text!r}: not a scope; choose from {', '.join(sorted(scopes))}")
    return text


def _life(text: str) -> float | None:
    """Return the seconds that a token is valid; None for ever. Raises `BadUsage`."""
    try:
        return None if text == "never" else read_duration(text)
    except ValueError as error:
        raise BadUsage(f"--expires: {error}; or never") from None


async def _serve(listener: socket.socket, options: _ServeOptions) -> int:
    log = LogVariables.read()
    configure_logging(log.log_format, log.log_level)
    session = await open_session(Startup.ALL)
    await check_search_attributes(session.runs.client)
    session.runs.answering.memory.writes_at_once = False
    if problem := session.runs.answering.inbox_problem:
        raise ConfigError(f"{session.config.path}: {problem}")
    if session.runs.answering.secrets is not None:
        session.runs.answering.secrets.warn_if_open()
    is_local = options.background or session.connection.embedded
    config = offer_project(session.config) if is_local else session.config
    record = Record.open(session.config, session.connection.client)
    address = (config.serve.url or make_url(listener)).rstrip("/")
    ui_url = session.connection.ui_url or options.ui_url
    site = Site(config, session.runs.with_archive(record), ui_url, address, record=record)
    # The inbox beside the embedded server was not asked for: it comes up, and leaves out what it cannot use.
    strict = not options.background
    if strict and (problems := await look_up_hooks(site)):
        raise ConfigError("\n".join(f"{config.path}: {problem}" for problem in problems))
    async with run_background(site, record, strict=strict):
        gate = Gate.of(config, record.store)
        await listen(create_app(site, gate, strict=strict), listener, lambda: _announce(config, gate, address, options))
    return DONE


def _announce(config: Config, gate: Gate, address: str, options: _ServeOptions) -> None:
    """Print the address, with a one-time link where people sign in by one; nothing if nobody reads it."""
    if options.background:
        return
    user = _user(options.user or config.serve.user or person(None))
    link = once_link(config, address, user, gate.once.create)
    if options.as_json:
        print_json({"url": link, "api": f"{address}/api/v1"}, indent=None)
    else:
        say(f"The inbox: {link}" + (f" (for one browser, as {user})" if signs_in_by_link(config.serve) else ""))


async def _make_room(config: Config) -> None:
    """Stop the inbox beside the embedded server, whose place this one takes. Raises `BadUsage` for a terminal's."""
    running = find_inbox(config.home)
    if running is not None and not running.is_background:
        raise BadUsage(f"the inbox is already running at {running.url} (process {running.pid}); stop that one first")
    await stop([running.pid] if running else [], GRACE)


def _become(config: Config, listener: socket.socket, options: _ServeOptions) -> NoReturn:
    """Replace this process by one whose command line tells that it is the inbox of the embedded server."""
    listener.set_inheritable(True)
    words = [*(["--as", options.user] if options.user else []), *(["--json"] if options.as_json else [])]
    command = make_serve_command(config.home, listener, *words)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(command[0], command)
