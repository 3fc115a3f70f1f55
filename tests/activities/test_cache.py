"""What `cache` steps gave: in memory, in a file that processes share, and in a Redis (a fake one, over TCP)."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import sqlite3
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from fakeredis import TcpFakeServer
from temporalio import activity
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from holdfast.activities import all_activities
from holdfast.activities.cache import (
    LARGEST_BYTES,
    PREFIX,
    CacheActivities,
    CacheStore,
    RedisStore,
    SqliteStore,
    store_at,
)
from holdfast.protocol.agents import CacheEntry, CacheHit, CacheLookup
from holdfast.protocol.sqlite_log import turn_on_log
from holdfast.runtime.config import ConfigError, load_config
from holdfast.worker import main
from tests.repository import ROOT

MISS = CacheHit()
NESTED = {
    "ключ": ["é", "𝄞", "a\n\t\"'\u2028", {"": None}],
    "numbers": [0, -1, 2**63, 0.1, 1e300, True, False],
    "none": None,
    "empty": [[], {}, ""],
}


class Clock:
    """Time that stands until it is told."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def opened(store: CacheStore) -> AsyncIterator[CacheStore]:
    try:
        yield store
    finally:
        await store.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """In a folder that is not there yet."""
    return tmp_path / "state" / "cache.db"


class Listening(TcpFakeServer):
    request_queue_size = 100  # of five, the system resets some of the connections that come at once


@contextmanager
def serving(port: int = 0) -> Iterator[TcpFakeServer]:
    listening = Listening(("127.0.0.1", port))
    thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield listening
    finally:
        listening.shutdown()
        listening.server_close()
        thread.join()


@pytest.fixture
def server() -> Iterator[TcpFakeServer]:
    with serving() as listening:
        yield listening


def url(server: TcpFakeServer, user: str = "") -> str:
    return f"redis://{user}127.0.0.1:{server.server_address[1]}/2"


def seen_by_others(server: TcpFakeServer) -> redis.Redis:
    return redis.Redis(port=server.server_address[1], db=2, protocol=2)


@pytest.fixture(params=["memory", "file", "redis"])
async def store(request: pytest.FixtureRequest, file: Path) -> AsyncIterator[CacheStore]:
    match request.param:
        case "memory":
            made = store_at("sqlite::memory:")
        case "file":
            made = store_at(f"sqlite:{file}")
        case _:
            made = store_at(url(request.getfixturevalue("server")))
    async with opened(made):
        yield made


async def failure(store: CacheStore, key: str = "k") -> ApplicationError:
    with pytest.raises(ApplicationError) as caught:
        await store.get(key)
    return caught.value


def rows(file: Path) -> list[Any]:
    connection = sqlite3.connect(file)
    found = connection.execute("SELECT key FROM holdfast_cache ORDER BY key").fetchall()
    connection.close()
    return [key for [key] in found]


async def test_what_was_never_put_is_not_found(store: CacheStore) -> None:
    assert await store.get("k") == MISS


async def test_what_was_put_is_found_under_its_key_alone(store: CacheStore) -> None:
    await store.put(CacheEntry(key="k", value={"output": 1}))
    assert await store.get("k") == CacheHit(found=True, value={"output": 1})
    assert await store.get("K") == MISS


async def test_null_is_a_value(store: CacheStore) -> None:
    await store.put(CacheEntry(key="k"))
    assert await store.get("k") == CacheHit(found=True, value=None)


async def test_a_later_value_takes_the_place_of_the_earlier_one_and_of_its_time(store: CacheStore) -> None:
    await store.put(CacheEntry(key="k", value="old", ttl=60))
    await store.put(CacheEntry(key="k", value="new"))
    assert (await store.get("k")).value == "new"


async def test_nested_json_and_every_script_come_back_unchanged(store: CacheStore) -> None:
    await store.put(CacheEntry(key="ключ 𝄞", value=NESTED))
    found = (await store.get("ключ 𝄞")).value
    assert json.dumps(found) == json.dumps(NESTED)


