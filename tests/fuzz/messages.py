"""Messages for the fuzz of a run's door: raw payloads for every handler that a workflow of a run has."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from hypothesis import strategies as st

from holdfast.protocol.assignment import CLAIM, DELEGATE, REASSIGN, RELEASE
from holdfast.protocol.attachments import ATTACHMENT
from holdfast.protocol.elicitations import ELICIT, ELICITED
from holdfast.protocol.incoming import CLAIM_EVENT, HINT, SEND_EVENT
from holdfast.protocol.names import (
    ANSWER,
    CONTEXT,
    EVENTS,
    PAUSE,
    PLAN,
    PLAN_OUTPUT,
    RESUME,
    SHOWN,
    SLOTS_FREED,
    SLOTS_GRANTED,
    TELL,
    UNDOS,
    VIEW,
)
from holdfast.protocol.past import PAST

CONTENTS = (
    '"warm"',
    '["warm", "cool"]',
    '{"granted": true}',
    '{"granted": false, "reason": %s}',
    '{"verdict": "unchanged"}',
    '{"verdict": "edited", "payload": {"x": %s}}',
    '{"verdict": "edited", "payload": %s}',
    '{"x": %s}',
    '{"A": "secret:env/A"}',
    '"secret:env/A"',
    "[%s]",
    "%s",
    "null",
    "1",
)
HOSTILE = (
    "1e999",
    "-1e999",
    "NaN",
    "-Infinity",
    "9223372036854775808",
    "-9223372036854775809",
    "1" * 5000,
    '"\\ud800"',
    '"\\u0000"',
    '{"\\udfff": 1}',
    '{"a": 1, "a": 2}',
    '{"%s": 1}' % ("k" * 10_000),
    "[" * 65 + "]" * 65,
    "[" * 5000 + "]" * 5000,
    "[" + "0," * 12_000 + "0]",
    "",
    "{",
    "'x'",
)


def _braced(members: Iterable[str]) -> str:
    return "{" + ",".join(members) + "}"


texts = st.text(st.characters(codec=None), max_size=8).map(json.dumps)
plain = st.one_of(texts, st.sampled_from(["null", "true", "1", "[]", "{}"]), st.integers().map(json.dumps))
scalars = st.one_of(st.sampled_from(HOSTILE), plain, st.floats().map(json.dumps))
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda items: f"[{','.join(items)}]"),
        st.lists(st.tuples(texts, inner), max_size=4).map(
            lambda items: _braced(f"{key}:{value}" for key, value in items)
        ),
    ),
    max_leaves=8,
)
contents = st.builds(lambda form, value: form.replace("%s", value), st.sampled_from(CONTENTS), values)
fields = st.fixed_dictionaries(
    {},
    optional={
        "action": st.sampled_from(['"accept"', '"decline"', '"cancel"', '"x"']) | values,
        "content": contents,
        "digest": values,
        "extra": values,
    },
)
envelopes = st.fixed_dictionaries(
    {},
    optional={
        "by": st.sampled_from(['"user:ana"', '"user:bob"']) | values,
        "key": texts | values,
        "comment": texts | values,
        "token": values,
        "answers": values,
    },
)


@dataclass(frozen=True)
class Sent:
    """A message to the owner of a question of some kind; QUESTION stands for the question's id, known only then."""

    kind: str
    name: str
    by: Literal["update", "signal", "query"]
    payloads: list[tuple[bytes, str]]


def _object(written: dict[str, str]) -> str:
    return _braced(f'"{key}":{value}' for key, value in written.items())


def _message(answers: list[dict[str, str]], envelope: dict[str, str], bare: bool) -> str:
    named = [{"question": '"QUESTION"', **answer} for answer in answers]
    if bare and named:
        return _object({**named[0], **envelope})
    return _object({"answers": f"[{','.join(map(_object, named))}]", **envelope})


