"""Addresses: the path of a step in a run, ``pipeline:brief;loop:clarify:2;hitl:review``. Used by every room.

An address is made of step names and counters only, so the same run has the same addresses on every replay.
"""

import hashlib
import re
from typing import NewType

Address = NewType("Address", str)

_COUNTERS = re.compile(r"([0-9]{1,18})")
LONGEST_WORKFLOW_ID = 200
"""Bytes. Temporal takes 1,000, but some of its SQL schemas allow only 255."""
ELICITATION = "elicitation"
"""The type of the segment of a question that a server asks in mid-call; its name is the server's own key."""
INSIDE = ("level", ELICITATION)
"""The types of the segments that a tool, a graph or an MCP server adds to the address of its step or call."""

OPAQUE = ("agent", "plan", "clarify", "tool", "turn", "level")
"""The types of the segments inside which no run begins: the whole is gone through again, or met."""


def root(blueprint: str) -> Address:
    """Return the address of a whole run.

    >>> root("brief")
    'pipeline:brief'
    """
    return Address(segment("pipeline", blueprint))


def segment(type_: str, id_: str, sub: object = None) -> str:
    """Return one segment of an address, with its names escaped.

    >>> segment("branch", "a;b"), segment("loop", "clarify", 2)
    ('branch:a%3Bb', 'loop:clarify:2')
    """
    last = "" if sub is None else f":{_escape(str(sub))}"
    return f"{type_}:{_escape(id_)}{last}"


def within(parent: Address, type_: str, id_: str, sub: object = None) -> Address:
    """Return the address one segment below the parent.

    >>> within(root("brief"), "hitl", "review")
    'pipeline:brief;hitl:review'
    """
    return Address(f"{parent};{segment(type_, id_, sub)}")


def is_within(address: str, place: str) -> bool:
    """Return whether an address is a place, or stands below it.

    >>> is_within("pipeline:p;step:ab", "pipeline:p"), is_within("pipeline:p;step:ab", "pipeline:p;step:a")
    (True, False)
    """
    return address == place or address.startswith(f"{place};")


def is_inside(address: str, around: str) -> bool:
    """Return whether an address is another one, below it, or one of its iterations or items.

    >>> is_inside("p;loop:l:2;step:a", "p;loop:l"), is_inside("p;loop:last", "p;loop:l")
    (True, False)
    """
    return address == around or address.startswith((f"{around}:", f"{around};"))


def in_order(address: str) -> list[str | int]:
    """Return a key by which addresses sort with their counters as numbers: item 2 before item 10.

    >>> sorted(["p;map:m:10", "p;map:m:2"], key=in_order)
    ['p;map:m:2', 'p;map:m:10']
    """
    return [int(part) if n % 2 else part for n, part in enumerate(_COUNTERS.split(address))]


def child_workflow_id(run: str, address: Address) -> str:
    """Return the id of the child workflow at an address: the run's id and the whole address below the root.

    A name alone would not do: two loops of one name in sibling branches would get the same id. An id that is too
    long ends in a digest of the whole.

    >>> child_workflow_id("nest-01", Address("pipeline:nest;loop:outer:2;loop:inner"))
    'nest-01/loop:outer:2;loop:inner'
    """
    return _limit_id(f"{run}/{address.partition(';')[2]}")


def nested_workflow_id(run: str, address: Address, parent: str, place: Address) -> str:
    """Return the id of a child of a child: that of its address, below the parent's own id where this has an attempt.

    A step that runs once more has children at the same addresses as before; without the parent's `~2` they would be
    histories of one workflow.

    Args:
        run: The run's id.
        address: The address of the child.
        parent: The workflow id of its parent.
        place: The address of the parent.

    >>> nested_workflow_id("r", Address("pipeline:p;plan:w;step:a"), "r/plan:w~2", Address("pipeline:p;plan:w"))
    'r/plan:w~2;step:a'
    >>> nested_workflow_id("r", Address("pipeline:p;plan:w;step:a"), "r/plan:w", Address("pipeline:p;plan:w"))
    'r/plan:w;step:a'
    """
    if "/" not in parent or parent == child_workflow_id(run, place) or not is_within(address, place):
        return child_workflow_id(run, address)
    return _limit_id(f"{parent}{address.removeprefix(place)}")


def _limit_id(whole: str) -> str:
    """Return a workflow id, one that is too long with a digest of the whole at its end."""
    if len(whole.encode()) <= LONGEST_WORKFLOW_ID:
        return whole
    digest = hashlib.sha256(whole.encode()).hexdigest()[:16]
    return f"{whole.encode()[:150].decode(errors='ignore')}~{digest}"


def read_run(workflow_id: str) -> str:
    """Return the run that a workflow belongs to.

    >>> read_run("nest-01/loop:outer"), read_run("nest-01")
    ('nest-01', 'nest-01')
    """
    return workflow_id.partition("/")[0]


def parts(address: str) -> list[tuple[str, str, str | None]]:
    """Return the segments as (type, id, sub), unescaped.

    >>> parts("pipeline:brief;loop:clarify:2")
    [('pipeline', 'brief', None), ('loop', 'clarify', '2')]
    """
    return [_part(text) for text in address.split(";")]


def find_opaque(address: str) -> str | None:
    """Return what stands around an address inside which no run begins; None if one may begin there.

    >>> find_opaque("pipeline:p;plan:party;step:book"), find_opaque("pipeline:p;plan:party")
    ('plan party', None)
    """
    return next((f"{kind} {name}" for kind, name, _ in parts(address)[:-1] if kind in OPAQUE), None)


def name_at(address: str) -> str:
    """Return the name of what stands at an address: the id of its last segment, unescaped.

    >>> name_at("pipeline:brief;loop:clarify:2")
    'clarify'
    """
    return _part(address.rpartition(";")[2])[1]


def names_at(address: str) -> list[str]:
    """Return the names of what stands at an address: its own, and those of the tool, agent or step that asks.

    >>> names_at("pipeline:pay;loop:each:1;step:send;level:owner-approval"), names_at("pipeline:pay;hitl:ask")
    (['owner-approval', 'send'], ['ask'])
    >>> names_at("pipeline:trip;clarify:facts;hitl:city"), names_at("pipeline:pay;agent:clerk;turn:2;tool:pay")
    (['city', 'facts'], ['pay', 'clerk'])
    """
    (inner, own, _), *around = reversed(parts(address))
    names = [own]
    for type_, name, _ in around:
        if type_ not in OPAQUE and inner not in INSIDE:
            break
        names += [name] * (type_ != "turn")
        inner = type_
    return list(dict.fromkeys(names))


def name_asker(address: str) -> str:
    """Return the name of what asks at an address: of a server's question in mid-call, that of the call.

    >>> name_asker("pipeline:pay;step:send;level:owner"), name_asker("pipeline:pay;step:send;elicitation:k1")
    ('owner', 'send')
    """
    return names_at(address)[1] if parts(address)[-1][0] == ELICITATION else name_at(address)


def _part(text: str) -> tuple[str, str, str | None]:
    type_, _, rest = text.partition(":")
    id_, colon, sub = rest.partition(":")
    return type_, _unescape(id_), _unescape(sub) if colon else None


def _escape(text: str) -> str:
    return text.replace("%", "%25").replace(":", "%3A").replace(";", "%3B")


def _unescape(text: str) -> str:
    # The sign of the escapes comes last here, and first above: else "%253B", an escaped "%3B", would become ";".
    return text.replace("%3B", ";").replace("%3A", ":").replace("%25", "%")
