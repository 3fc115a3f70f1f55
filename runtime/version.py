"""The version of the installed package, for the command line, SARIF and the MCP server."""

from __future__ import annotations

import importlib.metadata


def installed_version() -> str | None:
    """Return the version of the distribution; None in a source tree that is not installed."""
    try:
        return importlib.metadata.version("holdfast")
    except importlib.metadata.PackageNotFoundError:
        return None
