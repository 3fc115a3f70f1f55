"""The blocks of docs/bring-your-agent.md about graphs and other callables run as they are printed."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from temporalio.client import Client

from holdfast.activities import all_activities
from tests.conftest import Harness, worker_for
from tests.repository import ROOT

PAGE = (ROOT / "docs" / "bring-your-agent.md").read_text()
MODULES = {"refunds", "desk", "signing"}


def block(begin: str) -> str:
    [found] = re.findall(rf"```yaml\n(steps:\n  - {re.escape(begin)}.*?)```", PAGE, re.S)
    return str(found)


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The modules of the page, each in the file that its first line names."""
    for name, text in re.findall(r"```python\n# (\w+)\.py\n(.*?)```", PAGE, re.S):
        if name in MODULES:
            (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    for name in MODULES:
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("module", "begin", "uses", "answer", "output"),
    [
        ("refunds", "name: refund", '"refunds:graph"', "refund", "refund"),
        ("desk", "name: refund", "refund_desk", "refund", {"action": "refund"}),
        ("signing", "{name: contract", "sign", "Ana", "The contract, signed by Ana"),
    ],
)
async def test_a_blueprint_of_the_page_asks_and_goes_on(
    temporal: Client, tmp_path: Path, modules: None, module: str, begin: str, uses: str, answer: str, output: object
) -> None:
    importlib.import_module(module)
    house = Harness(temporal, f"docs-{tmp_path.name}", tmp_path)
    activities = all_activities(sorted(MODULES), {})
    async with worker_for(temporal, f"docs-{tmp_path.name}", activities=activities):
        run = await house.start(block(begin).replace('"refunds:graph"', uses), check=True)
        await house.answer(run, answer)
        assert await house.output(run) == output
        await house.replay()
