"""Draw a blueprint as a Mermaid flowchart, for `holdfast graph`; with an overlay, also the state of a run."""

from __future__ import annotations

from holdfast.blueprint.graph.flowchart import Flowchart
from holdfast.blueprint.graph.overlay import Path, RunOverlay, State
from holdfast.blueprint.graph.steps import draw_step
from holdfast.blueprint.kinds import Blueprint

__all__ = ["RunOverlay", "Path", "State", "graph"]


def graph(blueprint: Blueprint, overlay: RunOverlay | None = None) -> str:
    """Return the Mermaid source of a blueprint's flowchart, coloured by the overlay.

    >>> from holdfast.blueprint import loads
    >>> print(graph(loads("steps: [{name: ask, kind: hitl, message: 'Which?'}]", name="tiny")), end="")
    flowchart TD
      n1(["tiny"])
      n2{{"ask<br/>Which?"}}
      n3(["end"])
      n1 --> n2
      n2 --> n3
    """
    drawing = Flowchart(draw_step, overlay or RunOverlay())
    drawing.draw(blueprint)
    return drawing.chart.text()
