"""What a model thinks before it replies: as each API gives it, signed, and demands it back; used by the four APIs."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

_LEAST_BUDGET = 1024
_NO_SIGNATURE = base64.b64encode(b"skip_thought_signature_validator").decode()
"""What Google takes in place of a signature."""


def signature(thought: str) -> str:
    """The signature of a thought: what only the provider can make."""
    return base64.b64encode(f"signed {thought}".encode()).decode()


def anthropic_thought(thought: str) -> Any:
    return {"type": "thinking", "thinking": thought, "signature": signature(thought)}


def anthropic_thought_problems(body: Any) -> Iterator[str]:
    """Why Anthropic refuses how thinking is asked for, and the thoughts that come back."""
    thinking = body.get("thinking", {"type": "disabled"})
    if thinking["type"] != "disabled" and body.get("tool_choice", {}).get("type") in ("any", "tool"):
        yield "Thinking may not be enabled when tool_choice forces tool use."
    if thinking["type"] != "disabled" and body.get("temperature", 1) != 1:
        yield "`temperature` may only be set to 1 when thinking is enabled."
    if thinking["type"] == "enabled" and not _LEAST_BUDGET <= thinking["budget_tokens"] < body["max_tokens"]:
        yield "`max_tokens` must be greater than `thinking.budget_tokens`."
    blocks = [message["content"] for message in body.get("messages", []) if message["role"] == "assistant"]
    for content in blocks:
        for block in content if isinstance(content, list) else ():
            if block["type"] == "thinking" and block.get("signature") != signature(block["thinking"]):
                yield "Invalid `signature` in `thinking` block"
    if thinking["type"] == "enabled" and blocks and _kind(blocks[-1]) != "thinking":
        yield f"messages: Expected `thinking` or `redacted_thinking`, but found `{_kind(blocks[-1])}`."


def _kind(content: Any) -> str:
    return str(content[0]["type"]) if isinstance(content, list) else "text"


def responses_thought(thought: str, output: list[Any]) -> list[Any]:
    """The output of the responses API behind a reasoning item; the ids of its calls say that they belong to one."""
    summary = [{"type": "summary_text", "text": thought}]
    item = {"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": signature(thought)}
    return [item, *({**one, "id": f"{one['id'].partition('_')[0]}_thought_{one['id']}"} for one in output)]


def responses_thought_problems(items: list[Any]) -> Iterator[str]:
    """Why OpenAI refuses the reasoning items that come back, or do not."""
    before = ""
    for item in items:
        kind = item.get("type", "message")
        if kind == "reasoning":
            thought = "".join(part["text"] for part in item["summary"])
            if item.get("encrypted_content") not in (None, signature(thought)):
                yield f"The encrypted content for item {item['id']} could not be verified."
        elif "_thought_" in (item.get("id") or "") and before != "reasoning":
            yield f"Item '{item['id']}' of type '{kind}' was provided without its required 'reasoning' item."
        # The calls of one reply share its reasoning item.
        before = before if kind == "function_call" and before == "reasoning" else kind


def google_thought_problems(contents: list[Any]) -> Iterator[str]:
    """Why Google refuses a thought's signature that comes back."""
    thought = ""
    for part in (part for content in contents for part in content.get("parts") or []):
        if part.get("thought"):
            thought = part["text"]
        elif part.get("thoughtSignature") not in (None, _NO_SIGNATURE, signature(thought)):
            yield "Corrupted thought signature."
