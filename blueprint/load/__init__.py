"""Load a blueprint from a file or a text: `files`; the plan of a planner, a person or another notation: `plans`."""

from holdfast.blueprint.load.files import Parsed, examine, load, loads, parse, parse_document

__all__ = ["Parsed", "examine", "load", "loads", "parse", "parse_document"]