async def test_many_at_a_time_all_find_their_own(store: CacheStore) -> None:
    await asyncio.gather(*(store.put(CacheEntry(key=str(n), value=n)) for n in range(60)))
    found = await asyncio.gather(*(store.get(str(n)) for n in range(60)))
    assert [hit.value for hit in found] == list(range(60))


async def test_a_value_is_given_until_its_time_is_over(file: Path) -> None:
    clock = Clock()
    async with opened(SqliteStore(str(file), clock)) as store:
        await store.put(CacheEntry(key="k", value=1, ttl=60))
        clock.now += 59.9
        assert (await store.get("k")).found
        clock.now += 0.1
        assert await store.get("k") == MISS


async def test_expired_values_are_deleted_by_the_next_write(file: Path) -> None:
    clock = Clock()
    async with opened(SqliteStore(str(file), clock)) as store:
        for key, ttl in (("short", 1), ("long", 100), ("ever", None)):
            await store.put(CacheEntry(key=key, ttl=ttl))
        clock.now += 10
        assert rows(file) == ["ever", "long", "short"]
        await store.put(CacheEntry(key="new"))
        assert rows(file) == ["ever", "long", "new"]


async def test_a_restart_keeps_what_is_in_the_file(file: Path) -> None:
    async with opened(store_at(f"sqlite:{file}")) as before:
        await before.put(CacheEntry(key="k", value=1))
    async with opened(store_at(f"sqlite:{file}")) as after:
        assert (await after.get("k")).value == 1
    assert file.stat().st_mode & 0o077 == 0


WRITER = """
import asyncio, sys
from holdfast.activities.cache import store_at
from holdfast.protocol.agents import CacheEntry

async def write(path, who):
    store = store_at(f"sqlite:{path}")
    for n in range(50):
        await store.put(CacheEntry(key="k", value=[who] * 5000))
        assert len(set((await store.get("k")).value)) == 1
    await store.close()

asyncio.run(write(*sys.argv[1:]))
"""


@pytest.mark.slow
async def test_processes_that_write_the_same_key_leave_one_whole_value(file: Path) -> None:
    command = (sys.executable, "-c", WRITER, str(file))
    writing = [await asyncio.create_subprocess_exec(*command, who, cwd=ROOT) for who in ("ana", "ben")]
    assert [await process.wait() for process in writing] == [0, 0]
    async with opened(store_at(f"sqlite:{file}")) as store:
        assert (await store.get("k")).value in (["ana"] * 5000, ["ben"] * 5000)


async def test_a_new_file_that_another_process_is_making_is_waited_for(file: Path, monkeypatch) -> None:
    file.parent.mkdir()
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    waited: list[float] = []

    def release(seconds: float) -> None:
        waited.append(seconds)
        other.close()

    clock = SimpleNamespace(monotonic=time.monotonic, sleep=release)
    monkeypatch.setattr("holdfast.protocol.sqlite_log.time", clock)
    connection = sqlite3.connect(file)
    turn_on_log(connection, 60)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert len(waited) == 1
    connection.close()


