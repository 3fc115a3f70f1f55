"""The key of the secret store in the system's keyring, by a backend of the tests' own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import keyring
import keyring.backend
import keyring.backends.fail
import pytest
from keyring.errors import KeyringLocked

from holdfast.blueprint.questions.secret import reference_in
from holdfast.runtime.config import Config, ConfigError, load_config
from holdfast.runtime.secrets import SecretDirectory, keeper, open_backends


class Keyring(keyring.backend.KeyringBackend):
    """A keyring in memory."""

    priority = 1

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.kept[service, username] = password


class Locked(Keyring):
    def get_password(self, service: str, username: str) -> str | None:
        raise KeyringLocked("the person said no")


@pytest.fixture(autouse=True)
def system() -> Iterator[Keyring]:
    before, ours = keyring.get_keyring(), Keyring()
    keyring.set_keyring(ours)
    yield ours
    keyring.set_keyring(before)


@pytest.fixture
def config(tmp_path: Path) -> Config:
    (tmp_path / "holdfast.toml").write_text('[secrets]\nstore = "dir:state/secrets"\nkey = "keyring"\n')
    return load_config(tmp_path)


def store_of(config: Config) -> SecretDirectory:
    store = keeper(config, embedded=False)
    assert store is not None
    return store


def put(config: Config, value: str) -> str:
    reference = reference_in(store_of(config).put(value))
    assert reference is not None
    return reference.id


def test_a_value_is_encrypted_by_a_key_that_is_made_in_the_keyring(config: Config, system: Keyring) -> None:
    id_ = put(config, "hunter2")
    assert list(system.kept) == [("holdfast", "secret store")]
    assert b"hunter2" not in b"".join(path.read_bytes() for path in (config.folder / "state" / "secrets").iterdir())
    assert open_backends(config)["dir"].read(id_) == "hunter2"
    assert not (config.folder / "state" / "secrets.key").exists()


@pytest.mark.parametrize("key_of_another_store", [{}, {("holdfast", "secret store"): "ab" * 32}])
def test_a_key_that_the_keyring_has_lost_is_not_made_anew_in_silence(
    config: Config,
    system: Keyring,
    monkeypatch: pytest.MonkeyPatch,
    key_of_another_store: dict[tuple[str, str], str],
) -> None:
    monkeypatch.setattr("holdfast.runtime.secrets.KEYRING_PATIENCE", 0.0)
    system.kept.update(key_of_another_store)
    put(config, "hunter2")
    system.kept.clear()
    with pytest.raises(ConfigError, match=r"had one when .*secrets\.keyring was made; put it back"):
        put(config, "hunter3")
    assert system.kept == {}


@pytest.mark.parametrize(
    ("backend", "expected"),
    [
        (keyring.backends.fail.Keyring(), "there is no keyring here"),
        (Locked(), r"cannot be used \(the person said no\)"),
    ],
)
def test_without_a_keyring_nothing_is_kept(
    config: Config, backend: keyring.backend.KeyringBackend, expected: str
) -> None:
    keyring.set_keyring(backend)
    with pytest.raises(ConfigError, match=rf"\[secrets\] key: .*{expected}.*key_env"):
        put(config, "hunter2")
    folder = config.folder / "state" / "secrets"
    assert not folder.exists() or not list(folder.iterdir())


def test_without_the_package_it_is_said_how_to_get_it(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(ConfigError, match=r"pip install 'holdfast\[keyring\]'"):
        put(config, "hunter2")


def test_a_store_has_one_key(tmp_path: Path) -> None:
    (tmp_path / "holdfast.toml").write_text('[secrets]\nkey_env = "A_KEY"\nkey = "keyring"\n')
    with pytest.raises(ConfigError, match="must have either key_env or key"):
        load_config(tmp_path)
