"""The blueprint language: what an author may write. Pure; imports no Temporal."""

from holdfast.blueprint.core import expand
from holdfast.blueprint.errors import BlueprintError, Problem
from holdfast.blueprint.kinds import Blueprint
from holdfast.blueprint.load import load, loads

__all__ = ["Blueprint", "BlueprintError", "Problem", "expand", "load", "loads"]