async def test_a_file_that_another_process_holds_may_be_tried_again(file: Path, monkeypatch) -> None:
    monkeypatch.setattr("holdfast.activities.cache.SECONDS", 0.01)
    async with opened(store_at(f"sqlite:{file}")) as store:
        await store.put(CacheEntry(key="k", value=1))
        other = sqlite3.connect(file, isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(ApplicationError, match="database is locked") as caught:
            await store.put(CacheEntry(key="k", value=2))
        assert (caught.value.type, caught.value.non_retryable) == ("cache_unreachable", False)
        other.execute("ROLLBACK")
        other.close()
        await store.put(CacheEntry(key="k", value=3))
        assert (await store.get("k")).value == 3


async def test_a_damaged_file_is_told_with_the_way_out_that_works_at_once(file: Path) -> None:
    file.parent.mkdir()
    file.write_bytes(b"no database" * 1000)
    async with opened(store_at(f"sqlite:{file}")) as store:
        told = await failure(store)
        assert (told.type, told.non_retryable) == ("cache_damaged", True)
        assert f"{file} is damaged (file is not a database); delete the file" in told.message
        file.unlink()
        await store.put(CacheEntry(key="k", value=1))
        assert (await store.get("k")).value == 1


async def test_a_file_that_is_damaged_inside_is_told_too(file: Path) -> None:
    async with opened(store_at(f"sqlite:{file}")) as store:
        await store.put(CacheEntry(key="k", value="x" * 20_000))
    whole = file.read_bytes()
    file.write_bytes(whole[:4096] + b"\x13" * (len(whole) - 4096))
    async with opened(store_at(f"sqlite:{file}")) as store:
        assert (await failure(store)).type == "cache_damaged"


async def test_a_value_in_the_file_that_is_no_json_is_told(file: Path) -> None:
    async with opened(store_at(f"sqlite:{file}")) as store:
        await store.put(CacheEntry(key="k", value="x"))
        other = sqlite3.connect(file)
        other.execute("UPDATE holdfast_cache SET value = CAST(x'22ff22' AS TEXT)")
        other.commit()
        other.close()
        assert "is damaged (a value is not JSON)" in (await failure(store)).message


@pytest.mark.parametrize("place", ["taken/cache.db", "."])
async def test_a_place_that_cannot_hold_a_file_is_told_and_not_tried_again(tmp_path: Path, place: str) -> None:
    (tmp_path / "taken").write_text("a file where a folder should be")
    async with opened(store_at(f"sqlite:{tmp_path / place}")) as store:
        told = await failure(store)
    assert (told.type, told.non_retryable) == ("cache_unreachable", True)
    assert re.search(r"cannot be used: .*; name a file that can be written as \[cache\] store", told.message)


async def test_redis_gets_prefixed_keys_json_text_and_the_time_to_live(server: TcpFakeServer) -> None:
    async with opened(store_at(url(server))) as store:
        await store.put(CacheEntry(key="timed", value={"é": 1}, ttl=90.5))
        await store.put(CacheEntry(key="ever", value=[]))
        await store.put(CacheEntry(key="instant", value=1, ttl=0.0001))
    there = seen_by_others(server)
    assert there.get(f"{PREFIX}timed") == '{"é":1}'.encode()
    assert 60_000 < there.pttl(f"{PREFIX}timed") <= 90_500
    assert there.pttl(f"{PREFIX}ever") == -1
    there.close()


async def test_redis_in_which_somebody_else_wrote_is_told(server: TcpFakeServer) -> None:
    there = seen_by_others(server)
    there.set(f"{PREFIX}k", b"\xff{")
    there.close()
    async with opened(store_at(url(server))) as store:
        told = await failure(store)
    assert (told.type, told.non_retryable) == ("cache_damaged", True)
    assert f"delete the key {PREFIX}k" in told.message


async def test_redis_with_the_right_password_is_used(server: TcpFakeServer) -> None:
    server.fake_server.config[b"requirepass"] = b"s3cr/t p@ss"
    async with opened(store_at(url(server, ":s3cr%2Ft%20p%40ss@"))) as store:
        await store.put(CacheEntry(key="k", value=1))
        assert (await store.get("k")).value == 1


async def test_redis_that_refuses_the_password_is_not_tried_again_and_the_password_not_told(
    server: TcpFakeServer,
) -> None:
    server.fake_server.config[b"requirepass"] = b"the right one"
    async with opened(store_at(url(server, "default:wr0ng-secret@"))) as store:
        told = await failure(store)
    assert (told.type, told.non_retryable, told.__cause__) == ("cache_unreachable", True, None)
    assert re.search(r"redis://127.0.0.1:\d+/2 refuses the worker: .*look at the URL in the variable", told.message)
    assert "wr0ng" not in told.message


async def test_a_password_that_the_server_repeats_is_not_told() -> None:
    """A Redis does so of commands that it does not know, and only with their beginning."""

    async def repeat(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"-ERR unknown command `AUTH`, with args beginning with: `wr0ng-sec\r\n")
        writer.close()

    listening = await asyncio.start_server(repeat, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    async with opened(store_at(f"redis://:wr0ng-secret@127.0.0.1:{port}")) as store:
        told = await failure(store)
    listening.close()
    assert told.message.endswith(": ResponseError")


async def test_redis_that_is_not_there_may_be_tried_again() -> None:
    async with opened(store_at("redis://:secret@127.0.0.1:1/0")) as store:
        told = await failure(store)
    assert (told.type, told.non_retryable) == ("cache_unreachable", False)
    assert "the cache redis://127.0.0.1:1/0 cannot be reached (is it running? is [cache] right?)" in told.message
    assert "secret" not in told.message


async def test_redis_that_was_restarted_is_used_again() -> None:
    with serving() as first:
        store = store_at(url(first))
        await store.put(CacheEntry(key="k", value=1))
    async with opened(store):
        assert (await failure(store)).non_retryable is False
        with serving(first.server_address[1]):
            assert await store.get("k") == MISS


async def test_a_connection_that_died_meanwhile_is_opened_anew_unnoticed() -> None:
    with serving() as first:
        store = store_at(url(first))
        await store.put(CacheEntry(key="k", value=1))
    async with opened(store):
        for _ in range(20):  # rounds of the event loop, until it has seen the end of the connection
            await asyncio.sleep(0)
        with serving(first.server_address[1]):
            assert await store.get("k") == MISS


async def test_redis_that_never_answers_is_given_up(monkeypatch) -> None:
    monkeypatch.setattr("holdfast.activities.cache.SECONDS", 0.05)
    silent = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    async with opened(store_at(f"redis://127.0.0.1:{silent.sockets[0].getsockname()[1]}")) as store:
        assert (await failure(store)).type == "cache_unreachable"
    silent.close()


async def test_the_activities_keep_and_find() -> None:
    get, put = (one for one in all_activities([], {}) if "cache" in one.__name__)
    environment = ActivityEnvironment()
    await environment.run(put, CacheEntry(key="k", value=1))
    assert await environment.run(get, CacheLookup(key="k")) == CacheHit(found=True, value=1)
    assert {activity._Definition.must_from_callable(one).name for one in (get, put)} == {"cache_get", "cache_put"}


async def test_a_value_over_a_mebibyte_is_not_kept_and_the_log_says_so(caplog) -> None:
    store = store_at("sqlite::memory:")
    activities, environment = CacheActivities(store), ActivityEnvironment()
    with caplog.at_level(logging.WARNING, "holdfast.cache"):
        await environment.run(activities.cache_put, CacheEntry(key="small", value="x" * (LARGEST_BYTES - 2)))
        assert caplog.messages == []
        await environment.run(activities.cache_put, CacheEntry(key="large", value="é" * (LARGEST_BYTES // 2)))
    assert caplog.messages == [
        "not kept, so its step runs every time: the value of key large has 1048578 bytes, over 1048576"
    ]
    async with opened(store):
        assert ((await store.get("small")).found, (await store.get("large")).found) == (True, False)
    assert not Path(":memory:").exists()


@pytest.mark.parametrize(
    "place",
    [
        "",
        "sqlite:",
        "memory",
        "redis:",
        "redis://",
        "redis://:pass/word@host:1/0",
        "redis://host:99999/0",
        "redis://[::z]/0",
        "redis://host/zero",
        "redis://host:1/0?password=hunter2",
        "unix:///run/redis.sock",
    ],
)
def test_a_place_that_is_none_is_refused_without_repeating_it(place: str) -> None:
    with pytest.raises(ValueError, match=r"^must be sqlite:PATH or redis://HOST:PORT/DB") as caught:
        store_at(place)
    assert "word@" not in str(caught.value) and "hunter2" not in str(caught.value)


@pytest.mark.parametrize("place", ["redis://h", "rediss://user:p%40ss@host.example:6380/15", "redis://[::1]:6379/0"])
def test_every_form_of_a_redis_url_is_taken(place: str) -> None:
    assert isinstance(store_at(place), RedisStore)


def test_without_the_redis_package_the_error_says_what_to_install(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(ValueError, match=re.escape("pip install 'holdfast[redis]'")):
        store_at("redis://localhost:6379/0")


def configured(folder: Path, text: str) -> str:
    (folder / "holdfast.toml").write_text(text)
    return load_config(folder).cache_place()


def test_by_default_it_is_a_file_of_the_state_folder(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.delenv("HOLDFAST_HOME", raising=False)
    assert configured(tmp_path, "") == f"sqlite:{tmp_path}/.holdfast/cache.db"
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "elsewhere"))
    assert configured(tmp_path, "") == f"sqlite:{tmp_path}/elsewhere/cache.db"


def test_a_path_is_relative_to_the_projects_folder(tmp_path: Path) -> None:
    assert configured(tmp_path, '[cache]\nstore = "sqlite:kept/a b.db"\n') == f"sqlite:{tmp_path}/kept/a b.db"
    assert configured(tmp_path, '[cache]\nstore = "sqlite:/var/kept.db"\n') == "sqlite:/var/kept.db"


def test_a_redis_is_named_as_it_is_or_by_the_variable_that_holds_its_url(tmp_path: Path, monkeypatch) -> None:
    assert configured(tmp_path, '[cache]\nstore = "rediss://host:6380/1"\n') == "rediss://host:6380/1"
    monkeypatch.setenv("MY_REDIS", "redis://:secret@host/0")
    assert configured(tmp_path, '[cache]\nurl_env = "MY_REDIS"\n') == "redis://:secret@host/0"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('store = "memcached://h"', "2: cache.store: must be sqlite:PATH or redis://HOST:PORT/DB"),
        ('store = "sqlite:///cache.db"', "2: cache.store: must be sqlite:PATH or redis://HOST:PORT/DB"),
        ('store = "sqlite::memory:"', "2: cache.store: must be sqlite:PATH or redis://HOST:PORT/DB"),
        ('store = "redis://:hunter2@h/0"', "2: cache.store: .*; a URL with a password goes into the variable of url_e"),
        ('url_env = "redis://:hunter2@h/0"', "2: cache.url_env: must be the name of an environment variable"),
        ('url_env = "A"\nstore = "sqlite:a"', "1: cache: must have either store or url_env; remove one of them"),
        ('stroe = "sqlite:a"', r"2: cache.stroe: unknown key \(did you mean 'store'\?\)"),
    ],
)
def test_a_bad_section_names_line_key_and_way_out(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        configured(tmp_path, f"[cache]\n{text}\n")
    assert re.match(f"{tmp_path}/holdfast.toml:{expected}", str(caught.value))
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("", "cache.url_env: MY_REDIS is not set; export MY_REDIS=…"),
        ("redis://:hunter2/x@h", "cache.url_env: must be sqlite:PATH or redis://HOST:PORT/DB"),
    ],
)
@pytest.mark.usefixtures("root_logger")
def test_a_worker_does_not_start_with_a_variable_that_holds_no_url(
    tmp_path: Path, monkeypatch, capsys, value: str, expected: str
) -> None:
    (tmp_path / "holdfast.toml").write_text('[cache]\nurl_env = "MY_REDIS"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MY_REDIS", value)
    assert main() == 2
    log = capsys.readouterr().err
    assert f"{tmp_path}/holdfast.toml: {expected}" in log
    assert "hunter2" not in log
