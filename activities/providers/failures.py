"""What went wrong with a request: typed so that Temporal knows what to try again, and free of keys and addresses."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from pydantic_ai.exceptions import (
    AgentRunError,
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelNotFoundError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelRequestRejectedError,
    ModelRequestTimeout,
    ModelServerError,
    ModelTimeoutError,
    ModelUnavailableError,
    UserError,
)
from pydantic_ai.messages import ModelResponse
from temporalio.exceptions import ApplicationError

from activities.models import ModelAlias
from activities.registry import wrong

TRIED_AGAIN = ("model_rate_limited", "model_timeout", "model_unavailable", "model_error")
LONGEST_WAIT = timedelta(minutes=10)

_SHORT = 300
_ADDRESS = re.compile(r"@(?=https?://)")
_OVERFLOW = ("context size", "context window", "context length", "context_length", "prompt is too long")
"""How services word an overflow that pydantic-ai takes for any other rejection."""
_FILTERED = ("content_filter", "content_policy_violation")
_SECRET_NAMES = ("KEY", "TOKEN", "SECRET", "PASSWORD")
_SHORTEST_SECRET = 6
_KEY_LIKE = re.compile(r"\b(?:sk|pk|gsk|xai|key)-[\w*.-]{6,}|\bAIza[\w-]{20,}|(?i:\bbearer\s+)\S+")


def failure(error: Exception, model: str, alias: ModelAlias) -> ApplicationError:
    """The failure for Temporal: with the provider's reason in short, and how long it wants us to wait."""
    kind = _kind(error)
    delay = None
    if isinstance(error, ModelAPIError) and error.retry_after is not None:
        delay = min(timedelta(seconds=error.retry_after), LONGEST_WAIT)
    text = f"{shown(model)}: {_without_secrets(_reason(error), alias)}"
    if kind not in TRIED_AGAIN:
        return wrong(kind, text)
    return ApplicationError(text, type=kind, next_retry_delay=delay)


def too_late(model: str, seconds: float) -> ApplicationError:
    return ApplicationError(f"{shown(model)}: no reply within {seconds:g} s", type="model_timeout")


def withheld(response: ModelResponse, model: str) -> ApplicationError:
    """A reply that is none: a filter took it, or it is only promised."""
    if response.state == "suspended":
        return wrong("model_rejected", f"{shown(model)}: the reply is made in the background, which is not supported")
    refusal = (response.provider_details or {}).get("refusal")
    said = f": {_brief(refusal)}" if refusal else ""
    return wrong("content_filter", f"{shown(model)}: the reply was withheld{said}")


def shown(model: str) -> str:
    """A model's name as people may see it, without its address.

    >>> shown("openai-compatible:@cf/llama@https://inside/v1")
    'openai-compatible:@cf/llama'
    """
    return _ADDRESS.split(model, maxsplit=1)[0]


def address_in(model: str) -> str | None:
    parts = _ADDRESS.split(model, maxsplit=1)
    return parts[1] if len(parts) == 2 else None


def _kind(error: Exception) -> str:
    match error:
        case ModelQuotaExceededError():
            return "model_quota"
        case ModelContextWindowExceededError():
            return "context_overflow"
        case ModelAuthenticationError():
            return "model_auth"
        case ModelNotFoundError():
            return "model_not_found"
        case ModelRateLimitError():
            return "model_rate_limited"
        case ModelRequestTimeout() | ModelTimeoutError() | ModelHTTPError(status_code=408):
            return "model_timeout"
        case ModelConnectionError() | ModelUnavailableError() | ModelServerError():
            return "model_unavailable"
        case ModelRequestRejectedError() | ModelHTTPError():
            return _rejection(error)
        case UserError():
            return "model_rejected"
    return "model_error"


def _rejection(error: ModelAPIError) -> str:
    if error.provider_error_code in _FILTERED:
        return "content_filter"
    said = f"{error.provider_error_code} {error.provider_error_type} {_said(error.body)}".lower()
    return "context_overflow" if any(phrase in said for phrase in _OVERFLOW) else "model_rejected"


def _reason(error: Exception) -> str:
    match error:
        case ModelHTTPError():
            said = _said(error.body)
            return f"HTTP {error.status_code}" + (f": {said}" if said else "")
        case ModelConnectionError():
            return f"cannot be reached: {error.message}"
        case AgentRunError() | UserError():
            return error.message
    return f"what came back makes no sense: {type(error).__name__}: {error}"


def _said(body: object) -> str:
    """What a provider's error says, whichever of the usual shapes it has; a page of HTML says nothing."""
    match body:
        case {"message": str(text)} | {"error": {"message": str(text)}} | {"error": str(text)} | {"detail": str(text)}:
            return text
        case str(text) if not text.lstrip().startswith("<"):
            return text
    return ""


def _without_secrets(text: str, alias: ModelAlias) -> str:
    """The text in short. Providers repeat keys in their errors, and addresses."""
    for secret in sorted(_secrets(alias), key=len, reverse=True):
        text = text.replace(secret, "…")
    return _brief(_KEY_LIKE.sub("…", text))


def _secrets(alias: ModelAlias) -> Iterator[str]:
    for address in (alias.base_url, address_in(alias.model)):
        if address:
            yield address
            yield urlsplit(address).netloc
    for name, value in os.environ.items():
        secret = name == alias.api_key_env or name.upper().endswith(_SECRET_NAMES)
        if secret and len(value) >= _SHORTEST_SECRET:
            yield value


def _brief(text: Any) -> str:
    line = " ".join(str(text).split())
    return line if len(line) <= _SHORT else f"{line[:_SHORT]}…"
