"""The docs say what the code does: every kind, key, command, code and built-in is there, and every example loads."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main

from holdfast.blueprint.kinds import KINDS, Agent, Blueprint, LoopBlock
from holdfast.blueprint.load import load, loads
from holdfast.blueprint.questions import QUESTION_KINDS, Asked, CustomQuestion
from holdfast.blueprint.source import plain, read
from holdfast.cli.app import app
from holdfast.protocol.answers import REFUSALS
from holdfast.runtime.config import WorkerSettings
from holdfast.runtime.config.variables import Overrides
from holdfast.workflows.builtins import BUILTINS
from tests.repository import ROOT

PAGES = [ROOT / "README.md", ROOT / "examples" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TEXT = "\n".join(page.read_text() for page in PAGES)


def documents() -> Iterator[str]:
    for block in re.findall(r"```yaml\n(.*?)```", TEXT, re.S):
        value = plain(read(block, "docs")[0])
        if isinstance(value, dict) and "steps" in value and "agent: clarifier" not in block:
            yield block


@pytest.mark.parametrize("block", list(documents()), ids=lambda block: block.partition("\n")[0])
def test_a_blueprint_in_the_docs_loads(block: str) -> None:
    assert loads(block, name="docs").steps


def test_the_demo_is_the_loop_of_the_readme_and_asks_a_person() -> None:
    command = re.search(r"^demo:.*\n\t@.*holdfast run (\S+)", (ROOT / "Makefile").read_text(), re.M)
    assert command is not None and command[1] in (ROOT / "README.md").read_text()
    demo = load(ROOT / command[1])
    inside = [step.kind for block in demo.steps[0].blocks().values() for step in block.steps]
    assert (demo.steps[0].kind, "hitl" in inside, bool(demo.agents)) == ("loop", True, True)


def test_every_kind_and_key_is_documented() -> None:
    models = [Blueprint, Agent, LoopBlock, *KINDS.values()]
    fields = [(name, field) for model in models for name, field in model.model_fields.items()]
    names = {field.alias or name for name, field in fields} | set(KINDS)
    missing = [name for name in sorted(names) if f"`{name}`" not in TEXT and f"{name}:" not in TEXT]
    assert missing == [], "explain these keys in docs/blueprint.md"


def test_every_kind_of_step_has_its_heading_and_stands_in_the_row_of_kinds() -> None:
    page = (ROOT / "docs" / "blueprint.md").read_text()
    headings = set(re.findall(r"^## `(\w+)`: ", page, re.M))
    assert set(KINDS) - headings == set(), "write in docs/blueprint.md: ## `KIND`: what it does"
    row = re.search(r"^\| `kind` \| ([^|]*) \|", page, re.M)
    assert row is not None and set(re.findall(r"\w+", row[1])) == set(KINDS), "the row `kind` of docs/blueprint.md"


def test_every_kind_of_question_is_documented_with_what_it_accepts() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "answering.md").read_text(), re.M)
    ours = [kind for kind in QUESTION_KINDS.values() if issubclass(kind, Asked)]
    ours.remove(CustomQuestion)  # whatever its author's page says
    assert {kind.listed_as or kind.kind for kind in ours} - set(rows) == set(), "add a row to docs/answering.md"


def test_every_command_is_documented() -> None:
    commands = typer.main.get_command(app).commands
    missing = [name for name in sorted(commands) if f"holdfast {name}" not in TEXT and f"`{name}`" not in TEXT]
    assert missing == [], "add a row to docs/commands.md"


def test_every_refusal_and_builtin_and_exit_code_is_documented() -> None:
    missing = [name for name in (*REFUSALS, *sorted(BUILTINS)) if f"`{name}`" not in TEXT]
    assert missing == [], "explain refusals in docs/api.md, functions in docs/blueprint.md"
    assert all(f"{code} " in TEXT for code in range(6))


def list_failure_types() -> Iterator[str]:
    """Yield the types that workflows and activities give to failures, as text or as a constant of the module."""
    for path in [*(ROOT / "workflows").rglob("*.py"), *(ROOT / "activities").rglob("*.py")]:
        tree = ast.parse(path.read_text())
        named = {ast.unparse(one.targets[0]): one.value for one in tree.body if isinstance(one, ast.Assign)}
        for call in ast.walk(tree):
            if not isinstance(call, ast.Call):
                continue
            types = [keyword.value for keyword in call.keywords if keyword.arg == "type"]
            match call.func:
                case ast.Name(id="failure" | "wrong" | "make_failed"):
                    types = call.args[:1]
                case ast.Name(id="Failure" | "ApplicationError"):
                    pass
                case _:
                    continue
            found = [named.get(ast.unparse(type_), type_) for type_ in types]
            yield from (type_.value for type_ in found if isinstance(type_, ast.Constant))


@pytest.mark.slow
def test_every_type_of_a_failure_has_its_row() -> None:
    rows = re.findall(r"^\| (`[^|]*) \|", (ROOT / "docs" / "failures.md").read_text(), re.M)
    told = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    types = set(list_failure_types())
    assert len(types) > 60 and types - told == set(), "add a row to docs/failures.md"


def test_every_variable_of_a_worker_is_documented_with_its_default() -> None:
    rows = re.findall(r"^\| `HOLDFAST_(\w+)` \| `?([^`|;]*?)`?(?: \||;)", TEXT, re.MULTILINE)
    documented = {name.lower(): default for name, default in rows}
    assert documented.keys() == (Overrides.model_fields.keys() - {"home"}) | WorkerSettings.model_fields.keys()
    defaults = {name: str(field.default or "none") for name, field in WorkerSettings.model_fields.items()}
    assert {name: documented[name] for name in defaults} == defaults


def test_every_link_between_pages_leads_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            assert target.startswith("http") or (page.parent / target).exists(), f"{page.name}: {target}"


@pytest.mark.slow
def test_no_message_names_a_page_which_an_installed_wheel_does_not_have() -> None:
    found, page = [], r"docs/\S*\.md"
    for room in (
        "blueprint",
        "protocol",
        "workflows",
        "activities",
        "runtime",
        "client",
        "server",
        "cli",
        "testkit",
        "worker.py",
    ):
        path = ROOT / room
        for file in [path] if path.is_file() else path.rglob("*.py"):
            text = file.read_text()
            if not re.search(page, text):  # most files are not parsed: all of them took two seconds
                continue
            tree = ast.parse(text)
            docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
            texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in docstrings]
            found += [(file.name, text.value) for text in texts if re.search(page, str(text.value))]
    assert found == []


@pytest.mark.slow
def test_the_reference_is_what_the_kinds_say(monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    reference = importlib.import_module("reference")
    pages = {"reference.md": reference.reference(), "configuration.md": reference.configuration()}
    stale = [name for name, text in pages.items() if (ROOT / "docs" / name).read_text() != text]
    assert stale == [], "write them anew: python docs/reference.py"


def _write_blocks(folder: Path) -> list[Path]:
    """Write each block of Python as a module, by the name in its first line, else by its page and number."""
    files = []
    for page in PAGES:
        for number, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.S)):
            named = re.match(r"# (\w+)\.py\n", block)
            name = named[1] if named else f"{page.stem.lower().replace('-', '_')}_{number}"
            files.append(folder / f"{name}.py")
            assert not files[-1].exists(), f"two blocks are {name}.py"
            files[-1].write_text(block)
    return files


def test_a_block_of_python_in_the_docs_names_what_it_imports_and_no_more(tmp_path: Path) -> None:
    _write_blocks(tmp_path)
    command = ["ruff", "check", "--isolated", "--no-cache", "--select", "F821,F822,F823", "--output-format", "concise"]
    done = subprocess.run([sys.executable, "-m", *command, "."], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_a_block_of_python_in_the_docs_runs_as_it_is_printed(tmp_path: Path) -> None:
    files = _write_blocks(tmp_path)
    (tmp_path / "brief.yaml").write_text("steps: [{name: brief, input: A brief.}]\n")
    names = ", ".join(file.stem for file in files)
    done = subprocess.run([sys.executable, "-c", f"import {names}"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
