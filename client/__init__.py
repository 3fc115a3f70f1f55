"""The client side: the Python API for runs, and the `holdfast` command.

Programs write `from holdfast.client import connect, Runs, Answer`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.client.answering import Answering
    from holdfast.client.connection import connect
    from holdfast.client.runs import Runs
    from holdfast.client.secrets import keeper
    from holdfast.protocol.answers import Answer, Refusal

__all__ = ["Answer", "Answering", "Refusal", "Runs", "connect", "keeper"]

_HOMES = {
    "Answer": "holdfast.protocol.answers",
    "Answering": "holdfast.client.answering",
    "Refusal": "holdfast.protocol.answers",
    "Runs": "holdfast.client.runs",
    "connect": "holdfast.client.connection",
    "keeper": "holdfast.client.secrets",
}


def __getattr__(name: str) -> Any:
    """Load a name when it is first used: `holdfast --help` lives in this package, and must not wait for Temporal."""
    if name not in _HOMES:
        raise AttributeError(f"module 'holdfast.client' has no attribute {name!r}")
    return importlib.import_module(_HOMES[name]).__dict__[name]
