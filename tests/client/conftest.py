"""One folder, one namespace and one worker for all tests of the command line."""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from temporalio.client import Client

from tests.client.command import Holdfast, Process, Screen, with_worker
from tests.conftest import Harness
from tests.server import COMMANDS, NAME


@pytest.fixture(scope="session")
def holdfast(server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Holdfast]:
    """Commands on the server of the test run."""
    with with_worker(tmp_path_factory.mktemp("command-line"), server, NAME + COMMANDS) as command:
        yield command


@pytest.fixture(scope="session")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """Commands as processes, on a server that they start."""
    command = Process(tmp_path_factory.mktemp("embedded"))
    yield command
    command("down")


@pytest.fixture
def queue() -> str:
    return f"test-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def nobody(temporal: Client, queue: str, tmp_path: Path) -> Harness:
    """A harness without a worker."""
    return Harness(temporal, queue, tmp_path)


@pytest.fixture
def at_terminal(holdfast: Holdfast) -> Iterator[Callable[..., Screen]]:
    screens: list[Screen] = []

    def show(*words: str, columns: int = 120) -> Screen:
        screens.append(Screen(holdfast, *words, columns=columns))
        return screens[-1]

    yield show
    for screen in screens:
        screen.close()
