"""Access to providers: builds a pydantic-ai model with its library, URL and key. Used by `providers.Models`."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable
from functools import partial
from typing import Any

from pydantic_ai.exceptions import UserError
from pydantic_ai.models import infer_model
from pydantic_ai.providers import Provider, infer_provider_class
from pydantic_ai.providers.gateway import gateway_provider
from temporalio.exceptions import ApplicationError

from holdfast.activities.aliases import ModelAlias
from holdfast.activities.imports import import_alone
from holdfast.activities.providers.failures import display_name, url_in
from holdfast.activities.providers.schemas import ProviderModel
from holdfast.activities.registry import wrong

_COMPATIBLE = "openai-compatible:"
_SERVICE = "compatible"
"""Name of such a service in replies. Not that of a known provider, whose prices it would get."""
_GATEWAY = "gateway/"
_OPENAI = ("openai", "openai-chat", "openai-responses")
_NO_KEY = "none"
"""What OpenAI's library gets where there is no key, as it takes no client without one. It is never sent."""
_EXTRAS = ("openai", "anthropic", "google")
"""Extras that Holdfast has itself; for other providers those of pydantic-ai are named."""


def build_model(name: str, alias: ModelAlias, ours: bool) -> ProviderModel:
    """Return the model, with an HTTP client of its own. Raises `unknown_model` or `model_auth`.

    Args:
        name: Name of the model in the blueprint, for messages.
        ours: The deployment named the model, and not a blueprint.
    """
    key = _key(name, alias)
    try:
        if alias.model.startswith(_COMPATIBLE):
            return _compatible(name, alias, key, ours)
        return infer_model(alias.model, provider_factory=lambda provider: _provider(name, provider, alias, key))
    except ImportError as error:
        raise wrong("unknown_model", f"{display_name(name)}: {_find_package(str(error))}") from None
    except UserError as error:
        raise wrong("unknown_model", f"{display_name(name)}: {error}") from None


def _key(name: str, alias: ModelAlias) -> str | None:
    if alias.api_key_env is None:
        return None
    if key := os.environ.get(alias.api_key_env):
        return key
    raise _missing_key(name, alias.api_key_env)


def _missing_key(name: str, variables: str) -> ApplicationError:
    return wrong("model_auth", f"{display_name(name)}: {variables} is not set where the worker runs")


def _compatible(name: str, alias: ModelAlias, key: str | None, ours: bool) -> ProviderModel:
    """Return a model of a service that speaks OpenAI's chat completions.

    The deployment's OpenAI key goes only to URLs that the deployment itself has configured: a blueprint may name any
    URL, and a plan may be written by a model.
    """
    url = url_in(alias.model) or alias.base_url
    model = display_name(alias.model).removeprefix(_COMPATIBLE)
    if not model or not url:
        raise wrong(
            "unknown_model", f"{display_name(name)}: write {_COMPATIBLE}NAME@URL, such as llama3@http://host/v1"
        )
    key = key or (os.environ.get("OPENAI_API_KEY") if ours else None)
    # Imported only here: it needs a package that the worker may lack.
    service = import_alone("pydantic_ai.providers.openai_compatible").OpenAICompatibleProvider
    # Not "openai:", which means the Responses API by now: compatible servers have the chat completions only.
    provider = service(_SERVICE, base_url=url, api_key=key or _NO_KEY)
    return infer_model(f"openai-chat:{model}", provider_factory=lambda _: provider)


def list_headers(model: ProviderModel) -> dict[str, object]:
    """Return headers of each request: without a key OpenAI's library would send a placeholder for one."""
    if getattr(getattr(model, "client", None), "api_key", None) != _NO_KEY:
        return {}
    return {"Authorization": import_alone("openai").Omit()}


def _provider(name: str, provider: str, alias: ModelAlias, key: str | None) -> Provider[Any]:
    options = {option: value for option, value in (("api_key", key), ("base_url", alias.base_url)) if value}
    if provider in _OPENAI and key is None:
        options["api_key"] = _openai_key(name, alias)
    factory = _provider_factory(provider)
    if unsupported := [option for option in options if option not in inspect.signature(factory).parameters]:
        raise wrong("unknown_model", f"{display_name(name)}: {provider} takes no {', '.join(unsupported)}")
    try:
        return factory(**options)
    except UserError as error:
        # The message names the variables that hold the key, which differ between providers.
        variables = re.findall(r"\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b", str(error))
        raise _missing_key(name, " or ".join(dict.fromkeys(variables)) or f"what {provider} needs") from None


def _provider_factory(provider: str) -> Callable[..., Provider[Any]]:
    if provider.startswith(_GATEWAY):
        return partial(gateway_provider, provider.removeprefix(_GATEWAY))
    try:
        return infer_provider_class(provider)
    except ValueError:
        raise wrong("unknown_model", f"no provider {provider!r}; known are openai, anthropic, google, …") from None


def _openai_key(name: str, alias: ModelAlias) -> str:
    """Return the key as OpenAI's library finds it, but take an empty variable for none; a local server needs no key."""
    if key := os.environ.get("OPENAI_API_KEY"):
        return key
    if alias.base_url or os.environ.get("OPENAI_BASE_URL"):
        return _NO_KEY
    raise _missing_key(name, "OPENAI_API_KEY")


def _find_package(text: str) -> str:
    """Return the package to install, from pydantic-ai's message about its own extra."""
    extra = re.search(r"pydantic-ai-slim\[([\w-]+)\]", text)
    if extra is None:
        return f"its package is not installed: {text}"
    package = "holdfast" if extra[1] in _EXTRAS else "pydantic-ai-slim"
    return f"its package is not installed where the worker runs: pip install '{package}[{extra[1]}]'"