ACTIONS = ('"accept"',) * 4 + ('"decline"', '"cancel"')
proper = st.fixed_dictionaries(
    {
        "action": st.sampled_from(ACTIONS),
        "content": st.builds(lambda form, value: form.replace("%s", value), st.sampled_from(CONTENTS), plain),
    }
)
people = st.fixed_dictionaries({"by": st.sampled_from(['"user:ana"', '"user:bob"', '"user:eve"'])})
answers = st.builds(_message, st.lists(proper, min_size=1, max_size=1), people, st.booleans())
messages = st.builds(_message, st.lists(proper | fields, min_size=1, max_size=2), people | envelopes, st.booleans())


# Commands other than answers

NAMES = ('"user:ana"', '"user:bob"', '"user:eve"', '"group:editors"', '"ana"', '"user:%s"' % ("é" * 195))
names = st.sampled_from(NAMES)
many_names = st.integers(1, 120).map(lambda most: json.dumps([f"user:{'é' * 180}{n}" for n in range(most)]))
name_lists = st.lists(names, min_size=1, max_size=4).map(lambda members: f"[{','.join(members)}]")
keys = st.sampled_from(['"k1"', '"k2"', '""', "null"])
seconds = st.sampled_from(["1", "0.001", "604800", "0", "-1", "1e308", "1e-320", "604801", "true", '"1"'])
commands: dict[str, st.SearchStrategy[str]] = {
    CLAIM: st.fixed_dictionaries(
        {"question": st.just('"QUESTION"')},
        optional={"by": names | values, "seconds": seconds | values, "key": keys | values, "comment": texts | values},
    ).map(_object),
    RELEASE: st.fixed_dictionaries(
        {"question": st.just('"QUESTION"')}, optional={"by": names | values, "key": keys | values, "groups": name_lists}
    ).map(_object),
    DELEGATE: st.fixed_dictionaries(
        {"question": st.just('"QUESTION"'), "to": names | values},
        optional={"by": names | values, "key": keys | values, "groups": name_lists | values, "token": values},
    ).map(_object),
    REASSIGN: st.fixed_dictionaries(
        {"question": st.just('"QUESTION"'), "to": name_lists | many_names | values},
        optional={"by": names | values, "key": keys | values, "comment": texts | values},
    ).map(_object),
    TELL: st.fixed_dictionaries(
        {"text": texts | values}, optional={"by": names | values, "key": keys | values, "token": values}
    ).map(_object)
    | texts
    | values,
    PAUSE: st.fixed_dictionaries({}, optional={"by": names | values, "key": keys | values, "token": values}).map(
        _object
    ),
}
"""Nearly what the handlers take."""
commands[RESUME] = commands[PAUSE]

step_ids = st.sampled_from(['"1"', '"2"', '"3"', '"loop_1"', "1", '""']) | values
instructions = st.sampled_from(['"ASK_INFO: Go?"', '"Write it"', '"ASK_INFO: {{ x }}"']) | values
steps = st.fixed_dictionaries(
    {"id": step_ids, "instruction": instructions},
    optional={
        "dependencies": st.sampled_from(['["1"]', '["2"]', '["3"]', "[]"]) | values,
        "tools": st.sampled_from(['["look_up"]', '["nonsense"]']) | values,
        "condition": st.sampled_from(['"1 == 1"', '"steps.1"', '"{{"']) | values,
    },
).map(_object)
ASKED_STEP = '{"id": "1", "instruction": "ASK_INFO: Go?"}'
step_lists = st.lists(steps, max_size=3).map(lambda more: f"[{','.join([ASKED_STEP, *more])}]")


def _plan_of(more: list[str]) -> str:
    return f'{{"goal": "Tea", "confirm": true, "steps": [{",".join([ASKED_STEP, *more])}]}}'


