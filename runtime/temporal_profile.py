"""The settings of the connection to Temporal: the TEMPORAL_… variables and the profiles of Temporal's TOML file.

`connection` uses them. The SDK reads them, passes over values that it does not understand, and tells of others in words
of its own; so they are checked here first.
"""

from __future__ import annotations

import ipaddress
import os
import re
from pathlib import Path

from temporalio.envconfig import ClientConfigProfile
from temporalio.service import TLSConfig

from holdfast.runtime.config import ConfigError

ADDRESS, TLS = "TEMPORAL_ADDRESS", "TEMPORAL_TLS"
DEFAULT_ADDRESS, PORT = "localhost:7233", 7233
_ADDRESS = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\s:/?#@\[\],\\]+)(?::(?P<port>[0-9]*))?")
_SERVER_NAME = re.compile(r"[^\s/:@?#]+")
_BOOLEANS = ("true", "false", "1", "0")
_SCHEMES_WITH_TLS = ("https", "grpcs")


def load_profile() -> ClientConfigProfile:
    """Return the profile that TEMPORAL_… variables and Temporal's TOML file configure. Raises `ConfigError`."""
    _check_variables()
    try:
        profile = ClientConfigProfile.load(override_env_vars=dict(os.environ))
    except RuntimeError as error:
        raise ConfigError(_explain_unreadable(error)) from None
    if profile.address:
        _check_address(profile.address)
    return profile


def is_configured(profile: ClientConfigProfile) -> bool:
    """Return whether a server is named; the variables for file and profile count even if they add nothing."""
    named = any(os.environ.get(name) for name in ("TEMPORAL_CONFIG_FILE", "TEMPORAL_PROFILE"))
    return named or profile != ClientConfigProfile()


def find_origin(variable: str, key: str) -> str:
    """Return where a setting comes from: its variable if that is set, else the key of the profile."""
    if os.environ.get(variable):
        return variable
    return f"{key} of the Temporal profile '{os.environ.get('TEMPORAL_PROFILE') or 'default'}'"


def make_tls_config(profile: ClientConfigProfile) -> bool | TLSConfig | None:
    """Return the TLS settings; None leaves it to the SDK, which uses TLS if there is an API key.

    Raises `ConfigError` for files that cannot be read or hold no key or certificate.
    """
    if profile.tls is None:
        return None
    try:
        tls = profile.tls.to_connect_tls_config()
    except OSError as error:
        raise ConfigError(f"a TLS file of TEMPORAL_TLS_… cannot be read: {error}; correct its path") from error
    if isinstance(tls, TLSConfig):
        _check_certificates(tls)
    return tls


def _check_variables() -> None:
    """Raise `ConfigError` for values that the SDK would pass over in silence."""
    file = os.environ.get("TEMPORAL_CONFIG_FILE")
    if file and not Path(file).exists():
        raise ConfigError(f"TEMPORAL_CONFIG_FILE={file}: there is no such file; correct the path, or unset it")
    value = os.environ.get(TLS)
    if value and value.casefold() not in _BOOLEANS:
        raise ConfigError(f"{TLS}={value}: must be true or false")
    # The SDK for Python has no such switch: the connection would be refused with no word of it.
    unverified = os.environ.get("TEMPORAL_TLS_DISABLE_HOST_VERIFICATION")
    if unverified and unverified.casefold() not in ("false", "0"):
        raise ConfigError(
            "TEMPORAL_TLS_DISABLE_HOST_VERIFICATION is not supported: certificates are always verified; unset it, and "
            "name the server's certificate authority in TEMPORAL_TLS_SERVER_CA_CERT_PATH"
        )


