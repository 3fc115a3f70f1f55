"""One embedded server for all tests of the command line."""

from collections.abc import Callable, Iterator

import pytest

from tests.client.command import Holdfast, Screen


@pytest.fixture(scope="session")
def holdfast(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Holdfast]:
    command = Holdfast(tmp_path_factory.mktemp("command-line"))
    yield command
    command("down")


@pytest.fixture
def at_terminal(holdfast: Holdfast) -> Iterator[Callable[..., Screen]]:
    screens: list[Screen] = []

    def show(*words: str) -> Screen:
        screens.append(Screen(holdfast, *words))
        return screens[-1]

    yield show
    for screen in screens:
        screen.close()
