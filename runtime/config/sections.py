"""The tables of `holdfast.toml`: what each key may hold."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from datetime import date
from typing import Annotated, Final, Literal, LiteralString, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    StringConstraints,
    model_validator,
)
from pydantic_core import PydanticCustomError

from holdfast.blueprint.durations import read_duration
from holdfast.blueprint.parts import EVENT_NAME
from holdfast.blueprint.people import USER, canonical_name, is_person
from holdfast.protocol.access import CAPABILITIES, AccessPolicy
from holdfast.protocol.guard import Scope
from holdfast.protocol.people import ANYONE
from holdfast.protocol.size_limits import SizeLimits

Text = Annotated[str, StringConstraints(min_length=1)]
"""Of a command or a template; it may have lines."""


def _line(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("line", "must not be blank")
    if not text.isprintable():
        raise PydanticCustomError("line", "must be one line, without tabs or other control characters")
    return text


Line = Annotated[Text, AfterValidator(_line)]
MODULE = r"^[^\W\d]\w*(\.[^\W\d]\w*)*$"
Module = Annotated[str, StringConstraints(pattern=MODULE)]
NAME, HEADER, HTTP_URL = r"^[A-Za-z0-9_-]+$", r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$", r"^https?://."
Name = Annotated[str, StringConstraints(pattern=NAME)]
Header = Annotated[str, StringConstraints(pattern=HEADER)]

UNSHOWN: Final = "unshown"
"""The type of errors whose message does not repeat the value, which may be a secret in the wrong place."""


class Section(BaseModel):
    """A table of the file: immutable, and strict about its keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True, strict=True)


MOST_PROCESSES = 64


class WorkerSection(Section):
    """`[worker]`: the modules that the worker imports, its task queue, the number of its processes."""

    imports: list[Module] = []
    """The modules of your tools, agents, graphs, models and kinds of questions."""
    task_queue: Line = "holdfast"
    """Temporal's task queue, which the worker polls and on which runs are started."""
    processes: Annotated[int, Field(ge=1, le=MOST_PROCESSES)] = 1
    """Number of processes that `holdfast worker` runs; the embedded server has one."""
    attachments: list[Line] = []
    """Folders whose files people and models may be shown, relative to that of `holdfast.toml`."""
    hold: bool = False
    """True to start no activity, so that nothing outside is touched; answers and queries are still served."""


def _seconds(value: object) -> float:
    try:
        return read_duration(value)
    except ValueError:
        raise PydanticCustomError("duration", "must be a duration such as 90, 30s or 1h30m") from None


_AS_SECONDS = BeforeValidator(_seconds, json_schema_input_type=float | str)


class ModelSection(Section):
    """`[models.NAME]`: the model that agents refer to by this name."""

    model: Line
    """The model, such as `openai:gpt-5.2`."""
    api_key_env: Line | None = None
    """The variable that holds the provider's key; by default that which the provider's library reads."""
    base_url: Annotated[str, StringConstraints(pattern=HTTP_URL)] | None = None
    """The address of the provider, in place of its own."""
    timeout: Annotated[float, _AS_SECONDS] | None = None
    """Seconds that a request may take; in the file any duration, such as 90 or 1m30s."""