def _explain_unreadable(error: RuntimeError) -> str:
    """Return the message for settings that the SDK refuses: its text shows an error of TOML in four lines."""
    text = str(error).removeprefix("Configuration loading error: ").removeprefix("Invalid configuration: ").strip()
    file = os.environ.get("TEMPORAL_CONFIG_FILE")
    place = f"Temporal's configuration{f' in {file}' if file else ''}"
    if toml := re.match(r"TOML parse error at line (\d+), column (\d+)\n", text):
        lines = [line.strip() for line in text.splitlines()]
        return f"{place}, line {toml[1]}, column {toml[2]}: {lines[-1]}; correct the file"
    return f"{place}: {text}; correct it, or unset the variable"


def _check_address(address: str) -> None:
    """Raise `ConfigError` for anything but HOST:PORT: the SDK takes some of it for another server, or raises."""
    problem, suggestion = _find_problem(address)
    if problem is None:
        return
    # What stands before an @ may be a password.
    named = "the address" if "@" in address else repr(address)
    way = f"write HOST:PORT: {suggestion}" if suggestion else f"write HOST:PORT, such as {DEFAULT_ADDRESS}"
    tls = f", and {TLS}=true for TLS" if address.strip().partition("://")[0].lower() in _SCHEMES_WITH_TLS else ""
    raise ConfigError(f"{find_origin(ADDRESS, 'address')}: {named} {problem}; {way}{tls}")


def _find_problem(address: str) -> tuple[str | None, str]:
    """Return what is wrong with an address, None for nothing, and the address that was meant, "" if that is unclear.

    >>> _find_problem("https://temporal.example.com/api")
    ('is a URL', 'temporal.example.com:7233')
    >>> _find_problem("localhost")
    ('has no port', 'localhost:7233')
    """
    _, separator, rest = address.strip().rpartition("://")
    authority = re.split(r"[/?#]", rest.lstrip("/"), maxsplit=1)[0]
    suggestion, fault = _complete_address(authority.rpartition("@")[2].strip())
    if separator:
        return "is a URL", suggestion
    if "@" in rest:
        return "has a user name", suggestion
    if authority != rest:
        return "has a path", suggestion
    if address != address.strip():
        return "has spaces around it", suggestion
    return fault, suggestion


def _complete_address(text: str) -> tuple[str, str | None]:
    """Return the host and the port as HOST:PORT, with the usual port for none, and what is wrong with the text."""
    if text.count(":") > 1 and _is_ipv6(text):
        return f"[{text.removesuffix(f':{PORT}')}]:{PORT}", "is an IPv6 address without brackets"
    match = _ADDRESS.fullmatch(text)
    if match is None:
        return "", "is not an address"
    port = match["port"]
    if not port:
        return f"{match['host']}:{PORT}", "has no port"
    if not 1 <= int(port) <= 65535:
        return f"{match['host']}:{PORT}", "has a port that is not in 1 to 65535"
    return text, None


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def _check_certificates(tls: TLSConfig) -> None:
    """Raise `ConfigError` for a certificate without its key, and for values that are not in PEM."""
    if (tls.client_cert is None) != (tls.client_private_key is None):
        present, absent = ("CERT", "KEY") if tls.client_private_key is None else ("KEY", "CERT")
        raise ConfigError(
            f"TEMPORAL_TLS_CLIENT_{present}_… is set and TEMPORAL_TLS_CLIENT_{absent}_… is not: a client certificate "
            "needs its key; set both, or neither"
        )
    values = {
        "CLIENT_CERT": tls.client_cert,
        "CLIENT_KEY": tls.client_private_key,
        "SERVER_CA_CERT": tls.server_root_ca_cert,
    }
    for name, value in values.items():
        if value is not None and b"-----BEGIN " not in value:
            raise ConfigError(
                f"TEMPORAL_TLS_{name}_… has nothing in PEM; give the path of a file (TEMPORAL_TLS_{name}_PATH) or the "
                f"text (TEMPORAL_TLS_{name}_DATA) that begins with -----BEGIN"
            )
    if tls.domain is not None and not _SERVER_NAME.fullmatch(tls.domain):
        raise ConfigError(f"TEMPORAL_TLS_SERVER_NAME={tls.domain!r} is not a host name; write that of the certificate")
