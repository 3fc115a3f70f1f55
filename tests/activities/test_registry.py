"""What a blueprint can reach by `pkg.mod:name`: tools, and the public functions of listed packages."""

from __future__ import annotations

from pathlib import Path

import pytest
from temporalio.exceptions import ApplicationError

from holdfast.activities.imports import import_alone
from holdfast.activities.registry import find

LISTED = "tests.activities.listed"


@pytest.mark.parametrize("name", ["shout", "wait", "cached", "registered", "greet"])
def test_public_functions_and_tools_of_a_listed_module_are_found(name: str) -> None:
    assert callable(find(f"{LISTED}:{name}", [LISTED]).function)


@pytest.mark.parametrize(
    "name",
    ["getoutput", "renamed", "run", "system", "print_it", "subprocess", "os", "_hidden", "Greeter", "OrderedDict"]
    + ["__builtins__", "__name__", "IMPORTED"],
)
def test_what_it_has_imported_or_keeps_private_is_refused(name: str) -> None:
    with pytest.raises(ApplicationError) as caught:
        find(f"{LISTED}:{name}", [LISTED])
    assert (caught.value.type, caught.value.non_retryable) == ("not_allowed", True)


def test_a_function_of_another_listed_package_may_be_passed_on() -> None:
    assert find("tests.tools:count", [LISTED, "tests"])
    assert find(f"{LISTED}:getoutput", [LISTED, "subprocess"]).function.__module__ == "subprocess"


@pytest.mark.parametrize("module", ["tests.activities.__init__", "tests._secret", "os", "testsuite"])
def test_private_and_unlisted_modules_are_not_imported(module: str) -> None:
    with pytest.raises(ApplicationError) as caught:
        find(f"{module}:anything", ["tests"])
    assert caught.value.type == "not_allowed"


def test_a_misspelt_function_is_suggested_among_those_that_may_be_called() -> None:
    with pytest.raises(ApplicationError, match="did you mean 'shout'"):
        find(f"{LISTED}:shoot", [LISTED])
    with pytest.raises(ApplicationError) as caught:
        find(f"{LISTED}:getoutputs", [LISTED])
    assert "did you mean" not in caught.value.message


def test_a_function_without_the_decorator_is_told_with_both_ways_out() -> None:
    find(f"{LISTED}:shout", [LISTED])
    with pytest.raises(ApplicationError, match=f"write uses: {LISTED}:shout, or decorate it with @tool"):
        find("shout", [LISTED])


def test_a_module_whose_import_fails_may_be_imported_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "half_there.py").write_text(
        "from pathlib import Path\n"
        f"tried = Path({str(tmp_path / 'tried')!r})\n"
        "if not tried.exists():\n"
        "    tried.touch()\n"
        "    raise ImportError('partially initialized')\n"
        "def greet() -> str: return 'hello'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ApplicationError, match="partially initialized") as caught:
        find("half_there:greet", ["half_there"])
    assert (caught.value.type, caught.value.non_retryable) == ("import_failed", False)
    assert find("half_there:greet", ["half_there"]).function() == "hello"


def test_a_module_that_is_not_there_is_a_final_failure() -> None:
    with pytest.raises(ApplicationError) as caught:
        find("tests.no_such_module:greet", ["tests"])
    assert (caught.value.type, caught.value.non_retryable) == ("unknown_tool", True)


def test_no_two_modules_are_imported_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # `slow` begins the import of `quick` in a thread, which then sees whether `slow` was ready.
    (tmp_path / "slow_import.py").write_text(
        "import threading, time\n"
        "from holdfast.activities.imports import import_alone\n"
        "thread = threading.Thread(target=import_alone, args=('quick_import',))\n"
        "thread.start()\n"
        "time.sleep(0.1)\n"
        "ready = True\n"
    )
    (tmp_path / "quick_import.py").write_text("import sys\nsaw = hasattr(sys.modules['slow_import'], 'ready')\n")
    monkeypatch.syspath_prepend(tmp_path)
    slow = import_alone("slow_import")
    slow.thread.join()
    assert import_alone("quick_import").saw
