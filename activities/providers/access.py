"""How a provider is reached: by which library, at which address, with which key."""

from __future__ import annotations

import importlib
import inspect
import os
import re
from collections.abc import Callable
from functools import partial
from typing import Any

from pydantic_ai.exceptions import UserError
from pydantic_ai.models import Model, infer_model
from pydantic_ai.providers import Provider, infer_provider_class
from pydantic_ai.providers.gateway import gateway_provider
from temporalio.exceptions import ApplicationError

from activities.models import ModelAlias
from activities.providers.failures import address_in, shown
from activities.registry import wrong

_COMPATIBLE = "openai-compatible:"
_SERVICE = "compatible"
"""What such a service is called in replies: no known provider, for its replies would get that one's prices."""
_GATEWAY = "gateway/"
_OPENAI = ("openai", "openai-chat", "openai-responses")
_NO_KEY = "none"
_EXTRAS = ("openai", "anthropic", "google")
"""Extras of ours; those of other providers are pydantic-ai's."""


def made(name: str, alias: ModelAlias, ours: bool) -> Model[Any]:
    """The model with an HTTP client of its own. `ours`: the deployment named it, and not a blueprint."""
    key = _key(name, alias)
    try:
        if alias.model.startswith(_COMPATIBLE):
            return _compatible(name, alias, key, ours)
        return infer_model(alias.model, provider_factory=lambda wanted: _provider(name, wanted, alias, key))
    except ImportError as error:
        raise wrong("unknown_model", f"{shown(name)}: {_missing(str(error))}") from None
    except UserError as error:
        raise wrong("unknown_model", f"{shown(name)}: {error}") from None


def _key(name: str, alias: ModelAlias) -> str | None:
    if alias.api_key_env is None:
        return None
    if key := os.environ.get(alias.api_key_env):
        return key
    raise _without(name, alias.api_key_env)


def _without(name: str, variables: str) -> ApplicationError:
    return wrong("model_auth", f"{shown(name)}: {variables} is not set where the worker runs")


def _compatible(name: str, alias: ModelAlias, key: str | None, ours: bool) -> Model[Any]:
    """A service that speaks OpenAI's chat completions.

    A blueprint may name any address, and a plan may be written by a model: so the deployment's OpenAI key goes
    only to addresses that the deployment itself wrote down.
    """
    url = address_in(alias.model) or alias.base_url
    model = shown(alias.model).removeprefix(_COMPATIBLE)
    if not model or not url:
        raise wrong("unknown_model", f"{shown(name)}: write {_COMPATIBLE}NAME@URL, such as llama3@http://host/v1")
    key = key or (os.environ.get("OPENAI_API_KEY") if ours else None)
    # Only here, as it needs a package that the worker may do without.
    service = importlib.import_module("pydantic_ai.providers.openai_compatible").OpenAICompatibleProvider
    return infer_model(f"openai-chat:{model}", provider_factory=lambda _: service(_SERVICE, base_url=url, api_key=key))


def _provider(name: str, wanted: str, alias: ModelAlias, key: str | None) -> Provider[Any]:
    options = {option: value for option, value in (("api_key", key), ("base_url", alias.base_url)) if value}
    if wanted in _OPENAI and key is None:
        options["api_key"] = _openai_key(name, alias)
    kind = _kind(wanted)
    if strange := [option for option in options if option not in inspect.signature(kind).parameters]:
        raise wrong("unknown_model", f"{shown(name)}: {wanted} takes no {', '.join(strange)}")
    try:
        return kind(**options)
    except UserError as error:
        variables = re.findall(r"\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b", str(error))
        raise _without(name, " or ".join(dict.fromkeys(variables)) or f"what {wanted} needs") from None


def _kind(wanted: str) -> Callable[..., Provider[Any]]:
    if wanted.startswith(_GATEWAY):
        return partial(gateway_provider, wanted.removeprefix(_GATEWAY))
    try:
        return infer_provider_class(wanted)
    except ValueError:
        raise wrong("unknown_model", f"no provider {wanted!r}; known are openai, anthropic, google, …") from None


def _openai_key(name: str, alias: ModelAlias) -> str:
    """As their library reads it, but that an empty variable is as good as none; a server of one's own needs no key."""
    if key := os.environ.get("OPENAI_API_KEY"):
        return key
    if alias.base_url or os.environ.get("OPENAI_BASE_URL"):
        return _NO_KEY
    raise _without(name, "OPENAI_API_KEY")


def _missing(text: str) -> str:
    """Which package to install, from what pydantic-ai says of its own extra."""
    extra = re.search(r"pydantic-ai-slim\[([\w-]+)\]", text)
    if extra is None:
        return f"its package is not installed: {text}"
    package = "holdfast" if extra[1] in _EXTRAS else "pydantic-ai-slim"
    return f"its package is not installed where the worker runs: pip install '{package}[{extra[1]}]'"
