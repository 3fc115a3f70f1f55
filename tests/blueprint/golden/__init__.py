"""What `explain` and `graph` say of every example, of `everything.yaml`, and of two plans, as files.

Written anew by `python -m tests.blueprint.golden`.
"""

from pathlib import Path

import holdfast.runtime.config  # noqa: F401 imports the packages of holdfast.toml for a kind of question that is not known
from holdfast.blueprint.explain import explain
from holdfast.blueprint.graph import graph
from holdfast.blueprint.load import load
from tests.repository import ROOT

FOLDER = Path(__file__).parent
EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*/*.yaml") if path.suffixes == [".yaml"])
PLANS = sorted([*(ROOT / "examples").glob("*/*.json"), *FOLDER.glob("*.json")])
EXAMPLES = [*(path for path in EXAMPLES if path.stem != "replies"), FOLDER / "everything.yaml", *PLANS]
AGAIN = "if that is meant: python -m tests.blueprint.golden"


def golden() -> dict[str, str]:
    """What should stand in the files, by their names."""
    found = {}
    for path in EXAMPLES:
        blueprint = load(path)
        found[f"{path.stem}.txt"] = explain(blueprint, demands={}).text
        found[f"{path.stem}.mmd"] = graph(blueprint)
    return found


def write() -> None:
    """Write the files anew; if an example does not load, they stay as they are."""
    texts = golden()
    for old in FOLDER.glob("*.*"):
        if old.suffix in (".txt", ".mmd") and old.name not in texts:
            old.unlink()
    for name, text in texts.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
