"""The commands that check blueprints: `validate`, which starts no server, and `test`, which runs their tests."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from holdfast.blueprint.core import expand
from holdfast.blueprint.errors import Problem
from holdfast.blueprint.json_values import JSONObject
from holdfast.blueprint.load import Parsed, parse_file
from holdfast.blueprint.parts import Requirement
from holdfast.blueprint.requirements import list_requirements
from holdfast.blueprint.text_files import BLUEPRINT_SUFFIXES, TEST_SUFFIX, has_steps, walk_files
from holdfast.cli.command import perform
from holdfast.cli.flags import AsJson, Check
from holdfast.cli.lookup import is_server_named, look_up_in
from holdfast.cli.output import DONE, USAGE, print_json, print_text, say
from holdfast.cli.sarif import sarif_log
from holdfast.client.archive import is_record_installed
from holdfast.client.lookup import Checked, Packages
from holdfast.client.reading import BadUsage
from holdfast.runtime.config import Config, ConfigError, load_config_for

app = typer.Typer(rich_markup_mode=None)


@dataclass(frozen=True)
class _Validation:
    """A file, what was read of it, and what was found outside of it."""

    file: Path
    parsed: Parsed
    checked: Checked

    @property
    def problems(self) -> list[Problem]:
        return [*self.parsed.problems, *self.checked.problems]

    @property
    def listed(self) -> list[Problem]:
        """The problems or, if there are none, the warnings."""
        return self.problems or self.parsed.warnings


@app.command()
def validate(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE …", help="Blueprints, and folders of them: their files with `steps`.")
    ],
    expanded: Annotated[
        bool, typer.Option("--expand", help="Print the blueprint with every short form written out.")
    ] = False,
    as_sarif: Annotated[bool, typer.Option("--sarif", help="Print SARIF 2.1.0, for code hosts and editors.")] = False,
    check: Check = True,
    connect: Annotated[
        bool, typer.Option("--connect", help="Connect to the blueprint's MCP servers and check their tools.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check blueprints and their imports, and list every problem with its place and a way out.

    The tools, functions, models and groups that it names are looked up: on a worker of the server that TEMPORAL_ADDRESS
    names, else in the packages of [worker] imports, in a separate process. Names that could not be checked are listed.

    The exit code is 2 if the blueprint cannot run, also because holdfast.toml or a variable cannot be used; --no-check
    reads neither. Warnings do not change it; `# holdfast: ignore CODE` at the end of
    the line, or on a line of its own above, silences one.
    """
    if as_sarif and (as_json or expanded):
        _refuse("--sarif cannot be combined with --json or --expand")
    validations = _validate(_find_files(files, expanded), check, connect)
    listed = [problem for validation in validations for problem in validation.listed]
    for problem in listed:
        say(str(problem))
    unchecked = [*dict.fromkeys(one.checked.unchecked for one in validations if one.checked.unchecked is not None)]
    for reason in unchecked:
        say(f"not checked: {reason}")
    is_ok = not any(validation.problems for validation in validations)
    if as_sarif:
        print_json(sarif_log(listed))
    elif as_json:
        report = {"ok": is_ok, "problems": [problem.to_json() for problem in listed]}
        left_out = {"not_checked": "; ".join(unchecked)} if unchecked else {}
        print_json({**report, **left_out, **_expand(validations[0].parsed, expanded)})
    else:
        for validation in validations:
            _print_valid(validation, expanded)
    raise typer.Exit(DONE if is_ok else USAGE)


def _find_files(places: Sequence[Path], is_expanded: bool) -> list[Path]:
    """Return the blueprints to validate. Exits where there are none, or too many to expand."""
    if tests := [str(file) for file in places if file.name.endswith(TEST_SUFFIX)]:
        _refuse(f"these are tests of blueprints; run them with: holdfast test {shlex.join(tests)}")
    found = [*find_blueprints(places)]
    if is_expanded and len(found) != 1:
        _refuse(f"--expand takes one blueprint, not {len(found)}")
    if not found:
        _refuse(f"no blueprint is in {', '.join(map(str, places))}: none of its files has steps")
    return found


def _refuse(message: str) -> NoReturn:
    say(message)
    raise typer.Exit(USAGE)


def find_blueprints(places: Sequence[Path]) -> Iterator[Path]:
    """Yield the blueprints among files and folders: of a folder the files that have steps, but no hidden ones."""
    for place in places:
        if not place.is_dir():
            yield place
            continue
        yield from sorted(filter(_is_blueprint, walk_files(place, BLUEPRINT_SUFFIXES, _say_unread)))


def _say_unread(error: OSError) -> None:
    say(f"not looked into: {error.filename}: {error.strerror}")


def _is_blueprint(path: Path) -> bool:
    """Return whether a file looks like a blueprint; true for one that cannot be read, which is a problem to report."""
    try:
        return has_steps(path)
    except OSError:
        return True