def _match(pattern: str, message: LiteralString, code: LiteralString = UNSHOWN) -> AfterValidator:
    """Return a check that a text matches a pattern. With UNSHOWN the text, maybe a secret, is not told."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise PydanticCustomError(code, message)
        return text

    return AfterValidator(check)


Variable = Annotated[
    str, _match(r"[A-Za-z_][A-Za-z0-9_]*", "must be the name of an environment variable, not its value")
]
Protocol = Annotated[str, _match(r"\d{4}-\d\d-\d\d", "must be a version of the protocol, such as 2025-11-25")]
Endpoint = Annotated[
    str,
    _match(r"https?://[^/?#@\s]+([/?#]\S*)?", "must be an http:// or https:// URL, without user or password"),
]


def _member(text: str) -> str:
    if not (text.startswith(USER) and is_person(text)):
        raise PydanticCustomError("member", 'must be "user:NAME": a group holds users')
    return canonical_name(text)


Member = Annotated[str, AfterValidator(_member)]
Entry = TypeVar("Entry")


def _by_name(table: dict[str, Entry]) -> dict[str, Entry]:
    named = {canonical_name(name): entry for name, entry in table.items()}
    if len(named) < len(table):
        text = "must have names that differ by more than capital letters or the encoding of accents"
        raise PydanticCustomError(UNSHOWN, text)
    return named


class McpSection(Section):
    """`[mcp.NAME]`: an MCP server, whose tools blueprints name as `mcp:NAME`: a command to start, or a URL."""

    command: Annotated[list[Text], Field(min_length=1)] | None = None
    """The command that starts the server, with its arguments; either this or `url`."""
    url: Endpoint | None = None
    """The address of a server that runs elsewhere."""
    env: list[Variable] = []
    """Variables of the worker's environment that are passed to the command."""
    headers_env: dict[Header, Variable] = {}
    """Headers for the URL, each with the variable that holds its value."""
    elicitation: bool = True
    """False: the server is told that people cannot be asked."""
    protocol: Protocol | None = None
    """The version of the protocol to speak, such as 2025-11-25; by default the newest that the server knows."""

    @model_validator(mode="after")
    def _either(self) -> McpSection:
        if (self.command is None) == (self.url is None):
            raise PydanticCustomError(UNSHOWN, 'must have either command = ["…"] or url = "…"')
        if self.url is not None and self.env:
            raise PydanticCustomError(UNSHOWN, "must have headers_env in place of env: the server is a URL")
        if self.command is not None and self.headers_env:
            raise PydanticCustomError(UNSHOWN, "must have env in place of headers_env: the server is a command")
        return self


def _person_name(text: str) -> str:
    if not is_person(text):
        raise PydanticCustomError("person", 'must be "user:NAME" or "group:NAME"')
    return canonical_name(text)


PersonNames = Annotated[list[Annotated[str, AfterValidator(_person_name)]], Field(min_length=1)]


class AccessSection(Section):
    """`[access."GLOB"]`: who may do what with the runs of some blueprints."""

    see: PersonNames | None = None
    """Who may see the runs, their questions and their record, as `user:NAME` and `group:NAME`."""
    comment: PersonNames | None = None
    """Who may see them and comment on their questions."""
    answer: PersonNames | None = None
    """Who may answer questions without assignees."""
    start: PersonNames | None = None
    """Who may start runs of these blueprints."""
    steer: PersonNames | None = None
    """Who may pause, cancel, retry, fork and change runs, and reassign their questions."""
    administer: PersonNames | None = None
    """Who may do all of that."""

    def access(self) -> AccessPolicy:
        """Return its names."""
        return AccessPolicy(**{key: getattr(self, key) for key in CAPABILITIES})


