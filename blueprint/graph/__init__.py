"""A blueprint as a Mermaid flowchart; with the marks of a run, also where it stands."""

from __future__ import annotations

from blueprint.grammar import Blueprint
from blueprint.graph.drawing import Drawing
from blueprint.graph.kinds import DRAWN
from blueprint.graph.marks import Marks, Path, State

__all__ = ["Marks", "Path", "State", "graph"]


def graph(blueprint: Blueprint, marks: Marks | None = None) -> str:
    """
    >>> from blueprint import loads
    >>> print(graph(loads("steps: [{name: ask, kind: hitl, message: 'Which?'}]", name="tiny")), end="")
    flowchart TD
      n1(["tiny"])
      n2{{"ask<br/>Which?"}}
      n3(["end"])
      n1 --> n2
      n2 --> n3
    """
    drawing = Drawing(DRAWN, marks or Marks())
    drawing.whole(blueprint)
    return drawing.sheet.text()
