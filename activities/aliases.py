"""The models of a deployment, by the names that blueprints use; given to `ModelActivities` and the providers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelAlias:
    """The model that the deployment has under a name. None of it is ever in a payload."""

    model: str
    api_key_env: str | None = None
    """Name of the environment variable that holds the key."""
    base_url: str | None = None
    timeout: float | None = None
    """Seconds for one request; None: as long as the activity may take."""
