"""Draw a blueprint as a flowchart, for `holdfast graph` and the pages; with an overlay, also the state of a run."""

from __future__ import annotations

from holdfast.blueprint.graph.chart import Chart, ChartEdge, ChartGroup, ChartNode
from holdfast.blueprint.graph.flowchart import Flowchart
from holdfast.blueprint.graph.mermaid import mermaid_text
from holdfast.blueprint.graph.overlay import Path, RunOverlay, State
from holdfast.blueprint.graph.steps import draw_step
from holdfast.blueprint.kinds import Blueprint

__all__ = ["Chart", "ChartEdge", "ChartGroup", "ChartNode", "Path", "RunOverlay", "State", "make_chart", "graph"]


def graph(blueprint: Blueprint, overlay: RunOverlay | None = None) -> str:
    """Return the Mermaid source of a blueprint's flowchart, coloured by the overlay.

    >>> from holdfast.blueprint.load import loads
    >>> print(graph(loads("steps: [{name: ask, kind: hitl, message: 'Which?'}]", name="tiny")), end="")
    flowchart TD
      n1(["tiny"])
      n2{{"ask<br/>Which?"}}
      n3(["end"])
      n1 --> n2
      n2 --> n3
    """
    return mermaid_text(make_chart(blueprint, overlay))


def make_chart(blueprint: Blueprint, overlay: RunOverlay | None = None) -> Chart:
    """Return a blueprint's flowchart as data, with the states of the overlay."""
    drawing = Flowchart(draw_step, overlay or RunOverlay())
    drawing.draw(blueprint)
    return drawing.chart
