"""Load a blueprint: of a file or a text (`files`), one that a module builds (`modules`), that of a plan (`plans`)."""

from holdfast.blueprint.load.files import load, loads, parse, parse_document, parse_file
from holdfast.blueprint.load.modules import is_target
from holdfast.blueprint.load.parsed import Parsed

__all__ = ["Parsed", "parse_file", "is_target", "load", "loads", "parse", "parse_document"]
