"""The runs under drill: one blueprint for each kind of work, and the model that its agents ask."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import yaml

from tests.activities.provider import Provider, Reply, Request

ITEMS = 4
ROUNDS = 4
LOCAL_CALLS = 12
"""Of a branch of a run that makes local calls, one after another."""
KINDS = ("agent", "map", "plan", "graph", "loop", "local", "long")


class SlowProvider(Provider):
    """A provider of models that takes its time."""

    async def _answer(self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(random.uniform(0.1, 2))
        await super()._answer(request, reader, writer)


def reply(request: Request) -> Reply:
    """Return what the model says: its name is `<what it does>~<folder>~<key>`."""
    _, folder, key = request.body["model"].split("~")
    if "quote" in {tool["function"]["name"] for tool in request.body.get("tools", [])}:
        has_quoted = any(message["role"] == "tool" for message in request.body["messages"])
        return Reply(text=f"done {key}") if has_quoted else Reply(calls=(("quote", {"key": key}, "c1"),))
    made = sum(message["role"] == "tool" for message in request.body["messages"])
    if made == 0:
        return Reply(calls=(("charge", {"folder": folder, "key": key}, "c1"),))
    if made == 1 and any(tool["function"]["name"] == "search" for tool in request.body.get("tools", [])):
        return Reply(calls=(("search", {"key": key}, "c2"),))
    return Reply(text=f"done {key}")


def blueprint(kind: str, url: str, folder: str, key: str) -> str:
    """Return the blueprint of a run of a kind of work; its effects begin with the key."""
    model = f"openai-compatible:{kind}~{folder}~{key}@{url}"
    agents = {"clerk": {"model": [model, "echo"], "tools": ["charge", "search"], "retry": {"attempts": 1}}}
    agents["quoter"] = {"model": [model], "tools": ["quote"]}
    document = {"name": kind, "agents": agents, **_steps(kind, folder, key)}
    return yaml.safe_dump(document, sort_keys=False)


def effects_of(kind: str, key: str) -> list[str]:
    """Return the effects that a run makes."""
    match kind:
        case "map":
            return [f"{key}.{n}" for n in range(ITEMS)]
        case "loop" | "long":
            return [f"{key}.{n}" for n in range(1, ROUNDS + 1)]
        case "graph" | "local":
            return []
    return [key]


def _steps(kind: str, folder: str, key: str) -> dict[str, Any]:
    def charge(suffix: str) -> dict[str, Any]:
        return {"name": "charge", "uses": "charge", "input": {"folder": folder, "key": f"{key}.{suffix}"}}

    search = {"name": "search", "uses": "search", "input": {"key": key}, "retry": {"attempts": 1}}
    match kind:
        case "agent":
            return {"steps": [{"name": "work", "agent": "clerk", "input": "Go"}]}
        case "map":
            body = [search, charge("{{ index }}")]
            return {
                "steps": [{"kind": "map", "name": "all", "map": {"iterable_input": list(range(ITEMS)), "body": body}}]
            }
        case "plan":
            unit = {"id": "1", "instruction": "Charge the card", "tools": ["charge"]}
            return {
                "steps": [{"kind": "plan", "name": "work", "plan": {"goal": "Sell", "agent": "clerk", "steps": [unit]}}]
            }
        case "graph":
            step = {"name": "draft", "uses": "drills.tools:drafting", "input": {"key": key, "log": []}}
            return {"steps": [step], "output": "{{ steps.draft.output.log | join(' ') }}"}
        case "long":
            return _write_long(folder, key)
        case "local":
            return {"steps": [_call_locally(folder, key)]}
    ask = {"kind": "hitl", "name": "ask", "message": "Round {{ iteration }}?", "sink_to": "last"}
    note = {"name": "note", "input": "{{ context.said + [context.last] }}", "sink_to": "said"}
    loop = {"max_loops": ROUNDS, "checkpoint_every": 2, "body": [charge("{{ iteration }}"), ask, note]}
    return {
        "context": {"said": [], "last": ""},
        "steps": [{"kind": "loop", "name": "rounds", "loop": loop}],
        "output": "{{ context.said }}",
    }


def _write_long(folder: str, key: str) -> dict[str, Any]:
    """Return steps whose values go to the payload store, in rounds with deadlines: the clocks jump farther."""
    fetch = {"name": "fetch", "uses": "fetch", "input": {"key": f"{key}.{{{{ iteration }}}}"}}
    ask = {"kind": "hitl", "name": "ask", "message": "Round {{ iteration }}?", "timeout": "1h", "on_timeout": "fail"}
    rest = {"kind": "timer", "name": "rest", "for": "1s"}
    bill = {"name": "bill", "uses": "bill", "input": {"folder": folder, "key": f"{key}.{{{{ iteration }}}}"}}
    keep = {"name": "keep", "input": "{{ steps.fetch.output }}", "sink_to": "text"}
    body = [fetch, ask, rest, bill, keep]
    loop = {"max_loops": ROUNDS, "checkpoint_every": 2, "deadline": "1h", "on_deadline": "fail", "body": body}
    return {
        "context": {"text": ""},
        "steps": [{"kind": "loop", "name": "rounds", "loop": loop}],
        "output": "{{ context.text | length }}",
    }


def _call_locally(folder: str, key: str) -> dict[str, Any]:
    """Return branches with local calls in a loop that continues as new, in a map, a cache, an agent, and a line."""

    def quote(name: str, suffix: str) -> dict[str, Any]:
        return {"name": name, "uses": "quote", "input": {"key": f"{key}.{suffix}"}}

    def stumble(name: str, suffix: str) -> dict[str, Any]:
        return {"name": name, "uses": "stumble", "input": {"folder": folder, "key": f"{key}.{suffix}"}}

    ask = {"kind": "hitl", "name": "ask", "message": "Round {{ iteration }}?"}
    body = [quote("first", "f{{ iteration }}"), ask, stumble("then", "r{{ iteration }}")]
    items = {
        "iterable_input": list(range(ITEMS)),
        "body": [quote("one", "o{{ index }}"), stumble("two", "i{{ index }}")],
    }
    branches = {
        "rounds": [
            {"kind": "loop", "name": "rounds", "loop": {"max_loops": ROUNDS, "checkpoint_every": 2, "body": body}}
        ],
        "items": [{"kind": "map", "name": "items", "map": items}],
        "line": [stumble(f"l{n}", f"l{n}") for n in range(LOCAL_CALLS)],
        "cached": [{"kind": "cache", "name": "cache", "ttl": "1d", "wrapped_step": quote("kept", "c")}],
        "agent": [{"name": "work", "agent": "quoter", "input": "Go"}],
    }
    return {"kind": "parallel", "name": "all", "branches": branches}


def expect_local(key: str) -> dict[str, Any]:
    """Return the output of a run that makes local calls, as on a quiet day."""
    return {
        "rounds": f"quoted {key}.r{ROUNDS}",
        "items": [f"quoted {key}.i{n}" for n in range(ITEMS)],
        "line": f"quoted {key}.l{LOCAL_CALLS - 1}",
        "cached": f"quoted {key}.c",
        "agent": f"done {key}",
    }