def _validate(files: Sequence[Path], check: bool, connect: bool) -> list[_Validation]:
    """Return what is wrong with each file. The packages of a folder are imported once for all that name it."""
    blueprints = [_read(file, check) for file in files]
    packages: dict[Path, Packages] = {}
    for blueprint in blueprints:
        if (config := blueprint.config) is not None:
            imported = Packages(config.folder, config.worker.imports, connect=connect)
            packages.setdefault(config.folder, imported).add(blueprint.names)
    return [blueprint.check(packages, connect) for blueprint in blueprints]


def _read(file: Path, check: bool) -> _ReadBlueprint:
    try:
        parsed = parse_file(file)
    except ConfigError as error:  # it lists the packages in which a kind of question was looked for
        return _ReadBlueprint(file, Parsed(None, error.problems))
    if not check:
        return _ReadBlueprint(file, parsed)
    try:
        config = load_config_for(file, say)
    except ConfigError as error:  # no command runs with it, so the blueprint does not either
        return _ReadBlueprint(file, parsed, problems=error.problems)
    if config.answers.keys or config.answers.key_env is not None:
        # Whoever answers is vouched for by the key that signs the answer.
        parsed.warnings[:] = [warning for warning in parsed.warnings if warning.code != "unproved_person"]
    if parsed.problems:
        return _ReadBlueprint(file, parsed)
    return _ReadBlueprint(file, parsed, config, [] if parsed.blueprint is None else list_requirements(parsed.blueprint))


@dataclass(frozen=True)
class _ReadBlueprint:
    """A blueprint that was read, with what it needs of a worker."""

    file: Path
    parsed: Parsed
    config: Config | None = None
    """None: nothing outside of it is checked."""
    names: Sequence[Requirement] = ()
    problems: list[Problem] = field(default_factory=list)
    """Those of its configuration."""

    def check(self, packages: Mapping[Path, Packages], connect: bool) -> _Validation:
        """Return what is wrong outside of the blueprint, too: in its webhooks, and in the names of a worker."""
        if self.config is None:
            return _Validation(self.file, self.parsed, Checked(self.problems))
        try:
            found = look_up_in(
                self.config,
                self.parsed,
                self.names,
                connect=connect,
                on_server=is_server_named(),
                packages=packages[self.config.folder],
            )
            checked = asyncio.run(found)
            if self.parsed.blueprint is not None:
                checked = checked.judge(self.parsed.blueprint, self.parsed.problem)
        except ConfigError as error:
            return _Validation(self.file, self.parsed, Checked(error.problems))
        problems = [*checked.problems, *_problems_of_hooks(self.config, self.file)]
        return _Validation(self.file, self.parsed, Checked(problems, checked.unchecked))


def _problems_of_hooks(config: Config, file: Path) -> list[Problem]:
    """Return what is wrong with the webhooks of the configuration that start the blueprint."""
    if not config.hooks or not is_record_installed():
        return []
    from holdfast.server.web.hooks import find_blueprint_problems  # noqa: PLC0415  it needs the extra `serve`

    parted = [problem.partition(": ") for problem in find_blueprint_problems(config, file)]
    return [Problem(str(config.path), 0, 0, f"hooks.{place}", "bad_value", message) for place, _, message in parted]


def _expand(parsed: Parsed, wanted: bool) -> JSONObject:
    if not wanted or parsed.blueprint is None or parsed.problems:
        return {}
    return {"expanded": expand(parsed.blueprint)}


def _print_valid(validation: _Validation, expanded: bool) -> None:
    """Say of a blueprint without problems that it is fine, or print it with every short form spelled out."""
    parsed = validation.parsed
    if parsed.blueprint is None or validation.problems:
        return
    if expanded:
        print_text(expand(parsed.blueprint), end="")
    else:
        count = len(parsed.warnings)
        warnings = f", with {count} warning{'' if count == 1 else 's'}" if count else ""
        extent = "" if validation.checked.unchecked is None else " as far as it was checked"
        say(f"{validation.file}: {parsed.blueprint.name} is fine{extent}{warnings}")


@app.command()
def test(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE|FOLDER", help="Tests (*.test.yaml); default: all below the working directory."),
    ] = None,
    run: Annotated[
        str | None,
        typer.Option("--from", metavar="RUN", help="First write this run as a test of FILE, and run the tests there."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run the tests of blueprints: scripted models, prepared answers, skipped time.

    With `--from` a run becomes a test first: its input, the replies of its models and tools, its answers, and its end.

    Exit code 0 if all passed, 1 if one failed, 2 if a file cannot be used: then no test ran.
    """
    perform(_test(files or [], run, as_json), as_json)


async def _test(files: list[Path], run: str | None, as_json: bool) -> int:
    """Run the tests in a separate process: the client must not import workflows."""
    if run is not None:
        if len(files) > 1:
            raise BadUsage("a run becomes a test of one blueprint: name one FILE")
        from holdfast.cli.new_tests import write_test  # noqa: PLC0415  it loads the client, which no other path needs

        files = [await write_test(run, files[0] if files else None)]
    options = ["--json"] if as_json else []
    command = [sys.executable, "-P", "-m", "holdfast.testkit", *options, *map(str, files)]
    process = await asyncio.create_subprocess_exec(*command)
    return await process.wait()
