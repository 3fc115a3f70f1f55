"""Keys of `[encryption]`: where they come from, what they open, and what is told where one is missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from temporalio.api.common.v1 import Memo, Payload, Payloads
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import HistoryEvent, WorkflowExecutionStartedEventAttributes
from temporalio.converter import DataConverter
from temporalio.exceptions import ApplicationError

from holdfast.activities.graphs.saver import StoredSaver
from holdfast.plugin import Plugin
from holdfast.runtime.config import ConfigError, load_config
from holdfast.runtime.connection import make_converter
from holdfast.runtime.encryption import EncryptionCodec, KeyRing, NotDecrypted, find_key_ids, load_key_ring
from holdfast.runtime.payloads.checkpoints import open_checkpoints
from holdfast.runtime.payloads.directory import PayloadDirectory

OLD, NEW = {"old": "o" * 40}, {"new": "n" * 40}
THREAD = f"{'0' * 36}/thread"
SECRET = "the merger is on friday "


def config_of(folder: Path, keys: str) -> KeyRing:
    (folder / "holdfast.toml").write_text(f"[encryption]\nkeys = [{keys}]\n")
    return load_key_ring(load_config(folder))


def test_keys_come_from_the_environment_a_file_and_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOUSE_KEY", "e" * 40)
    (tmp_path / "key").write_text("f" * 40 + "\n")
    (tmp_path / "key").chmod(0o600)
    ring = config_of(
        tmp_path,
        '{id = "a", env = "HOUSE_KEY"}, {id = "b", file = "key"}, {id = "c", command = ["printf", "%040d", "7"]}',
    )
    assert ring.active == "a"
    for id_, text in (("a", "e" * 40), ("b", "f" * 40), ("c", f"{7:040}")):
        assert ring.open(KeyRing({id_: text}).seal(b"x", b"here"), b"here") == b"x"


def test_a_command_is_run_once_for_its_key(tmp_path: Path) -> None:
    keys = f'{{id = "a", command = ["sh", "-c", "echo asked >> {tmp_path}/asked; printf %040d 7"]}}'
    assert config_of(tmp_path, keys).active == config_of(tmp_path, keys).active == "a"
    assert (tmp_path / "asked").read_text() == "asked\n"


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ('{id = "a", env = "NO_SUCH_KEY"}', r"encryption.keys: a: the variable NO_SUCH_KEY is not set"),
        ('{id = "a", file = "none"}', r"encryption.keys: a: there is no file none; make a key with"),
        ('{id = "a", file = "open"}', r"open: others may read this key .*chmod 600"),
        ('{id = "a", command = ["printf", "short"]}', r"what printf prints is shorter than 32 characters"),
        ('{id = "a", command = ["false"]}', r"false returned no key"),
        ('{id = "a"}', r"must have one of env"),
        ('{id = "a", env = "A"}, {id = "a", env = "B"}', r"must have keys of different ids"),
    ],
)
def test_a_key_that_cannot_be_had_is_told(tmp_path: Path, keys: str, message: str) -> None:
    (tmp_path / "open").write_text("k" * 40)
    (tmp_path / "open").chmod(0o644)
    with pytest.raises(ConfigError, match=message):
        config_of(tmp_path, keys)


async def test_a_payload_is_read_with_every_key_of_the_ring_and_written_with_the_first() -> None:
    [old] = await EncryptionCodec(KeyRing(OLD)).encode([Payload(data=SECRET.encode())])
    both = EncryptionCodec(KeyRing({**NEW, **OLD}))
    [new] = await both.encode([Payload(data=SECRET.encode())])
    assert (old.metadata["encryption-key-id"], new.metadata["encryption-key-id"]) == (b"old", b"new")
    assert await both.decode([old, new, Payload(data=b"plain")]) == [
        Payload(data=SECRET.encode()),
        Payload(data=SECRET.encode()),
        Payload(data=b"plain"),
    ]
    assert SECRET.encode() not in old.SerializeToString() + new.SerializeToString()


@pytest.mark.parametrize(
    ("ring", "message"),
    [
        (KeyRing(), r"encrypted with the key 'old', and there is no key here; add it to keys in \[encryption\]"),
        (KeyRing(NEW), r"encrypted with the key 'old', and the keys here are: new"),
        (KeyRing({"old": "x" * 40}), r"cannot be decrypted with the key 'old' .*another key, or has been changed"),
    ],
)
async def test_a_key_that_is_missing_or_wrong_is_told(ring: KeyRing, message: str) -> None:
    encoded = await make_converter("", ring=KeyRing(OLD)).encode([SECRET])
    with pytest.raises(NotDecrypted, match=message):
        await make_converter("", ring=ring).decode(encoded)


async def test_what_was_changed_is_not_decrypted() -> None:
    sealed = KeyRing(OLD).seal(b"pay 10", b"here")
    for wrong in (sealed[:-1], sealed[:-1] + b"x", sealed[:20], b"", b"\xff"):
        with pytest.raises(NotDecrypted):
            KeyRing(OLD).open(wrong, b"here")
    with pytest.raises(NotDecrypted):
        KeyRing(OLD).open(sealed, b"elsewhere")


async def test_a_large_value_is_encrypted_in_its_pieces_which_are_shared(tmp_path: Path) -> None:
    folder, value = PayloadDirectory(tmp_path / "payloads"), [SECRET * 400 + str(n) for n in range(20)]
    ours = make_converter(f"dir:{folder.folder}", ring=KeyRing(OLD))
    claims = await ours.encode([value, value[:-1]])
    assert await make_converter(f"dir:{folder.folder}", ring=KeyRing({**NEW, **OLD})).decode(claims) == [
        value,
        value[:-1],
    ]
    objects = [path.read_bytes() for path, _ in folder.files()]
    assert len(objects) < 30
    assert not any(b"merger" in raw for raw in [*objects, *(claim.SerializeToString() for claim in claims)])
    assert not (folder.folder / "key").exists()  # the names come from the key of the ring


async def test_the_names_of_pieces_change_with_the_key_and_old_ones_are_read(tmp_path: Path) -> None:
    place, value = f"dir:{tmp_path / 'payloads'}", SECRET * 2000
    before = await make_converter(place, ring=KeyRing(OLD)).encode([value])
    turned = make_converter(place, ring=KeyRing({**NEW, **OLD}))
    after = await turned.encode([value])
    assert before[0].data != after[0].data
    assert await turned.decode([*before, *after]) == [value, value]
    with pytest.raises(NotDecrypted, match="key 'old', and the keys here are: new"):
        await make_converter(place, ring=KeyRing(NEW)).decode(before)


async def test_a_failure_is_encrypted_and_read_again() -> None:
    ours, failure = make_converter("", ring=KeyRing(OLD)), Failure()
    await ours.encode_failure(ApplicationError(SECRET, {"why": SECRET}), failure)
    assert b"merger" not in failure.SerializeToString()
    assert SECRET in str(await ours.decode_failure(failure))


def test_nobody_sees_a_key_in_a_repr() -> None:
    assert "o" * 40 not in repr(KeyRing(OLD)) + str(vars(EncryptionCodec(KeyRing(OLD))))


async def saver(place: str, keys: dict[str, str]) -> StoredSaver:
    store = open_checkpoints(place)
    assert store is not None
    made = StoredSaver(THREAD, store, EncryptionCodec(KeyRing(keys)), InMemorySaver().serde)
    await made.load()
    return made


async def test_checkpoints_of_graphs_are_encrypted_and_older_ones_are_read(tmp_path: Path) -> None:
    place: RunnableConfig = {"configurable": {"thread_id": THREAD, "checkpoint_ns": "", "checkpoint_id": "1"}}
    for number, keys in enumerate(({}, OLD, {**NEW, **OLD})):
        made = await saver(f"dir:{tmp_path}", keys)
        await made.aput_writes(place, [("log", f"{SECRET}{number}")], f"task-{number}")
    written = (await saver(f"dir:{tmp_path}", {**NEW, **OLD})).writes[(THREAD, "", "1")]
    assert len(written) == 3
    records = [path for path in (tmp_path / "checkpoints").rglob("0*") if path.is_file()]
    readable = [path.name for path in records if b"merger" in path.read_bytes()]
    assert readable == ["00000000"]


def test_a_plugin_takes_the_keys_and_refuses_a_second_codec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOUSE_KEY", "e" * 40)
    (tmp_path / "holdfast.toml").write_text('[encryption]\nkeys = [{id = "a", env = "HOUSE_KEY"}]\n')
    plugin = Plugin(load_config(tmp_path))
    own = replace(DataConverter.default, payload_codec=EncryptionCodec(KeyRing(OLD)))
    made = plugin.configure_client({"data_converter": DataConverter.default})["data_converter"]  # type: ignore[typeddict-item]
    assert isinstance(made.payload_codec, EncryptionCodec)
    assert made.payload_codec.ring.active == "a"
    with pytest.raises(ConfigError, match="has a payload_codec of its own: leave one of them out"):
        plugin.configure_client({"data_converter": own})  # type: ignore[typeddict-item]


def test_the_keys_of_a_message_are_found_wherever_a_payload_stands() -> None:
    def sealed(id_: str) -> Payload:
        return EncryptionCodec(KeyRing({id_: "k" * 40})).encrypt(Payload(data=b"x"))

    started = WorkflowExecutionStartedEventAttributes(
        input=Payloads(payloads=[Payload(data=b"plain"), sealed("input")]),
        memo=Memo(fields={"note": sealed("memo")}),
        continued_failure=Failure(cause=Failure(encoded_attributes=sealed("failure"))),
    )
    event = HistoryEvent(workflow_execution_started_event_attributes=started)
    assert find_key_ids(event) == {"input", "memo", "failure"}
