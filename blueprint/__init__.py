"""The language: what an author may write. Pure; imports no Temporal."""

from blueprint.core import expand
from blueprint.errors import BlueprintError, Problem
from blueprint.grammar import Blueprint
from blueprint.load import load, loads

__all__ = ["Blueprint", "BlueprintError", "Problem", "expand", "load", "loads"]
