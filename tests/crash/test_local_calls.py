"""Ten workers killed in the middle of local calls: each is made again with its workflow task, and nobody is asked."""

from __future__ import annotations

import pytest

from tests.conftest import until
from tests.crash.machines import Machines, asked
from tests.tools import calls

pytestmark = pytest.mark.slow

KILLS = 10
TEXT = """
agents: {{a: {{model: echo}}}}
steps:
  - kind: loop
    name: l
    loop:
      max_loops: 4
      checkpoint_every: 2
      body:
        - {{name: repeat, agent: a, input: "round {{{{ iteration }}}}"}}
        - {{name: work, uses: hangs_locally, local: true, input: {{folder: "{folder}", name: n}}}}
        - {{kind: hitl, name: ask, message: "{{{{ steps.repeat.output }}}}?"}}
"""


async def test_a_local_call_outlasts_ten_killed_workers(machines: Machines) -> None:
    house, hang = await machines.house(), machines.folder / "hang"
    machines.start_worker()
    run = await house.start(TEXT.format(folder=machines.folder), "x")
    killed = 0
    for iteration in range(1, 5):
        question = await asked(house, run, f"round {iteration}?")
        hang.touch()
        await house.answer(run, "go on", question)
        for _ in range(4 if iteration < 3 else 2 * (iteration == 3)):  # the fourth answer ends the run
            before = calls(machines.folder, "n")

            async def called(before: int = before) -> bool:
                return calls(machines.folder, "n") > before

            await until(called, "another call")
            machines.restart_worker()
            killed += 1
        hang.unlink()
    assert (await house.output(run), killed) == ("go on", KILLS)
    assert calls(machines.folder, "n") >= 4 + KILLS
    assert not {"question.returned", "step.retrying"} & set(await house.types(run))
    await house.replay()