class AccessTable(AccessSection):
    """`[access]`: who may do what with runs, and tables for the blueprints whose names a glob fits."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True, defer_build=True)
    __pydantic_extra__: dict[Line, AccessSection]

    @property
    def by_blueprint(self) -> Mapping[str, AccessSection]:
        """The tables by glob."""
        return self.__pydantic_extra__ or {}


class KeySection(Section):
    """An entry of `[answers] keys`: a key, the identity that it proves, and its scopes."""

    id: Name
    """The name of the key, which tokens carry."""
    env: Variable
    """The variable that holds the key."""
    proves: Literal["client", "person"] = "client"
    """What a token of this key proves: that a client sent the answer, or that a person has signed in."""
    scope: Annotated[list[Scope], Field(min_length=1)] = ["answer", "steer"]
    """What tokens of this key are good for."""


class AnswersSection(Section):
    """`[answers]`: if there is a key, every answer and every command needs a token made with one."""

    key_env: Line | None = None
    """The short form of one key, with all scopes, that proves a client."""
    keys: list[KeySection] = []
    """The keys, when there are several."""

    @model_validator(mode="after")
    def _distinct(self) -> AnswersSection:
        ids = [key.id for key in self.keys]
        if len(set(ids)) < len(ids):
            raise PydanticCustomError(UNSHOWN, "must have keys of different ids")
        if self.keys and self.key_env is not None:
            raise PydanticCustomError(UNSHOWN, "must have either keys or key_env; remove one of them")
        return self


PayloadStore = Annotated[
    str,
    _match(
        r"dir:.*\S|s3://[a-z0-9][a-z0-9.-]+(/.*)?|gs://[a-z0-9][a-z0-9._-]+(/.*)?|",
        'must be dir:PATH, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, or "" to keep every value in Temporal',
        "place",
    ),
]


class PayloadsSection(Section):
    """`[payloads]`: the store for large values."""

    external: PayloadStore | None = None
    """`dir:PATH`, `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX`, or "" for none. By default a folder of the local server;
    with a server of your own none."""


CacheStore = Annotated[
    str,
    _match(
        r"sqlite:(?!//|:).+|rediss?://[^/?#@\s]+(/\d*)?",
        "must be sqlite:PATH or redis://HOST:PORT/DB; a URL with a password goes into the variable of url_env",
    ),
]


class CacheSection(Section):
    """`[cache]`: the store for results of `cache` steps; by default a file in the state folder."""

    store: CacheStore | None = None
    """`sqlite:PATH` or `redis://HOST:PORT/DB`."""
    url_env: Variable | None = None
    """The variable that holds the URL of a Redis with a password."""

    @model_validator(mode="after")
    def _one(self) -> CacheSection:
        if self.store is not None and self.url_env is not None:
            raise PydanticCustomError(UNSHOWN, "must have either store or url_env; remove one of them")
        return self


def _reader(text: str) -> str:
    if not is_person(text):
        raise PydanticCustomError("person", 'must be "user:NAME" or "group:NAME"')
    return canonical_name(text)


Reader = Annotated[str, AfterValidator(_reader)]


class EncryptionKeySection(Section):
    """An entry of `[encryption] keys`: a key, by its id and where it comes from."""

    id: Annotated[Name, StringConstraints(max_length=64)]
    """The name of the key, which stands beside everything that it encrypts."""
    env: Variable | None = None
    """The variable that holds the key."""
    file: Line | None = None
    """The file that holds the key, relative to that of `holdfast.toml`; only its owner may read it."""
    command: Annotated[list[Text], Field(min_length=1)] | None = None
    """A command that prints the key, such as that of a key management service."""

    @model_validator(mode="after")
    def _one_source(self) -> EncryptionKeySection:
        if sum(source is not None for source in (self.env, self.file, self.command)) != 1:
            raise PydanticCustomError(UNSHOWN, 'must have one of env = "…", file = "…" and command = ["…"]')
        return self


class EncryptionSection(Section):
    """`[encryption]`: the keys by which payloads and the record are encrypted; without any they are not."""

    keys: list[EncryptionKeySection] = []
    """The first one encrypts, all of them decrypt."""
    readers: list[Reader] = []
    """The users and groups for whom `holdfast serve` decrypts what Temporal's UI and command line show it."""
    ui: Endpoint | None = None
    """The address of Temporal's UI, whose pages may ask for that in a reader's browser."""

    @model_validator(mode="after")
    def _different(self) -> EncryptionSection:
        ids = [key.id for key in self.keys]
        if len(set(ids)) < len(ids):
            raise PydanticCustomError(UNSHOWN, "must have keys of different ids")
        return self


Database = Annotated[
    str,
    _match(
        r"sqlite:(?!//|:).+|postgresql://([^/?#@:\s]+@)?[^/?#@\s]*/[^?#\s]+(\?\S*)?",
        "must be sqlite:PATH or postgresql://USER@HOST/DATABASE; one with a password goes into the variable of url_env",
    ),
]
PublicKey = Annotated[str, _match(r"[0-9a-f]{64}", "must be 64 hexadecimal digits, as checkpoints have them")]


class RecordSection(Section):
    """`[record]`: the database of the record, by default a file in the state folder, and the key of its checkpoints."""

    store: Database | None = None
    """`sqlite:PATH`, or `postgresql://USER@HOST/DATABASE` without a password."""
    url_env: Variable | None = None
    """The variable that holds the URL of a PostgreSQL with a password."""
    key_env: Variable | None = None
    """The variable that holds the key, 64 hexadecimal digits; by default it is made and kept in the state folder."""
    public_keys: list[PublicKey] = []
    """Keys of checkpoints that are trusted beside it, such as those of earlier keys."""

    @model_validator(mode="after")
    def _one_place(self) -> RecordSection:
        if self.store is not None and self.url_env is not None:
            raise PydanticCustomError(UNSHOWN, "must have either store or url_env; remove one of them")
        return self


SecretStore = Annotated[str, _match(r"dir:.*\S", "must be dir:PATH, a folder that clients and workers share")]