loops = st.sampled_from(['{"all": {"over": ["a"], "steps": ["2"]}}', '{"2": {"over": "1", "steps": ["2", "3"]}}'])
plans = st.fixed_dictionaries(
    {"goal": st.just('"Tea"'), "steps": step_lists | values}, optional={"loop_blocks": loops | values, "extra": values}
).map(_object)
commands[PLAN] = st.fixed_dictionaries(
    {"plan": plans | values},
    optional={"by": names | values, "reason": texts | values, "revision": values, "key": keys | values},
).map(_object)

# Events of other systems, and what the workflows of a run tell each other of them

event_names = st.sampled_from(['"paid"', '"payment.received"', '""', '"%s"' % ("x" * 101)])
event_ids = st.sampled_from(['"evt-1"', '"evt-2"', '""', '"\\ud800"', '"%s"' % ("é" * 150)])
event_keys = st.sampled_from(['"k"', '"\\u0000"', '"%s"' % ("é" * 500)])
moments = st.sampled_from(
    ['"2099-01-01T00:00:00Z"', '"2099-01-01T00:00:00"', '"9999-12-31T23:59:59+00:00"', "1e308", "0"]
)
owners = st.sampled_from(['"QUESTION"', '"nobody/loop:x"', '"%s"' % ("x" * 1100)])
_event = {"name": event_names | values, "key": event_keys | values, "id": event_ids | values}
commands[SEND_EVENT] = st.fixed_dictionaries(_event, optional={"payload": values, "by": names | values}).map(_object)
commands[HINT] = st.fixed_dictionaries({**_event, "until": moments | values}).map(_object)
commands[CLAIM_EVENT] = st.fixed_dictionaries({"id": event_ids | values, "owner": owners | values}).map(_object)

slots = st.sampled_from(["1", "0", "-1", "9223372036854775808"]) | values
commands[SLOTS_FREED] = st.fixed_dictionaries(
    {"page": texts | values, "slots": slots, "usage": st.just("{}") | values}
).map(_object)
commands[SLOTS_GRANTED] = st.fixed_dictionaries({"slots": slots}).map(_object)

commands[ELICIT] = st.fixed_dictionaries(
    {"call": texts, "path": texts, "asked": st.just('{"kind": "input", "message": "Who?"}') | values, "key": keys},
    optional={"seconds": seconds},
).map(_object)

persons = st.sampled_from(NAMES[:4])
proper_steps = st.sampled_from(
    ['{"id": "2", "instruction": "Write", "dependencies": ["1"]}', '{"id": "3", "instruction": "ASK_INFO: A?"}']
)
PROPER: dict[str, st.SearchStrategy[str]] = {
    ANSWER: answers,
    CLAIM: st.fixed_dictionaries(
        {"question": st.just('"QUESTION"'), "by": persons},
        optional={"seconds": seconds, "key": keys, "comment": texts},
    ).map(_object),
    RELEASE: st.fixed_dictionaries({"question": st.just('"QUESTION"'), "by": persons}).map(_object),
    DELEGATE: st.fixed_dictionaries(
        {"question": st.just('"QUESTION"'), "by": persons, "to": persons}, optional={"key": keys, "comment": texts}
    ).map(_object),
    REASSIGN: st.fixed_dictionaries(
        {"question": st.just('"QUESTION"'), "to": name_lists | many_names}, optional={"by": persons}
    ).map(_object),
    TELL: st.fixed_dictionaries({"text": texts}, optional={"by": persons, "key": keys}).map(_object) | texts,
    PAUSE: st.fixed_dictionaries({}, optional={"by": persons, "key": keys}).map(_object),
    RESUME: st.fixed_dictionaries({}, optional={"by": persons, "key": keys}).map(_object),
    PLAN: st.fixed_dictionaries(
        {"plan": st.lists(proper_steps, max_size=2, unique=True).map(_plan_of)}, optional={"by": persons, "key": keys}
    ).map(_object),
}
"""Well-formed, so that many of them are taken."""
_sent = {"name": st.just('"paid"'), "key": st.just('"k"'), "id": st.sampled_from(['"evt-1"', '"evt-2"'])}
PROPER[SEND_EVENT] = st.fixed_dictionaries(_sent, optional={"payload": plain}).map(_object)
PROPER[HINT] = st.fixed_dictionaries({**_sent, "until": st.just('"2099-01-01T00:00:00Z"')}).map(_object)
PROPER[CLAIM_EVENT] = commands[CLAIM_EVENT]
PROPER[ELICIT] = commands[ELICIT]
PROPER[SLOTS_FREED], PROPER[SLOTS_GRANTED] = commands[SLOTS_FREED], commands[SLOTS_GRANTED]

