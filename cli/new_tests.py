"""Write a test from a run into a file of tests: `holdfast test --from RUN`."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

from holdfast.blueprint.core import write_core, write_yaml
from holdfast.blueprint.errors import BlueprintError
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.load import is_target, parse_file
from holdfast.blueprint.text_files import TEST_SUFFIX
from holdfast.cli.output import say
from holdfast.cli.session import open_session
from holdfast.client.case_recorder import CaseRecorder, RecordedCase
from holdfast.client.reading import BadUsage, document, is_readable, text_of_file
from holdfast.runtime.embedded import Startup


async def write_test(run: str, place: Path | None) -> Path:
    """Write a run as a test into a file, behind the tests that are there, and return the file.

    Args:
        run: The run, as somebody names it.
        place: The blueprint's file, `pkg.mod:name`, or the file of its tests; None: `NAME.yaml` of the run's
            blueprint, in this folder.

    Raises `BadUsage` and `BadInput`.
    """
    runs = (await open_session(Startup.WHERE_RUNS_ARE)).runs
    run = await runs.resolve(run)
    recorded = await CaseRecorder(runs.tree, await runs.state(run)).record(f"as in {run}")
    file = _find_file(recorded, place)
    text = _add(file, recorded.case, _find_target(place))
    if not is_readable(text):
        message = f"{file} would have {len(text):,} characters with this test, and could not be read then"
        raise BadUsage(f"{message}; nothing is written: write the test by hand, with shorter values")
    changed = _find_changed(document(text, str(file)), file, recorded, run)
    file.write_text(text)
    if changed is not None:
        say(f"{changed} is not as it was when the run started")
    say(f"{file}: {recorded.case['name']!r} is written")
    for note in dict.fromkeys(recorded.notes):
        say(f"not in the test: {note}")
    return file


def _find_file(recorded: RecordedCase, place: Path | None) -> Path:
    """Return the file of tests, which need not exist; its blueprint must. Raises `BadUsage`."""
    if (target := _find_target(place)) is not None:
        return Path(f"{target.rpartition(':')[2]}{TEST_SUFFIX}")
    place = place or Path(f"{recorded.blueprint.name}.yaml")
    if place.name.endswith(TEST_SUFFIX):
        file, stem = place, place.name.removesuffix(TEST_SUFFIX)
    else:
        file, stem = place.with_name(f"{place.stem}{TEST_SUFFIX}"), place.stem
    if not file.exists() and not any((file.parent / f"{stem}{suffix}").exists() for suffix in (".yaml", ".json")):
        message = f"there is no blueprint {file.with_name(stem + '.yaml')}, whose test this would be"
        raise BadUsage(f"{message}; name it: holdfast test FILE --from RUN, or pkg.mod:name in place of FILE")
    return file


def _find_target(place: Path | None) -> str | None:
    """Return the name of a pipeline that Python builds, if that is what was named."""
    return str(place) if place is not None and is_target(str(place)) else None


def _add(file: Path, case: JSONObject, target: str | None) -> str:
    """Return the text of a file of tests with one more. Raises `BadUsage` if it cannot be added at the end."""
    if not file.exists():
        head = "" if target is None else f"blueprint: {target}\n"
        return f"{head}tests:\n{indent(write_yaml([case]), '  ')}"
    text = text_of_file(file)
    before = _list_tests(text, file)
    if any(isinstance(test, dict) and test.get("name") == case["name"] for test in before):
        raise BadUsage(f"{file} has the test {case['name']!r} already")
    lines = [line for line in text.splitlines() if line.lstrip().startswith("- ")]
    own = len(lines[-1]) - len(lines[-1].lstrip()) if lines else 2
    depths = {len(line) - len(line.lstrip()) for line in lines} | {own}
    for depth in sorted(depths):
        added = f"{text.rstrip()}\n\n{indent(write_yaml([case]), ' ' * depth)}"
        try:
            if _list_tests(added, file) == [*before, case]:
                return added
        except (BlueprintError, BadUsage):
            continue
    raise BadUsage(f"{file} does not end with its `tests`, a line each beginning with `- `: move them to the end")


def _list_tests(text: str, file: Path) -> list[JSON]:
    content = document(text, str(file))
    tests = content.get("tests") if isinstance(content, dict) else None
    if not isinstance(tests, list):
        raise BadUsage(f"{file} has no list of `tests`")
    return tests


def _find_changed(tests: JSON, file: Path, recorded: RecordedCase, run: str) -> Path | None:
    """Return the blueprint beside the tests if it has changed since the run started; None if it has not.

    Raises `BadUsage` if it has another name, too: the run is one of another blueprint.
    """
    named = tests.get("blueprint") if isinstance(tests, dict) else None
    beside = file.parent / str(named or f"{file.name.removesuffix(TEST_SUFFIX)}.yaml")
    if isinstance(named, str) and is_target(named):
        beside = Path(named)
    elif beside.suffix != ".yaml" or not beside.exists():
        return None
    now, then = parse_file(str(beside)).valid(), recorded.blueprint
    if write_core(now) == write_core(then.model_copy(update={"name": now.name})):
        return None
    if now.name != then.name:
        way = "name the file of its blueprint: holdfast test FILE --from RUN"
        raise BadUsage(f"{run} is a run of {then.name!r}, and {beside} is {now.name!r}; nothing is written: {way}")
    return beside
