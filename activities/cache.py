"""What `cache` steps gave before, in a SQLite file or in Redis: shared by all workers that name the same place."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import json
import logging
import math
import re
import sqlite3
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import unquote, urlsplit

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.beating import beating
from activities.registry import wrong
from protocol.agents import CacheEntry, CacheHit, CacheLookup

log = logging.getLogger("holdfast.cache")

Result = TypeVar("Result")

LARGEST_BYTES = 1 << 20
"""Of a value's JSON; what is larger is not kept."""
SECONDS = 5.0
"""To connect, to be answered, or to wait for another process that writes."""
CONNECTIONS = 20
"""To Redis, at most, of one worker; further requests wait for their turn."""
SWEPT_ROWS = 100
"""Expired rows that a write takes along, so that none of them takes long."""

UNREACHABLE = "cache_unreachable"
"""The failure's type where the store cannot be used now, or refuses us."""
DAMAGED = "cache_damaged"
"""The failure's type where what is stored cannot be read."""

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
    "DELETE FROM holdfast_cache WHERE rowid IN "
    f"(SELECT rowid FROM holdfast_cache WHERE expires <= ? LIMIT {SWEPT_ROWS})"
)


class CacheStore(Protocol):
    """Values by key, some of them for a time only."""

    async def get(self, key: str) -> CacheHit: ...
    async def put(self, entry: CacheEntry) -> None: ...
    async def close(self) -> None: ...


class CacheActivities:
    """Looks up what `cache` steps gave, and keeps it."""

    def __init__(self, store: CacheStore) -> None:
        self._store = store

    @activity.defn(name="cache_get")
    async def cache_get(self, request: CacheLookup) -> CacheHit:
        async with beating():
            return await self._store.get(request.key)

    @activity.defn(name="cache_put")
    async def cache_put(self, entry: CacheEntry) -> None:
        """Keep a value; one that is too large is not kept, which only costs: its step will be run again."""
        size = len(_text(entry.value).encode())
        if size > LARGEST_BYTES:
            text = "not kept, so its step runs every time: the value of key %s has %d bytes, over %d"
            log.warning(text, entry.key, size, LARGEST_BYTES)
            return
        async with beating():
            await self._store.put(entry)


