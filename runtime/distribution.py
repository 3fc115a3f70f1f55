"""The installed distribution: its version, its worker, and the extras that bring a missing library."""

from __future__ import annotations

import importlib.metadata

WORKER = ("-P", "-m", "holdfast.worker")
"""Arguments of `python` for a worker. With `-P` no folder of the user comes before what is installed."""
_EXTRAS = {"langgraph": "langgraph", "mcp": "mcp", "openai": "openai", "anthropic": "anthropic", "redis": "redis"}


def find_version() -> str | None:
    """Return the version of the distribution; None in a source tree that is not installed."""
    try:
        return importlib.metadata.version("holdfast")
    except importlib.metadata.PackageNotFoundError:
        return None


def find_install_command(module: str | None) -> str | None:
    """Return the command that installs a module which an extra brings; None for a module of no extra.

    >>> find_install_command("langgraph.graph"), find_install_command("my_tools")
    ("pip install 'holdfast[langgraph]'", None)
    """
    extra = _EXTRAS.get((module or "").partition(".")[0])
    return None if extra is None else f"pip install 'holdfast[{extra}]'"
