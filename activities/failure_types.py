"""The types and the texts of the failures of tools and graphs: a timeout, an HTTP status, or anything else."""

from __future__ import annotations

from temporalio.exceptions import ApplicationError

from holdfast.protocol.tool_errors import TIMEOUT, TOOL_ERROR, status_in


def classify_error(error: BaseException) -> str:
    """Return the failure type: `timeout`, or `http_…` by the status in attributes or text, or `tool_error`."""
    if isinstance(error, TimeoutError):
        return TIMEOUT
    # The usual attributes of HTTP libraries: the exception may be of any of them.
    holders = (error, getattr(error, "response", None))
    codes = [getattr(holder, name, None) for holder in holders for name in ("status_code", "status", "code")]
    status = next((code for code in codes if type(code) is int and 400 <= code < 600), None) or status_in(str(error))
    return TOOL_ERROR if status is None else f"http_{status}"


def is_retryable(error: BaseException) -> bool:
    """Return whether an error comes from the world outside, so that no answer of a person can be its cause."""
    return isinstance(error, OSError | ApplicationError) or classify_error(error) != TOOL_ERROR


def replace_surrogates(text: str) -> str:
    """Return the text without lone surrogates, which no history can hold."""
    return text.encode(errors="replace").decode()


def explain_unused(error: BaseException) -> str:
    """Return why an answer could not be used, for the person who gave it."""
    return f"it could not be used ({type(error).__name__}: {error})"
