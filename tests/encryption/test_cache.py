"""The cache of `cache` steps under `[encryption]`: neither its values nor its keys tell anything, and keys change."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from holdfast.activities.cache import SqliteStore
from holdfast.protocol.agents import CacheEntry, CacheHit
from holdfast.runtime.encryption import KeyRing
from holdfast.runtime.sealed_cache import SealedCache

OLD, NEW = {"old": "o" * 40}, {"new": "n" * 40}
KEY, VALUE = "0123abcd", {"output": "the merger"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "cache.db"


def cache_of(file: Path, keys: dict[str, str]) -> SealedCache:
    return SealedCache(SqliteStore(str(file)), KeyRing(keys))


async def kept(file: Path, keys: dict[str, str]) -> None:
    cache = cache_of(file, keys)
    await cache.put(CacheEntry(key=KEY, value=VALUE))
    await cache.close()


async def found(file: Path, keys: dict[str, str]) -> CacheHit:
    cache = cache_of(file, keys)
    hit = await cache.get(KEY)
    await cache.close()
    return hit


async def test_a_value_is_found_and_cannot_be_read_in_the_file(file: Path) -> None:
    await kept(file, OLD)
    assert await found(file, OLD) == CacheHit(found=True, value=VALUE)
    raw = b"".join(path.read_bytes() for path in file.parent.iterdir())
    assert b"merger" not in raw and KEY.encode() not in raw


async def test_a_value_is_found_after_the_key_was_changed(file: Path) -> None:
    await kept(file, OLD)
    assert (await found(file, {**NEW, **OLD})).value == VALUE


async def test_a_value_whose_key_is_gone_is_none(file: Path) -> None:
    await kept(file, OLD)
    assert await found(file, NEW) == CacheHit()


async def test_what_was_kept_before_there_were_keys_is_not_found(file: Path) -> None:
    store = SqliteStore(str(file))
    await store.put(CacheEntry(key=KEY, value=VALUE))
    await store.close()
    assert await found(file, OLD) == CacheHit()


@pytest.mark.parametrize("value", ['"no sealed value"', '"AAAA"', "7"])
async def test_a_value_that_was_changed_is_none_and_is_logged(
    file: Path, value: str, caplog: pytest.LogCaptureFixture
) -> None:
    await kept(file, OLD)
    with sqlite3.connect(file) as raw:
        raw.execute("UPDATE holdfast_cache SET value = ?", (value,))
    assert await found(file, OLD) == CacheHit()
    assert "is not used, so its step runs again" in caplog.text
