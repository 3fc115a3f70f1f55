"""Failures of model requests: typed, so that Temporal retries the right ones, and without keys and URLs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import timedelta
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
from temporalio.exceptions import ApplicationError

from holdfast.activities.aliases import ModelAlias
from holdfast.activities.registry import wrong

# For the others (key, name, quota, filter, a conversation that is too long) the next attempt would end the same way.
TRIED_AGAIN = ("model_rate_limited", "model_timeout", "model_unavailable", "model_error")
LONGEST_WAIT = timedelta(minutes=10)

_SHORT = 300
_URL = re.compile(r"@(?=https?://)")
_OVERFLOW = ("context size", "context window", "context length", "context_length", "prompt is too long")
"""Phrases of services for an overflow, which pydantic-ai reports as an ordinary rejection."""
_FILTERED = ("content_filter", "content_policy_violation")
_SECRET_NAMES = ("KEY", "TOKEN", "SECRET", "PASSWORD")
_SHORTEST_SECRET = 6
_KEY_LIKE = re.compile(r"\b(?:sk|pk|gsk|xai|key)-[\w*.-]{6,}|\bAIza[\w-]{20,}|(?i:\bbearer\s+)\S+")


def failure(error: Exception, model: str, alias: ModelAlias, *, own_code: bool = False) -> ApplicationError:
    """Return the failure for Temporal, with the provider's reason in short and the delay that it asks for.

    Args:
        model: Name of the model in the blueprint, for the message.
        own_code: The error may be one of the team's own functions: `agent_failed`.
    """
    if own_code:
        text = f"{display_name(model)}: {type(error).__name__}: {_without_secrets(str(error), alias)}"
        return ApplicationError(text, type="agent_failed")
    kind = _kind(error)
    delay = None
    if isinstance(error, ModelAPIError) and error.retry_after is not None:
        delay = min(timedelta(seconds=error.retry_after), LONGEST_WAIT)
    text = f"{display_name(model)}: {_without_secrets(_reason(error), alias)}"
    if kind not in TRIED_AGAIN:
        return wrong(kind, text)
    return ApplicationError(text, type=kind, next_retry_delay=delay)


def timed_out(model: str, seconds: float) -> ApplicationError:
    """Return the failure for a request without a reply in time."""
    return ApplicationError(f"{display_name(model)}: no reply within {seconds:g} s", type="model_timeout")


def broken_off(model: str) -> ApplicationError:
    """Return the failure for a reply whose connection broke; the part that came is not used."""
    return ApplicationError(
        f"{display_name(model)}: the connection broke in the middle of the reply", type="model_unavailable"
    )


def in_background(model: str) -> ApplicationError:
    """Return the failure for a reply that the provider only promises."""
    return wrong(
        "model_rejected", f"{display_name(model)}: the reply is made in the background, which is not supported"
    )


def display_name(model: str) -> str:
    """Return a model's name without its URL, which people must not see.

    >>> display_name("openai-compatible:@cf/llama@https://inside/v1")
    'openai-compatible:@cf/llama'
    """
    return _URL.split(model, maxsplit=1)[0]


def url_in(model: str) -> str | None:
    """Return the URL in a name such as `openai-compatible:NAME@URL`."""
    parts = _URL.split(model, maxsplit=1)
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
    text = f"{error.provider_error_code} {error.provider_error_type} {_message_in(error.body)}".lower()
    return "context_overflow" if any(phrase in text for phrase in _OVERFLOW) else "model_rejected"


def _reason(error: Exception) -> str:
    match error:
        case ModelHTTPError():
            message = _message_in(error.body)
            return f"HTTP {error.status_code}" + (f": {message}" if message else "")
        case ModelConnectionError():
            return f"cannot be reached: {error.message}"
        case AgentRunError() | UserError():
            return error.message
    return f"the reply cannot be parsed: {type(error).__name__}: {error}"


def _message_in(body: object) -> str:
    """Return the message in a provider's error, which has one of several shapes; empty for a page of HTML."""
    match body:
        case {"message": str(text)} | {"error": {"message": str(text)}} | {"error": str(text)} | {"detail": str(text)}:
            return text
        case str(text) if not text.lstrip().startswith("<"):
            return text
    return ""


def _without_secrets(text: str, alias: ModelAlias) -> str:
    """Return the text shortened and without keys and URLs, which providers repeat in their errors."""
    for secret in sorted(_secrets(alias), key=len, reverse=True):
        text = text.replace(secret, "…")
    return _brief(_KEY_LIKE.sub("…", text))


def _secrets(alias: ModelAlias) -> Iterator[str]:
    for url in (alias.base_url, url_in(alias.model)):
        if url:
            yield url
            yield urlsplit(url).netloc
    for name, value in os.environ.items():
        secret = name == alias.api_key_env or name.upper().endswith(_SECRET_NAMES)
        if secret and len(value) >= _SHORTEST_SECRET:
            yield value


def _brief(text: object) -> str:
    line = " ".join(str(text).split())
    return line if len(line) <= _SHORT else f"{line[:_SHORT]}…"
