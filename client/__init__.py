"""What a person sees and sends. `from client import connect, Runs, Answer`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from client.answering import Answering
    from client.connection import connect
    from client.runs import Runs
    from client.secrets import keeper
    from protocol.answers import Answer, Refusal

__all__ = ["Answer", "Answering", "Refusal", "Runs", "connect", "keeper"]

_HOMES = {
    "Answer": "protocol.answers",
    "Answering": "client.answering",
    "Refusal": "protocol.answers",
    "Runs": "client.runs",
    "connect": "client.connection",
    "keeper": "client.secrets",
}


def __getattr__(name: str) -> Any:
    """Load a name when it is first used: `holdfast --help` lives in this package, and must not wait for Temporal."""
    if name not in _HOMES:
        raise AttributeError(f"module 'client' has no attribute {name!r}")
    return importlib.import_module(_HOMES[name]).__dict__[name]