class SecretsSection(Section):
    """`[secrets]`: the store for answers to `ask: secret`."""

    store: SecretStore | None = None
    """`dir:PATH`. By default a folder of the local server; with a server of your own none."""
    key_env: Variable | None = None
    """The variable that holds the key by which the values of the store are encrypted, for clients and workers alike."""
    key: Literal["keyring"] | None = None
    """`keyring`: the key is in the keyring of the system, for clients and workers of one person on one machine."""
    env: list[Variable] = []
    """Variables of the worker's environment that an answer may refer to, as `secret:env/NAME`."""

    @model_validator(mode="after")
    def _one_key(self) -> SecretsSection:
        if self.key is not None and self.key_env is not None:
            raise PydanticCustomError(UNSHOWN, "must have either key_env or key: the store has one key")
        return self


def _network(text: str) -> str:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise PydanticCustomError("network", "must be an address or a network such as 10.0.0.5 or 10.0.0.0/8") from None
    return text


class OidcSection(Section):
    """`[serve.oidc]`: the OpenID Connect provider that signs people in."""

    issuer: Endpoint
    """The provider's issuer; its settings are read from `/.well-known/openid-configuration` under it."""
    client_id: Line
    """The name under which the provider knows the server."""
    client_secret_env: Variable | None = None
    """The variable that holds the client's secret; without it the client is public, and PKCE alone protects it."""
    user_claim: Line = "preferred_username"
    """The claim that names the user; `email` counts only if the provider says that it is verified."""
    groups_claim: Line | None = None
    """The claim that lists the user's groups; by default the groups of `[groups]` count."""
    scopes: Annotated[list[Line], Field(min_length=1)] = ["openid", "profile", "email"]
    """What the provider is asked for."""


class ServeSection(Section):
    """`[serve]`: the web server of people, and how they sign in."""

    blueprints: list[Line] = []
    """Folders, relative to the file, whose blueprints can be started from the pages and the API; or `pkg.mod:name`."""
    user: Member | None = None
    """The person of the one-time link; by default `HOLDFAST_USER`, else the login."""
    url: Endpoint | None = None
    """The address at which people reach the server, such as `https://inbox.example.com`."""
    hosts: list[Line] = []
    """Names in the Host header that are served, beside those of this machine and that of `url`."""
    session: Annotated[float, _AS_SECONDS] = 7 * 86400.0
    """Seconds after which an unused session of a browser ends; in the file any duration, such as 12h."""
    key_env: Variable | None = None
    """The variable that holds the key of links and forms; by default a key in the state folder."""
    user_header: Header | None = None
    """The header in which a proxy names the user."""
    groups_header: Header | None = None
    """The header in which a proxy lists the user's groups, separated by commas."""
    trusted_proxies: list[Annotated[str, AfterValidator(_network)]] = []
    """The addresses and networks whose headers are believed."""
    link_login: bool = False
    """True to let the holder of a link in a message answer its question; the answer is proved by `link`."""
    oidc: OidcSection | None = None
    """The provider that signs people in: see its own table."""
    languages: Line | None = None
    """The folder of own texts of the pages, relative to the file: one file for each language, such as `de.toml`."""

    @property
    def sign_in_has_groups(self) -> bool:
        """Whether a proxy or a provider says who is in which group, beside `[groups]`."""
        return self.groups_header is not None or (self.oidc is not None and self.oidc.groups_claim is not None)

    @model_validator(mode="after")
    def _complete(self) -> ServeSection:
        if self.user_header is not None and not self.trusted_proxies:
            message = "must have trusted_proxies beside user_header: anybody else could send the header"
            raise PydanticCustomError(UNSHOWN, message)
        if self.groups_header is not None and self.user_header is None:
            raise PydanticCustomError(UNSHOWN, "must have user_header beside groups_header")
        if self.oidc is not None and self.url is None:
            raise PydanticCustomError(UNSHOWN, 'must have url = "https://…" beside [serve.oidc]: people return to it')
        return self


