"""Steps and blueprints that tests of several folders start."""

from __future__ import annotations

from typing import Any

import yaml

import tests.tools  # noqa: F401 registers the tools
from tests.conftest import Harness

ASK = {"kind": "hitl", "name": "ask", "message": "Go on?"}


def written(*steps: dict[str, Any], **more: Any) -> str:
    return yaml.safe_dump({**more, "steps": list(steps)})


def repeat(*body: dict[str, Any], name: str = "l", most: int = 100_000, every: int = 1) -> dict[str, Any]:
    """A loop that continues as new after so many iterations."""
    return {"kind": "loop", "name": name, "loop": {"max_loops": most, "checkpoint_every": every, "body": list(body)}}


def counting(house: Harness) -> dict[str, Any]:
    return {"name": "count", "uses": "counted", "input": {"folder": str(house.folder), "name": "calls"}}


def hanging(house: Harness) -> dict[str, Any]:
    return {"name": "hang", "uses": "hangs_once", "input": {"folder": str(house.folder), "name": "calls"}}


ONE = "steps: [{kind: hitl, name: ask, message: Go?}]"
ECHO = "agents: {editor: {model: echo}}\n"
MORE_OR_STOP = (
    ECHO
    + """
name: brief
steps:
  - kind: loop
    name: clarify
    loop:
      max_loops: 5
      exit_expression: output == 'stop'
      body:
        - {name: draft, agent: editor}
        - {kind: hitl, name: review, message: "Draft {{ iteration }}: {{ steps.draft.output }}"}
"""
)
NESTED = """
steps:
  - kind: loop
    name: outer
    loop:
      max_loops: 2
      body:
        - {name: before, input: "outer {{ iteration }}", sink_to: before}
        - kind: loop
          name: inner
          loop:
            max_loops: 3
            exit_expression: output == 'next'
            body:
              - {kind: hitl, name: ask, message: "{{ context.before }}, inner {{ iteration }}"}
              - {name: after, input: "{{ steps.ask.output }}"}
        - {name: behind, input: "{{ steps.inner.output }}-{{ iteration }}", sink_to: behind}
output: "{{ context.behind }}"
"""
