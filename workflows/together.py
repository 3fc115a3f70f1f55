"""Telling a cancellation from a failure, wherever an exception may come from."""

from __future__ import annotations

import asyncio

from temporalio.exceptions import FailureError, is_cancelled_exception


def is_cancelled(error: BaseException) -> bool:
    """Whether the error is a cancellation, however deep; cancellation is never handled as a failure."""
    if isinstance(error, asyncio.CancelledError):
        return True
    return isinstance(error, FailureError) and is_cancelled_exception(error)