def store_at(place: str) -> CacheStore:
    """The store at `sqlite:PATH` or `redis://…`; nothing is opened yet.

    A place that is none, or a missing package, is a ValueError. It does not repeat the place: that may hold a password.
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
    """A file of one machine, made on first use; any number of its processes may share it. `:memory:` is no file."""

    def __init__(self, path: str, clock: Callable[[], float] = time.time) -> None:
        self._path, self._clock = path, clock
        self._connection: sqlite3.Connection | None = None
        # One thread of its own: a connection belongs to one, and tools may take all those that there are.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="cache")

    async def get(self, key: str) -> CacheHit:
        row = await self._asked(lambda connection: connection.execute(FIND, (key, self._clock())).fetchone())
        try:
            return _hit(row and row[0])
        except ValueError:
            raise self._damaged("a value is no JSON") from None

    async def put(self, entry: CacheEntry) -> None:
        await self._asked(lambda connection: self._keep(connection, entry))

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._leave)
        self._thread.shutdown(wait=False)

    def _keep(self, connection: sqlite3.Connection, entry: CacheEntry) -> None:
        now = self._clock()
        expires = None if entry.ttl is None else now + entry.ttl
        with connection:
            connection.execute(KEEP, (entry.key, _text(entry.value), expires))
            connection.execute(SWEEP, (now,))

    async def _asked(self, ask: Callable[[sqlite3.Connection], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._answer, ask)

    def _answer(self, ask: Callable[[sqlite3.Connection], Result]) -> Result:
        """In the thread. After a failure the file is opened anew, for somebody may have mended or deleted it."""
        try:
            return ask(self._opened())
        except sqlite3.DatabaseError as error:
            self._leave()
            raise self._failure(error) from None
        except OSError as error:
            raise self._unusable(error.strerror or type(error).__name__) from None

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            Path(self._path).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._connection = sqlite3.connect(self._path, timeout=SECONDS)
            self._connection.text_factory = bytes  # so that damaged text is found by us
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._connection.executescript(SCHEMA)
        return self._connection

    def _leave(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _failure(self, error: sqlite3.DatabaseError) -> ApplicationError:
        match error.sqlite_errorcode & 0xFF:
            case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
                return self._damaged(str(error))
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED | sqlite3.SQLITE_IOERR | sqlite3.SQLITE_FULL:
                return ApplicationError(f"the cache {self._path}: {error}", type=UNREACHABLE)
            case _:
                return self._unusable(str(error))

    def _damaged(self, said: str) -> ApplicationError:
        text = f"the cache {self._path} is damaged ({said}); delete the file, or name another one as [cache] store"
        return wrong(DAMAGED, text)

    def _unusable(self, said: str) -> ApplicationError:
        text = f"the cache {self._path} cannot be used: {said}; name a file that can be written as [cache] store"
        return wrong(UNREACHABLE, text)


class RedisStore:
    """A Redis server, over connections that stay open. The URL's password is in no message."""

    def __init__(self, url: str) -> None:
        self._url = url
        parts = urlsplit(url)
        self._name = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        # A server may repeat only the beginning of a command that it does not know.
        self._secrets = {one[:8] for one in (parts.password, unquote(parts.password or "")) if one}
        self._redis: Any = None
        self._client: Any = None

    async def get(self, key: str) -> CacheHit:
        text = await self._asked(lambda client: client.get(PREFIX + key))
        try:
            return _hit(text)
        except ValueError:
            hint = f"delete the key {PREFIX}{key}, or name a database of its own in [cache]"
            raise wrong(DAMAGED, f"the cache {self._name} holds a value that is no JSON; {hint}") from None

    async def put(self, entry: CacheEntry) -> None:
        milliseconds = None if entry.ttl is None else max(1, math.ceil(entry.ttl * 1000))
        await self._asked(lambda client: client.set(PREFIX + entry.key, _text(entry.value), px=milliseconds))

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()

    async def _asked(self, ask: Callable[[Any], Awaitable[Any]]) -> Any:
        client = await self._connected()
        try:
            async with asyncio.timeout(2 * SECONDS):
                return await ask(client)
        except TimeoutError:
            raise ApplicationError(f"{self._unreached}: no answer in {2 * SECONDS:g} s", type=UNREACHABLE) from None
        except self._redis.RedisError as error:
            raise self._failure(error) from None  # without its cause, which would be written into the history

    async def _connected(self) -> Any:
        """The client. Importing its library takes a quarter of a second, so it waits until it is needed."""
        if self._client is None:
            self._redis = await asyncio.to_thread(importlib.import_module, "redis")
            self._client = self._client or self._made()
        return self._client

    def _made(self) -> Any:
        client = self._redis.asyncio
        how = {
            "socket_connect_timeout": SECONDS,
            "socket_timeout": SECONDS,
            "retry": client.retry.Retry(self._redis.backoff.NoBackoff(), 0),  # it is Temporal that tries again
            "protocol": 2,  # the one that every Redis, and what speaks like it, knows
        }
        pool = client.BlockingConnectionPool.from_url(self._url, max_connections=CONNECTIONS, timeout=SECONDS, **how)
        return client.Redis.from_pool(pool)

    def _failure(self, error: Exception) -> ApplicationError:
        if isinstance(error, self._refusals()):
            text = f"the cache {self._name} refuses the worker: {self._said(error)}"
            return wrong(UNREACHABLE, f"{text}; look at the URL in the variable that [cache] url_env names")
        return ApplicationError(f"{self._unreached}: {self._said(error)}", type=UNREACHABLE)

    @property
    def _unreached(self) -> str:
        return f"the cache {self._name} cannot be reached (is it running? is [cache] right?)"

    def _refusals(self) -> tuple[type[Exception], ...]:
        known = self._redis.exceptions
        wrong_number = known.AuthenticationWrongNumberOfArgsError
        return known.AuthenticationError, known.AuthorizationError, known.NoPermissionError, wrong_number

    def _said(self, error: Exception) -> str:
        text = str(error)
        return type(error).__name__ if any(secret in text for secret in self._secrets) else text


def _is_redis(place: str) -> bool:
    if not REDIS.fullmatch(place):
        return False
    try:
        return urlsplit(place).port != 0
    except ValueError:  # over 65535, or no address in its brackets
        return False


def _hit(text: bytes | None) -> CacheHit:
    return CacheHit() if text is None else CacheHit(found=True, value=json.loads(text))


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
