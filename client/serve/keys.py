"""The key of links and forms: the one that the configuration names, else one in the state folder."""

from __future__ import annotations

import os

from holdfast.client.config import Config, ConfigError
from holdfast.client.key_files import make_key

KEY_FILE = "serve.key"


def serve_key(config: Config) -> bytes:
    """Return the key; one in the state folder is made if it is missing. Raises `ConfigError`."""
    name = config.serve.key_env
    if name is not None:
        value = os.environ.get(name)
        if not value:
            raise ConfigError(f"{config.path}: serve.key_env: {name} is not set; export {name}=…")
        return value.encode()
    file = config.home / KEY_FILE
    make_key(file)
    return file.read_bytes()
