"""Payloads that share what is equal in them: a conversation is stored once, however often it is sent."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.converter import StorageDriverClaim, StorageDriverRetrieveContext, StorageDriverWorkflowInfo
from temporalio.converter import StorageDriverStoreContext as StoreContext

from holdfast.protocol.agents import Message, ModelRequest, ToolSpec
from holdfast.runtime.converters import SparseJson
from holdfast.runtime.payloads import collection
from holdfast.runtime.payloads.collection import InnerReferences
from holdfast.runtime.payloads.directory import PayloadDirectory
from holdfast.runtime.payloads.driver import PieceCache, PieceDriver, Stored
from holdfast.runtime.payloads.pieces import FAN, SMALLEST, Namer, cut, split_payload

NAMER = Namer(b"k" * 32, b"test")


def turn(number: int, size: int = 2000) -> Message:
    return Message(role="tool", call=f"c{number}", tool="read", content=f"{number} ".ljust(size, "x"))


def request(turns: int, first: int = 0, n: int = 1) -> Payload:
    """A request of an agent with tools, whose conversation has so many turns."""
    messages = [turn(number) for number in range(first, first + turns)]
    tools = [ToolSpec(name="read", description="Read. " * 500)]
    value = ModelRequest(step="s", model="m", instructions="Be brief. " * 200, tools=tools, messages=messages, n=n)
    made = SparseJson().to_payload(value)
    assert made is not None
    return made


@pytest.fixture
def folder(tmp_path: Path) -> PayloadDirectory:
    return PayloadDirectory(tmp_path / "payloads")


async def stored(folder: PayloadDirectory, payload: Payload, namespace: str = "n") -> StorageDriverClaim:
    context = StoreContext(target=StorageDriverWorkflowInfo(namespace=namespace))
    [claim] = await PieceDriver(folder).store(context, [payload])
    return claim


async def read(folder: PayloadDirectory, claim: StorageDriverClaim) -> Payload:
    [payload] = await PieceDriver(folder).retrieve(StorageDriverRetrieveContext(), [claim])
    return payload


def size_of(folder: PayloadDirectory) -> int:
    return sum(stat.st_size for _, stat in folder.files())


@pytest.mark.parametrize(
    "raw",
    [b"", b"x", b"x" * 100_000, b'{"role":"' * 9_000, b',{"role":"' * 9_000, b'"a",' * 20_000, os.urandom(50_000)],
)
def test_the_pieces_of_any_bytes_are_these_bytes_and_none_but_the_last_is_short(raw: bytes) -> None:
    pieces = list(cut(raw))
    assert b"".join(pieces) == raw
    assert all(len(piece) >= SMALLEST for piece in pieces[:-1])


def test_each_message_is_a_piece_and_what_changes_with_each_request_is_none() -> None:
    whole = split_payload(request(5).data, NAMER)
    messages = [json.loads(part.data[part.data.index(b'{"role"') :]) for part in whole.parts[1:]]
    assert [message["call"] for message in messages] == [f"c{n}" for n in range(5)]
    assert whole.rest == b"]}"
    assert split_payload(request(5, n=17).data, NAMER).parts == whole.parts


def test_a_claim_stays_short_and_lists_are_shared() -> None:
    parts = split_payload(request(1000).data, NAMER).parts
    assert len(parts) == 1001 // FAN**2 + 1001 % FAN**2 // FAN + 1001 % FAN
    longer = split_payload(request(1100).data, NAMER).parts
    assert longer[:3] == parts[:3]


async def test_a_conversation_is_stored_once(folder: PayloadDirectory) -> None:
    for turns in range(10, 110):
        await stored(folder, request(turns, n=turns))
    assert size_of(folder) < 1.1 * len(request(110).data)


async def test_what_was_stored_is_read_again_with_its_metadata(folder: PayloadDirectory) -> None:
    claims = [await stored(folder, request(turns)) for turns in (40, 300)]
    assert [await read(folder, claim) for claim in claims] == [request(40), request(300)]


async def test_a_conversation_without_its_oldest_turns_is_stored_no_second_time(folder: PayloadDirectory) -> None:
    await stored(folder, request(60))
    before = size_of(folder)
    assert await read(folder, await stored(folder, request(40, first=20))) == request(40, first=20)
    assert size_of(folder) - before < 12_000  # the first piece, with the tools, and lists of names


async def test_a_name_tells_nothing_and_namespaces_share_nothing(folder: PayloadDirectory, tmp_path: Path) -> None:
    other = PayloadDirectory(tmp_path / "other")
    one = await stored(folder, request(5))
    assert (await stored(other, request(5))).claim_data["pieces"] != one.claim_data["pieces"]
    assert (await stored(folder, request(5), "m")).claim_data["pieces"] != one.claim_data["pieces"]


async def test_with_another_key_what_was_stored_is_still_read(folder: PayloadDirectory) -> None:
    before = await stored(folder, request(40))
    (folder.folder / "key").unlink()
    after = await stored(folder, request(40))
    assert set(before.claim_data["pieces"].split()).isdisjoint(after.claim_data["pieces"].split())
    assert await read(folder, before) == await read(folder, after) == request(40)


async def test_a_key_that_was_cut_short_is_told(folder: PayloadDirectory) -> None:
    await stored(folder, request(5))
    (folder.folder / "key").write_bytes(b"k")
    with pytest.raises(Exception, match=r"key holds no key: 1 bytes; delete it"):
        await stored(folder, request(5))


async def test_what_was_lost_is_stored_again_with_all_that_is_below(folder: PayloadDirectory) -> None:
    claim = await stored(folder, request(40))
    for path, _ in list(folder.files()):
        path.unlink()
    assert await stored(folder, request(40)) == claim
    assert await read(folder, claim) == request(40)


def test_the_cache_drops_what_was_not_used_for_longest() -> None:
    cache = PieceCache(20)
    for name in "ab":
        cache.put(name, Stored(b"x" * 8, False))
    cache.get("a")
    cache.put("c", Stored(b"x" * 8, False))
    assert [name for name in "abc" if cache.get(name)] == ["a", "c"]


# gc


def objects(turns: int) -> int:
    """The number of objects of a conversation: a piece before it, one for each turn, and lists of two heights."""
    return (turns + 1) + (turns + 1) // FAN + (turns + 1) // FAN**2


def clear(folder: PayloadDirectory, *claims: StorageDriverClaim) -> int:
    """Remove what is old and in no claim, as gc does; return how many objects are left."""
    inner = InnerReferences(folder)
    names = {path.name for path, _ in folder.files()}
    live = inner.list_below(name for claim in claims for name in claim.claim_data["pieces"].split())
    collection._remove(folder, names - live, inner, before=1.0)
    return len(list(folder.files()))


async def test_gc_keeps_the_pieces_of_lists_and_removes_those_of_no_list(folder: PayloadDirectory) -> None:
    claims = [await stored(folder, request(turns)) for turns in (280, 300)]
    for path, _ in folder.files():
        os.utime(path, (0, 0))
    assert clear(folder, *claims) == objects(300)
    assert clear(folder, claims[0]) == objects(280)
    assert await read(folder, claims[0]) == request(280)
    assert clear(folder) == 0


async def test_a_list_that_is_stored_again_while_gc_works_keeps_its_pieces(
    folder: PayloadDirectory,
) -> None:
    claim = await stored(folder, request(300))
    for path, _ in folder.files():
        os.utime(path, (0, 0))
    await stored(folder, request(300))  # renews the lists that the claim names, not what is below them
    assert clear(folder) == objects(300)
    assert await read(folder, claim) == request(300)