offsets = st.sampled_from(["0", "1", "-1", "100000", "9223372036854775808", "1e308", "null", '"0"']) | values
queries: dict[str, st.SearchStrategy[str]] = {
    VIEW: offsets,
    EVENTS: offsets,
    CONTEXT: values,
    SHOWN: values,
    PLAN: values,
    ELICITED: st.fixed_dictionaries({"call": texts, "path": texts}).map(_object) | values,
    PLAN_OUTPUT: values,
    PAST: offsets,
    UNDOS: offsets,
    ATTACHMENT: st.fixed_dictionaries({"question": st.just('"QUESTION"'), "n": offsets}).map(_object) | values,
}
"""Arguments of queries."""

# Payloads


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def _mangled(written: st.SearchStrategy[str]) -> st.SearchStrategy[bytes]:
    """Return the text as it should arrive, most of the time, or in another encoding, cut off, or as any bytes."""
    return st.one_of(
        written.map(_bytes),
        written.map(_bytes),
        values.map(_bytes),
        written.map(lambda text: b"\xef\xbb\xbf" + _bytes(text)),
        written.map(lambda text: text.encode("utf-16", errors="surrogatepass")),
        st.builds(lambda text, cut: _bytes(text)[:cut], written, st.integers(0, 200)),
        st.binary(max_size=40),
    )


encodings = st.sampled_from(["json/plain"] * 8 + ["binary/null", "binary/plain", "json/protobuf", "x/\xff", ""])


def _payloads(written: st.SearchStrategy[str]) -> st.SearchStrategy[list[tuple[bytes, str]]]:
    payload = st.tuples(_mangled(written), encodings)
    return st.lists(payload, min_size=1, max_size=1) | st.lists(payload, max_size=3)


def _well(written: st.SearchStrategy[str]) -> st.SearchStrategy[list[tuple[bytes, str]]]:
    return written.map(lambda text: [(_bytes(text), "json/plain")])


LISTENING = {TELL: ["agent", "driven"], PLAN: ["plan", "driven"]}
"""Kinds whose owners have these handlers, and no other has."""


def messages_to(kinds: Iterable[str]) -> st.SearchStrategy[Sent]:
    """Return messages to questions of these kinds: commands that may be taken, and anything to any handler."""
    every, sending = st.sampled_from(sorted(kinds)), st.sampled_from(["update", "update", "signal"])

    def listening(name: str) -> st.SearchStrategy[str]:
        return st.sampled_from(LISTENING[name]) | every if name in LISTENING else every

    taken = {
        name: st.builds(Sent, listening(name), st.just(name), sending, _well(text)) for name, text in PROPER.items()
    }
    hostile = {
        name: st.builds(Sent, listening(name), st.just(name), sending, _payloads(text))
        for name, text in {ANSWER: messages, "nonsense": values, **commands}.items()
    }
    asked = [
        st.builds(Sent, listening(name), st.just(name), st.just("query"), _payloads(text))
        for name, text in queries.items()
    ]
    often = [taken[ANSWER]] * 16 + [hostile[ANSWER]] * 4
    return st.one_of(*often, *taken.values(), *hostile.values(), st.one_of(*asked))
