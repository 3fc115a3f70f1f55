"""The settings of Temporal's server are named as it names them: it takes any other name in silence."""

from __future__ import annotations

import mmap
from pathlib import Path

import pytest
import yaml

from holdfast.runtime.embedded.server import OPTIONS, find_temporal_binary
from holdfast.testkit.environment import DYNAMIC_CONFIG
from tests.repository import ROOT
from tests.server import SETTINGS

EMBEDDED = [value for flag, value in zip(OPTIONS, OPTIONS[1:], strict=False) if flag == "--dynamic-config-value"]
DEPLOYED = yaml.safe_load((ROOT / "deploy/dynamicconfig/holdfast.yaml").read_text())
NAMES = sorted({setting.split("=")[0] for setting in (*EMBEDDED, *SETTINGS, *DYNAMIC_CONFIG, *DEPLOYED)})


@pytest.fixture(scope="module")
def server_binary() -> mmap.mmap:
    with Path(find_temporal_binary()).open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


@pytest.mark.parametrize("name", NAMES)
def test_the_server_knows_a_setting(server_binary: mmap.mmap, name: str) -> None:
    assert server_binary.find(name.encode()) > 0, f"the server has no setting {name}"


def test_an_unknown_name_would_be_seen(server_binary: mmap.mmap) -> None:
    assert server_binary.find(b"history.continueAsNewMinInterval") < 0
