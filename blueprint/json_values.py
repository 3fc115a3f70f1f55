"""The types of JSON values, for every room.

To the type checker a JSON value is anything: it is checked where it enters (`protocol/door.py`, schemas), not where it
is passed on. Use `object` for a parameter that takes any value and looks into none.
"""

from typing import Any, TypeAlias

JSON: TypeAlias = Any
"""Null, a boolean, a number, text, a list or an object."""
JSONObject: TypeAlias = dict[str, Any]
