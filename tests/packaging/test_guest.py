"""The wheel beside a project whose packages are named like our folders."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tests.repository import ROOT

pytestmark = pytest.mark.slow

NAMES = ("activities", "cli", "client", "protocol", "runtime", "server", "workflows")
TOOL = "from holdfast import tool\n\n@tool\ndef double(n: int) -> int:\n    return 2 * n\n"
PROJECT = f"""
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "acme"
version = "1"
[tool.setuptools]
packages = {list(NAMES)}
py-modules = ["worker"]
"""


def run(*command: str | Path, folder: Path, **environment: str) -> str:
    clean = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TEMPORAL", "HOLDFAST"))
    }
    done = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env=clean | environment,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def pip(*words: str | Path, folder: Path) -> None:
    run(folder / "env/bin/python", "-m", "pip", "-q", "--disable-pip-version-check", *words, folder=folder)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, built as pip builds it."""
    folder = tmp_path_factory.mktemp("wheel")
    make = [sys.executable, "-m", "pip", "-q", "wheel", "--no-deps", "-w", folder]
    run(*make, ROOT, folder=folder)
    [built] = folder.glob("holdfast-*.whl")
    return built


@pytest.fixture(scope="module")
def guest(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with packages named like our rooms, and an environment with our wheel."""
    folder = tmp_path_factory.mktemp("guest")
    venv.create(folder / "env", symlinks=True, with_pip=True)
    [site] = (folder / "env" / "lib").glob("python*/site-packages")
    # Our dependencies and build tools are those of the environment that runs this test.
    outer = next(path for path in map(Path, sys.path) if path.name == "site-packages")
    (site / "outer.pth").write_text(f"{outer}\n")
    pip("install", "--no-deps", "--force-reinstall", wheel, folder=folder)
    (folder / "pyproject.toml").write_text(PROJECT)
    for name in NAMES:
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(f"OWNER = 'acme'\nNAME = {name!r}\n")
    (folder / "activities" / "invoices.py").write_text(TOOL)
    (folder / "worker.py").write_text("OWNER = 'acme'\n")
    (folder / "holdfast.toml").write_text('[worker]\nimports = ["activities.invoices"]\n')
    (folder / "b.yaml").write_text("steps:\n  - {name: twice, uses: double, input: {n: 21}}\n")
    return folder


def check(folder: Path) -> None:
    """Their modules are theirs, a tool of theirs can be called, and ours are whole."""
    theirs = [f"import {name}; assert {name}.OWNER == 'acme', {name}" for name in (*NAMES, "worker")]
    tool = "from activities.invoices import double; assert double(2) == 4"
    ours = "import holdfast.worker, holdfast.testkit.plugin, holdfast.cli.app"
    run(folder / "env/bin/python", "-c", "\n".join([*theirs, tool, ours]), folder=folder)


def test_the_wheel_holds_one_package(wheel: Path) -> None:
    names = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {name for name in names if not name.endswith(".dist-info")} == {"holdfast"}


def test_the_wheel_holds_what_create_writes(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    for source in (ROOT / "examples").glob("*/*.*"):
        if source.suffix in (".yaml", ".py", ".md", ".toml"):
            assert f"holdfast/cli/templates/{source.parent.name}/{source.name}" in names
    for pattern in (ROOT / "cli" / "wizard").rglob("*.yaml"):
        assert f"holdfast/{pattern.relative_to(ROOT)}" in names


def test_a_project_with_folders_named_like_ours_keeps_them_and_leaves_ours_whole(guest: Path) -> None:
    check(guest)
    for options in (["--editable"], []):
        pip("install", "--no-deps", *options, guest, folder=guest)
        check(guest)
        pip("uninstall", "--yes", "acme", folder=guest)
    check(guest)


def test_its_blueprint_runs_with_a_tool_of_a_package_named_like_ours(guest: Path) -> None:
    environment = {"HOLDFAST_HOME": str(guest / "state"), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    holdfast = guest / "env/bin/holdfast"
    try:
        assert run(holdfast, "run", "b.yaml", folder=guest, **environment).strip().endswith("42")
    finally:
        run(holdfast, "down", folder=guest, **environment)


def test_the_wheel_has_the_pages_and_a_description_without_dead_links(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as built:
        names = set(built.namelist())
        [metadata] = [name for name in names if name.endswith("METADATA")]
        description = built.read(metadata).decode()
    assert {f"holdfast/docs/{page.name}" for page in (ROOT / "docs").glob("*.md")} <= names
    assert "pip install 'holdfast[embedded]'" in description
    assert [link for link in re.findall(r"\]\(([^)]*)\)", description) if not link.startswith("https://")] == []
