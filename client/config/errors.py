"""The error of a configuration that cannot be used."""


class ConfigError(ValueError):
    """A configuration that cannot be used. The message has a line for each problem: place, key and way out."""
