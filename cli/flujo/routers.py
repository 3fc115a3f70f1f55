"""Flujo's routers, as an agent that names branches and a `parallel` that runs those."""

from __future__ import annotations

from holdfast.blueprint.source import PlacedDict, PlacedList
from holdfast.cli.flujo.notes import Notes

ROUTERS = ("dynamicrouter", "dynamicparallelrouter")
"""Kinds of Flujo's, in small letters without `_`."""


def convert_router(step: PlacedDict, notes: Notes) -> None:
    """Turn a router in place, if it says which agent chooses and among what; its branches are turned after it.

    The result is a block of two steps, so that its output is that of the branches.
    """
    if str(step.get("kind")).replace("_", "").lower() not in ROUTERS:
        return
    router = step.get("router", step)
    agent, branches = (
        (router.get("router_agent"), router.get("branches")) if isinstance(router, PlacedDict) else ("", "")
    )
    if not isinstance(agent, str) or not isinstance(branches, PlacedDict) or not isinstance(step.get("name"), str):
        return
    place, name = step.value_place("kind"), step["name"]
    for key in [key for key in ("router", "router_agent", "branches") if key in step]:
        step.take(key)
    choice = PlacedDict.at(place, name=f"{name}_choice", uses=agent)
    chosen = f"{{{{ steps.{name}_choice.output }}}}"
    runs = PlacedDict.at(place, kind="parallel", name=f"{name}_branches", choose=chosen, branches=branches)
    step["kind"] = "block"
    step.put("steps", PlacedList.at(place, choice, runs), place)
    notes.change(place, f"the router is a block: {agent} names the branches, and a parallel runs those (choose)")
