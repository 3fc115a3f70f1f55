"""Classification of tool failures in five kinds, by HTTP status or by the words of the message.

Used by plans, to choose between reconnecting, replacing, correcting and retrying, and by the tool activity, to choose
what Temporal retries.
"""

from __future__ import annotations

import re
from typing import Literal

from holdfast.blueprint.json_values import JSON

ErrorKind = Literal["authorization", "missing", "bad_arguments", "timeout", "business"]

BY_STATUS: dict[int, ErrorKind] = {
    400: "bad_arguments",
    401: "authorization",
    403: "authorization",
    404: "missing",
    422: "bad_arguments",
    504: "timeout",
}
BY_TYPE: dict[str, ErrorKind] = {
    "unknown_tool": "missing",
    "tool_input": "bad_arguments",
    "timeout": "timeout",
    **{f"http_{status}": kind for status, kind in BY_STATUS.items()},
}
NEVER_AGAIN = ("http_400", "http_401", "http_403", "http_404", "http_422")
"""Failure types that are not retried."""
TIMEOUT = "timeout"
TOOL_ERROR = "tool_error"
"""Failure type of whatever else a tool raises."""
OUTCOME_UNKNOWN = "outcome_unknown"
"""Failure type of a call that may not run twice and may have taken effect: a person is asked."""
CHECKPOINTS_UNREACHABLE = "checkpoints_unreachable"
"""Failure type where checkpoints of a graph cannot be read or kept now, as on a full disk: no failure of the call."""
MAY_HAVE_HAPPENED = ("http_504", TIMEOUT)
"""Failure types of calls that may have taken effect all the same."""
_NUMBER = re.compile(
    r"^\W*(?:\w+:\s*)?([45]\d\d)\b|\b(?:http|status|code|error)\b\D{0,12}\b([45]\d\d)\b", re.IGNORECASE
)
_WORDS: dict[int, re.Pattern[str]] = {
    401: re.compile(r"token (has )?expired|expired token|unauthori[sz]ed|jeton expir", re.IGNORECASE),
    403: re.compile(r"\bforbidden\b|accès refusé", re.IGNORECASE),
    504: re.compile(r"gateway time-?out", re.IGNORECASE),
    400: re.compile(r"\bbad request\b", re.IGNORECASE),
}


def status_in(text: str) -> int | None:
    """Return the HTTP status that the text of an error mentions or describes, or None.

    >>> status_in("401 Unauthorized"), status_in("HTTP status: 504"), status_in("token expired"), status_in("add 400 g")
    (401, 504, 401, None)
    """
    if (match := _NUMBER.search(text)) is not None:
        return int(match[1] or match[2])
    return next((status for status, words in _WORDS.items() if words.search(text)), None)


def may_have_acted(type_: str | None) -> bool:
    """Return whether a call with a failure of this type may have taken effect all the same."""
    return type_ in (OUTCOME_UNKNOWN, *MAY_HAVE_HAPPENED)


def kind_of_failure(type_: str, message: str) -> ErrorKind | None:
    """Return the kind of a failed call, or None if it is none of the five.

    Args:
        type_: Type of the failure, such as `http_404`, `timeout` or `tool_error`.
    """
    if type_ in BY_TYPE:
        return BY_TYPE[type_]
    return None if type_.startswith("http_") else BY_STATUS.get(status_in(message) or 0)


def kind_of_result(result: object) -> tuple[ErrorKind, str] | None:
    """Return kind and message of a result that reports `success: false`, or None for any other result."""
    if not isinstance(result, dict) or result.get("success") is not False:
        return None
    message = str(result.get("error") or result.get("message") or "the tool says that it did not succeed")
    codes = [result[key] for key in ("status", "status_code", "code") if isinstance(result.get(key), int)]
    return BY_STATUS.get(codes[0] if codes else status_in(message) or 0, "business"), message


def useful(result: object) -> JSON:
    """Return the data of `{success: true, data: …}`; any other result as it is."""
    match result:
        case {"success": True, "data": data}:
            return data
    return result
