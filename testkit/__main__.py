"""The process behind `holdfast test`: `python -P -m holdfast.testkit [--json] FILE|FOLDER…`; exit codes 0, 1 and 2."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import typer

from holdfast.blueprint.errors import BlueprintError, Problem
from holdfast.cli.command import perform
from holdfast.cli.output import DONE, FAILED, json_text
from holdfast.client.reading import BadUsage
from holdfast.protocol.display import clean
from holdfast.runtime.config import load_config
from holdfast.testkit import SUFFIX
from holdfast.testkit.environment import TestEnvironment
from holdfast.testkit.files import CaseFile, files_in, read_cases
from holdfast.testkit.report import as_json, summary, write_lines
from holdfast.testkit.running import CaseResult, run_case


async def run(places: Sequence[Path], in_json: bool) -> int:
    """Read all files, run all tests, and return the exit code. Mistakes in files are reported before any test runs."""
    # What a tool raises is told with the test; the SDK would log it before, at length.
    logging.getLogger("temporalio").setLevel(logging.CRITICAL)
    files = read_all(places)
    start = time.monotonic()
    results: list[CaseResult] = []
    with _exclusive_stdout() as out:
        environment = await TestEnvironment.open()
        try:
            for file in files:
                _print(out, [file.display_path], not in_json)
                for case in file.cases:
                    results.append(await run_case(environment, file, case))
                    _print(out, write_lines(results[-1]), not in_json)
        finally:
            await environment.close()
        seconds = time.monotonic() - start
        _print(out, [json_text(as_json(results, seconds)) if in_json else summary(results, seconds)])
    return DONE if all(result.passed for result in results) else FAILED


def read_all(places: Sequence[Path]) -> list[CaseFile]:
    """Return the files in order.

    Raises:
        BadUsage: There are none.
        BlueprintError: With the problems of all files.
    """
    paths = list(dict.fromkeys(files_in(places)))
    if not paths:
        raise BadUsage(f"no tests in {', '.join(map(str, places))}: test files end in {SUFFIX}")
    files: list[CaseFile] = []
    problems: list[Problem] = []
    for path in paths:
        try:
            files.append(read_cases(path, load_config(path.parent)))
        except BlueprintError as error:
            problems += error.problems
    if problems:
        raise BlueprintError(problems)
    return files


def _print(out: TextIO, lines: Iterator[str] | Sequence[str], enabled: bool = True) -> None:
    for line in lines if enabled else ():
        print(clean(line), file=out, flush=True)


@contextmanager
def _exclusive_stdout() -> Iterator[TextIO]:
    """Yield standard output for the results; what tools print meanwhile goes to standard error."""
    sys.stdout.flush()
    with os.fdopen(os.dup(1), "w", encoding=sys.stdout.encoding, errors="replace") as out:
        os.dup2(2, 1)
        try:
            yield out
        finally:
            sys.stdout.flush()
            os.dup2(out.fileno(), 1)


def main(arguments: Sequence[str]) -> int:
    in_json = "--json" in arguments
    places = [Path(word) for word in arguments if word != "--json"]
    try:
        perform(run(places or [Path()], in_json), in_json)
    except typer.Exit as leave:
        return leave.exit_code


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # A plain exit would wait for tools that hang in threads, and the SDK may abort it (sdk-python issue 300).
    os._exit(code)
