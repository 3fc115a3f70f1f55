"""The process behind `holdfast test`: `python -P -m testkit [--json] FILE|FOLDER…`; exit codes 0, 1 and 2."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import typer

from blueprint.errors import BlueprintError, Problem
from client.cli.output import DONE, FAILED, json_text
from client.cli.perform import perform
from client.config import load_config
from client.reading import BadUsage
from testkit import SUFFIX
from testkit.files import CaseFile, files_in, read_cases
from testkit.running import Verdict, run_case
from testkit.stage import Stage
from testkit.telling import as_json, lines_of, summary


async def run(places: Sequence[Path], in_json: bool) -> int:
    """Read everything, then run everything: what is wrong with a file is told before anything starts."""
    files = read_all(places)
    start = time.monotonic()
    verdicts: list[Verdict] = []
    with _speaking_alone() as out:
        stage = await Stage.open()
        try:
            for file in files:
                _print(out, [file.shown], not in_json)
                for case in file.cases:
                    verdicts.append(await run_case(stage, file, case))
                    _print(out, lines_of(verdicts[-1]), not in_json)
        finally:
            await stage.close()
        seconds = time.monotonic() - start
        _print(out, [json_text(as_json(verdicts, seconds)) if in_json else summary(verdicts, seconds)])
    return DONE if all(one.passed for one in verdicts) else FAILED


def read_all(places: Sequence[Path]) -> list[CaseFile]:
    """The files, in order. Raises `BadUsage` where there are none, `BlueprintError` with the problems of all."""
    paths = list(dict.fromkeys(files_in(places)))
    if not paths:
        raise BadUsage(f"no tests here: {', '.join(map(str, places))}; they are in files that end in {SUFFIX}")
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


def _print(out: TextIO, lines: Iterator[str] | Sequence[str], wanted: bool = True) -> None:
    for line in lines if wanted else ():
        print(line, file=out, flush=True)


@contextmanager
def _speaking_alone() -> Iterator[TextIO]:
    """Standard output for us; what tools print meanwhile goes to standard error."""
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
