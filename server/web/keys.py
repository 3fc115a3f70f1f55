"""The key of links and forms: the one that the configuration names, else one in the state folder."""

from __future__ import annotations

from holdfast.runtime.config import Config
from holdfast.runtime.own_files import own_key

KEY_FILE = "serve.key"


def serve_key(config: Config) -> bytes:
    """Return the key; one in the state folder is made if it is missing. Raises `ConfigError`."""
    name = config.serve.key_env
    text = own_key(config.home / KEY_FILE) if name is None else config.variable("serve.key_env", name)
    return text.encode()
