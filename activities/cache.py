"""The cache of `cache` steps, in a SQLite file or in Redis: shared by all workers that name the same store."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import logging
import math
import os
import re
import sqlite3
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Protocol, TypeVar
from urllib.parse import unquote, urlsplit

from temporalio import activity
from temporalio.exceptions import ApplicationError

from holdfast.activities.attempts import run_attempt
from holdfast.activities.imports import import_alone
from holdfast.activities.registry import wrong
from holdfast.blueprint.json_values import JSON
from holdfast.protocol.agents import CACHE_GET, CACHE_PUT, CacheEntry, CacheHit, CacheLookup
from holdfast.protocol.sqlite_log import turn_on_log

log = logging.getLogger("holdfast.cache")

if TYPE_CHECKING:  # an extra, loaded when it is first used
    from redis.asyncio import Redis

Result = TypeVar("Result")
Reply = TypeVar("Reply")

MEMORY = ":memory:"
LARGEST_BYTES = 1 << 20
"""Largest JSON of a value that is kept."""
SECONDS = 5.0
"""Limit for connecting, for a reply, and for waiting on another process that writes."""
CONNECTIONS = 20
"""Largest number of connections of a worker to Redis; further requests wait for one."""
SWEPT_ROWS = 100
"""Number of expired rows that each write deletes: few, so that no write takes long."""

UNREACHABLE = "cache_unreachable"
"""Failure type: the store cannot be used now, or refuses the worker."""
DAMAGED = "cache_damaged"
"""Failure type: a stored value cannot be read."""

PREFIX = "holdfast:cache:"
REDIS = re.compile(r"rediss?://([^/?#@\s]*@)?([^/?#@\s:\[\]]+|\[[0-9A-Fa-f:.]+])(:\d+)?(/\d*)?")
PLACES = (
    "must be sqlite:PATH or redis://HOST:PORT/DB (rediss:// for TLS); with a password "
    "redis://USER:PASSWORD@HOST:PORT/DB, where / ? # @ and spaces are written %2F %3F %23 %40 %20"
)

SCHEMA = """
CREATE TABLE IF NOT EXISTS holdfast_cache (key TEXT PRIMARY KEY, value TEXT NOT NULL, expires REAL);
CREATE INDEX IF NOT EXISTS holdfast_cache_expires ON holdfast_cache (expires) WHERE expires IS NOT NULL;
"""
FIND = "SELECT value FROM holdfast_cache WHERE key = ? AND (expires IS NULL OR expires > ?)"
KEEP = "INSERT OR REPLACE INTO holdfast_cache (key, value, expires) VALUES (?, ?, ?)"
SWEEP = (
    "DELETE FROM holdfast_cache WHERE rowid IN "  # the number is ours  # nosec B608
    f"(SELECT rowid FROM holdfast_cache WHERE expires <= ? LIMIT {SWEPT_ROWS})"
)


class CacheStore(Protocol):
    """A store of values by key, optionally with a time to live."""

    async def get(self, key: str) -> CacheHit: ...
    async def put(self, entry: CacheEntry) -> None: ...
    async def close(self) -> None: ...


class CacheActivities:
    """The activities that look up and keep the outputs of `cache` steps."""

    def __init__(self, store: CacheStore) -> None:
        self._store = store

    @activity.defn(name=CACHE_GET)
    async def cache_get(self, request: CacheLookup) -> CacheHit:
        """Return the value under a key, if there is one."""
        async with run_attempt(request):
            return await self._store.get(request.key)

    @activity.defn(name=CACHE_PUT)
    async def cache_put(self, entry: CacheEntry) -> None:
        """Keep a value. One that is too large is logged and dropped, since its step can simply run again."""
        size = len(_text(entry.value).encode())
        if size > LARGEST_BYTES:
            text = "not kept, so its step runs every time: the value of key %s has %d bytes, over %d"
            log.warning(text, entry.key, size, LARGEST_BYTES)
            return
        async with run_attempt(entry):
            await self._store.put(entry)


def store_at(place: str) -> CacheStore:
    """Return the store at `sqlite:PATH` or `redis://…`, without opening it.

    Raises `ValueError` for another place, and for a missing package. The message does not repeat the place, which may
    contain a password.
    """
    scheme, _, path = place.partition(":")
    if scheme == "sqlite" and path:
        return SqliteStore(path)
    if not _is_redis(place):
        raise ValueError(PLACES)
    if importlib.util.find_spec("redis") is None:
        raise ValueError("a cache in Redis needs the redis package: pip install 'holdfast[redis]'")
    return RedisStore(place)


class SqliteStore:
    """A store in a file, created on first use, that any number of processes of one machine may share.

    The path `MEMORY` keeps it in memory.
    """

    def __init__(self, path: str, clock: Callable[[], float] = time.time) -> None:
        self._path, self._clock = path, clock
        self._connection: sqlite3.Connection | None = None
        # A thread of its own: a connection belongs to one thread, and tools may occupy all of the shared pool.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="cache")

    async def get(self, key: str) -> CacheHit:
        row = await self._in_thread(lambda connection: connection.execute(FIND, (key, self._clock())).fetchone())
        try:
            return _hit(row and row[0])
        except ValueError:
            raise self._make_damage("a value is not JSON") from None

    async def put(self, entry: CacheEntry) -> None:
        await self._in_thread(lambda connection: self._keep(connection, entry))

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._disconnect)
        self._thread.shutdown(wait=False)

    def _keep(self, connection: sqlite3.Connection, entry: CacheEntry) -> None:
        now = self._clock()
        expires = None if entry.ttl is None else now + entry.ttl
        with connection:
            connection.execute(KEEP, (entry.key, _text(entry.value), expires))
            connection.execute(SWEEP, (now,))

    async def _in_thread(self, access: Callable[[sqlite3.Connection], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._run, access)

    def _run(self, access: Callable[[sqlite3.Connection], Result]) -> Result:
        try:
            return access(self._connect())
        except sqlite3.DatabaseError as error:
            # The next access opens the file again: a person may have repaired or deleted it by then.
            self._disconnect()
            raise self._failure(error) from None
        except OSError as error:
            raise self._unusable(error.strerror or type(error).__name__) from None

    def _connect(self) -> sqlite3.Connection:
        if self._connection is None:
            if self._path != MEMORY:
                Path(self._path).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                # It holds what steps returned: for its owner alone, from the first moment.
                os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
            self._connection = sqlite3.connect(self._path, timeout=SECONDS)
            self._connection.text_factory = bytes  # damaged text then fails in `_hit`, and not inside sqlite3
            turn_on_log(self._connection, SECONDS)
            # A crash of the machine may cost the last values, and their steps run again. FULL would wait for the disk
            # each time.
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._connection.executescript(SCHEMA)
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _failure(self, error: sqlite3.DatabaseError) -> ApplicationError:
        match error.sqlite_errorcode & 0xFF:
            case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
                return self._make_damage(str(error))
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED | sqlite3.SQLITE_IOERR | sqlite3.SQLITE_FULL:
                return ApplicationError(f"the cache {self._path}: {error}", type=UNREACHABLE)
            case _:
                return self._unusable(str(error))

    def _make_damage(self, reason: str) -> ApplicationError:
        text = f"the cache {self._path} is damaged ({reason}); delete the file, or name another one as [cache] store"
        return wrong(DAMAGED, text)

    def _unusable(self, reason: str) -> ApplicationError:
        text = f"the cache {self._path} cannot be used: {reason}; name a file that can be written as [cache] store"
        return wrong(UNREACHABLE, text)


class RedisStore:
    """A store on a Redis server, over connections that stay open. No message contains the URL's password."""

    def __init__(self, url: str) -> None:
        self._url = url
        parts = urlsplit(url)
        self._name = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        # The first characters only: a server may repeat just the beginning of a command that it does not know.
        self._secrets = {secret[:8] for secret in (parts.password, unquote(parts.password or "")) if secret}
        self._redis: ModuleType
        self._client: Redis | None = None

    async def get(self, key: str) -> CacheHit:
        text = await self._request(lambda client: client.get(PREFIX + key))
        try:
            return _hit(text)
        except ValueError:
            hint = f"delete the key {PREFIX}{key}, or name a database of its own in [cache]"
            raise wrong(DAMAGED, f"the cache {self._name} holds a value that is not JSON; {hint}") from None

    async def put(self, entry: CacheEntry) -> None:
        milliseconds = None if entry.ttl is None else max(1, math.ceil(entry.ttl * 1000))
        await self._request(lambda client: client.set(PREFIX + entry.key, _text(entry.value), px=milliseconds))

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()

    async def _request(self, send: Callable[[Redis], Awaitable[Reply]]) -> Reply:
        client = await self._connect()
        try:
            async with asyncio.timeout(2 * SECONDS):
                return await send(client)
        except TimeoutError:
            raise ApplicationError(f"{self._unreached}: no answer in {2 * SECONDS:g} s", type=UNREACHABLE) from None
        except self._redis.RedisError as error:
            # Without its cause, which would be written into the history, perhaps with the password.
            raise self._failure(error) from None

    async def _connect(self) -> Redis:
        if self._client is None:
            # Importing the library takes a quarter of a second: not before it is needed, and not in the event loop.
            self._redis = await asyncio.to_thread(import_alone, "redis")
            self._client = self._client or self._new_client()
        return self._client

    def _new_client(self) -> Redis:
        library = self._redis.asyncio
        options = {
            "socket_connect_timeout": SECONDS,
            "socket_timeout": SECONDS,
            "retry": library.retry.Retry(self._redis.backoff.NoBackoff(), 0),  # Temporal retries
            "protocol": 2,  # every Redis, and every server compatible with it, speaks this one
        }
        pool = library.BlockingConnectionPool.from_url(
            self._url, max_connections=CONNECTIONS, timeout=SECONDS, **options
        )
        client: Redis = library.Redis.from_pool(pool)
        return client

    def _failure(self, error: Exception) -> ApplicationError:
        if isinstance(error, self._refusals()):
            text = f"the cache {self._name} refuses the worker: {self._message(error)}"
            return wrong(UNREACHABLE, f"{text}; look at the URL in the variable that [cache] url_env names")
        return ApplicationError(f"{self._unreached}: {self._message(error)}", type=UNREACHABLE)

    @property
    def _unreached(self) -> str:
        return f"the cache {self._name} cannot be reached (is it running? is [cache] right?)"

    def _refusals(self) -> tuple[type[Exception], ...]:
        errors = self._redis.exceptions
        wrong_number = errors.AuthenticationWrongNumberOfArgsError
        return errors.AuthenticationError, errors.AuthorizationError, errors.NoPermissionError, wrong_number

    def _message(self, error: Exception) -> str:
        text = str(error)
        return type(error).__name__ if any(secret in text for secret in self._secrets) else text


def _is_redis(place: str) -> bool:
    if not REDIS.fullmatch(place):
        return False
    try:
        return urlsplit(place).port != 0
    except ValueError:  # over 65535, or no address in its brackets
        return False


def _hit(text: bytes | str | None) -> CacheHit:
    return CacheHit() if text is None else CacheHit(found=True, value=json.loads(text))


def _text(value: JSON) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