Email = Annotated[str, _match(r"[^@\s<>,;]+@[^@\s<>,;]+", "must be an e-mail address", "email")]
Locale = Annotated[
    str,
    _match(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*", 'must be the tag of a language, such as "en" or "pt-BR"', "locale"),
]


def _day(value: object) -> date:
    if not isinstance(value, date):
        raise PydanticCustomError("day", "must be a date such as 2026-12-24, or a date with a time, without quotes")
    return value


class PersonSection(Section):
    """`[people.NAME]`: how `user:NAME` is told of questions, and who is told instead while they are away."""

    email: Email | None = None
    """Where messages to this person go."""
    locale: Locale | None = None
    """The language of messages to this person."""
    away_until: Annotated[date, PlainValidator(_day)] | None = None
    """The last day away or, as a `datetime`, the time of the return; without an offset in the machine's time zone."""
    deputy: Member | None = None
    """Who is told while this person is away. It gives no right to answer."""


NoticeKind = Literal[
    "asked", "reminded", "escalated", "expired", "accepted", "answered", "unreachable", "run_failed", "run_stuck"
]
NOTICE_KINDS: tuple[NoticeKind, ...] = get_args(NoticeKind)
USUAL_KINDS: tuple[NoticeKind, ...] = ("asked", "reminded", "escalated", "expired", "run_failed", "run_stuck")
"""What a channel tells of unless it says otherwise: what waits for somebody, or went wrong."""


def _addressee(text: str) -> str:
    if not (text == ANYONE or is_person(text)):
        raise PydanticCustomError("person", 'must be "user:NAME", "group:NAME" or "anyone"')
    return canonical_name(text)


Addressee = Annotated[str, AfterValidator(_addressee)]


MAX_CONCURRENCY = 8
"""Deliveries of one channel at the same time, where it does not say otherwise."""


class NotifySection(Section):
    """`[notify.NAME]`: a channel, over which people or systems are told of questions."""

    webhook: Endpoint | None = None
    """The URL that gets each event; a channel has one of `webhook`, `command` and `apprise_env`."""
    secret_env: Variable | None = None
    """The variable that holds the secret which signs what the webhook gets."""
    command: Annotated[list[Text], Field(min_length=1)] | None = None
    """The command that gets each event on its standard input."""
    env: list[Variable] = []
    """Variables that are passed to the command."""
    apprise_env: Variable | None = None
    """The variable that holds the URL of a service, as Apprise writes it."""
    templates: Line | None = None
    """The folder of own templates of messages."""
    locale: Locale | None = None
    """The language of messages to nobody in particular, or to somebody whose own is not known."""
    events: Annotated[list[NoticeKind], Field(min_length=1)] = list(USUAL_KINDS)
    """What is told: these, and also `accepted`, `answered`, `unreachable`."""
    to: Annotated[list[Addressee], Field(min_length=1)] | None = None
    """Whose questions: users, groups, and `anyone` for questions without assignees; by default all."""
    max_concurrency: Annotated[int, Field(ge=1, le=100)] = MAX_CONCURRENCY
    """Deliveries at the same time."""

    @model_validator(mode="after")
    def _check_fit(self) -> NotifySection:
        ways = [way for way in (self.webhook, self.command, self.apprise_env) if way is not None]
        if len(ways) != 1:
            raise PydanticCustomError(
                UNSHOWN, 'must have one of webhook = "https://…", command = ["…"] and apprise_env = "…"'
            )
        if self.secret_env is not None and self.webhook is None:
            raise PydanticCustomError(UNSHOWN, "must have no secret_env: only webhooks are signed")
        if self.env and self.command is None:
            raise PydanticCustomError(UNSHOWN, "must have no env: only commands take variables")
        if self.apprise_env is None and (self.templates or self.locale):
            raise PydanticCustomError(
                UNSHOWN, "must have no templates or locale: only messages of apprise_env are texts"
            )
        return self


class NotifyTable(Section):
    """`[notify]`: the channels by their names, and the one that hears of people who cannot be reached."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True, defer_build=True)
    __pydantic_extra__: dict[Name, NotifySection]
    fallback: Name | None = None
    """The channel that is told when nobody whom a question awaits can be."""

    @property
    def channels(self) -> Mapping[str, NotifySection]:
        """The channels by name."""
        return self.__pydantic_extra__ or {}

    @model_validator(mode="after")
    def _check_known(self) -> NotifyTable:
        if self.fallback is not None and self.fallback not in self.channels:
            raise PydanticCustomError(
                UNSHOWN,
                "fallback must be the name of a channel: {name} has no [notify.{name}]",
                {"name": self.fallback},
            )
        return self


class HookSection(Section):
    """`[hooks.NAME]`: a webhook that `serve` takes at `/hooks/NAME`; it starts a run, or brings an event."""

    blueprint: Line | None = None
    """The blueprint to start, of the folders of `[serve] blueprints`."""
    input: object = "{{ body }}"
    """Template of the run's input."""
    event: Annotated[str, StringConstraints(pattern=EVENT_NAME, max_length=100)] | None = None
    """The name of the event to bring."""
    key: Text | None = None
    """Template of the event's key."""
    payload: object = "{{ body }}"
    """Template of the event's payload."""
    run: Text | None = None
    """Template of the run that gets the event; by default those that wait for it."""
    secret_env: Variable
    """The variable that holds the secret; several, separated by spaces, while it is being changed."""
    signature: Literal["standard", "hmac-sha256"] = "standard"
    """How webhooks are signed: as Standard Webhooks says, or by an HMAC of the body."""
    signature_header: Header | None = None
    """With `hmac-sha256`: the header with the HMAC of the body, in hex."""
    id: Text | None = None
    """Template of the id that is the same each time that a webhook is sent; by default its header `webhook-id`."""
    tolerance: Annotated[float, _AS_SECONDS] = 300.0
    """How far the time of a webhook may be off; in the file any duration."""
    per_minute: Annotated[int, Field(ge=1)] = 600
    """The most that are taken in a minute."""

    @property
    def templates(self) -> Mapping[str, object]:
        """The templates by their keys, those that are given."""
        every = {"input": self.input, "key": self.key, "payload": self.payload, "run": self.run, "id": self.id}
        return {key: template for key, template in every.items() if template is not None}

    @model_validator(mode="after")
    def _check_fit(self) -> HookSection:
        if (self.blueprint is None) == (self.event is None):
            raise PydanticCustomError(UNSHOWN, 'must have either blueprint = "…" or event = "…"')
        if (self.event is None) != (self.key is None):
            raise PydanticCustomError(UNSHOWN, 'must have event and key together: key = "{{ body.… }}"')
        if self.run is not None and self.event is None:
            raise PydanticCustomError(UNSHOWN, "must have no run: the run's id follows from that of the webhook")
        if (self.signature == "standard") == (self.signature_header is not None):
            raise PydanticCustomError(UNSHOWN, 'must have signature_header with signature = "hmac-sha256" alone')
        if self.signature != "standard" and self.id is None:
            text = 'must have id = "{{ … }}": without it a webhook that is sent twice would count twice'
            raise PydanticCustomError(UNSHOWN, text)
        return self


class File(Section):
    """The contents of `holdfast.toml`."""

    worker: WorkerSection = WorkerSection.model_construct()
    """The modules that the worker imports, its task queue, the number of its processes."""
    models: dict[str, ModelSection] = {}
    """The models that agents refer to by a name of yours; `default` is that of agents without one."""
    mcp: dict[Name, McpSection] = {}
    """The MCP servers, by the names under which blueprints use them."""
    groups: Annotated[dict[str, list[Member]], AfterValidator(_by_name)] = {}
    """The members of each group: `legal = ["user:ana", "user:bob"]`."""
    people: Annotated[dict[str, PersonSection], AfterValidator(_by_name)] = {}
    """How people are told of questions, and who is told instead while they are away."""
    notify: NotifyTable = NotifyTable.model_construct()
    """The channels over which people and systems are told."""
    access: AccessTable | None = None
    """Who may do what with runs."""
    answers: AnswersSection = AnswersSection.model_construct()
    """The keys without which no answer and no command is taken."""
    payloads: PayloadsSection = PayloadsSection.model_construct()
    """The store for large values."""
    encryption: EncryptionSection = EncryptionSection.model_construct()
    """The keys by which payloads and the record are encrypted."""
    cache: CacheSection = CacheSection.model_construct()
    """The store for results of `cache` steps."""
    secrets: SecretsSection = SecretsSection.model_construct()
    """The store for answers to `ask: secret`."""
    serve: ServeSection = ServeSection.model_construct()
    """The web server of people, and how they sign in."""
    hooks: dict[Name, HookSection] = {}
    """The webhooks of other systems that start runs or bring events."""
    record: RecordSection = RecordSection.model_construct()
    """The database of the record, and the key of its checkpoints."""
    limits: SizeLimits = SizeLimits.model_construct()
    """How large a value may be: answers, inputs, tool results and model replies."""
