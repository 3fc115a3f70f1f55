"""The extras of Holdfast by the libraries that they install, for messages about one that is missing."""

from __future__ import annotations

_EXTRAS = {"langgraph": "langgraph", "mcp": "mcp", "openai": "openai", "anthropic": "anthropic", "redis": "redis"}


def install_command(module: str | None) -> str | None:
    """Return the command that installs a module which an extra brings; None for a module of no extra.

    >>> install_command("langgraph.graph"), install_command("my_tools")
    ("pip install 'holdfast[langgraph]'", None)
    """
    extra = _EXTRAS.get((module or "").partition(".")[0])
    return None if extra is None else f"pip install 'holdfast[{extra}]'"
