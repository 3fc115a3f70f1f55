"""The hashes of the record: each entry's covers the one before, so that no entry can be changed, left out or put in.

An entry's hash covers its metadata, and of its content only a salted digest: erasing content and salt breaks no chain,
and nobody can try contents against the digest that stays.
"""

from __future__ import annotations

import hashlib

from holdfast.blueprint.json_values import JSONObject
from holdfast.protocol.guard import canonical


def chain_start(namespace: str, run: str) -> str:
    """Return the hash before the first entry of a run: it holds the run's name, which stands beside the chain."""
    return hashlib.sha256(canonical({"namespace": namespace, "run": run}).encode()).hexdigest()


def content_digest(salt: str, content: str) -> str:
    """Return the digest of a content with its salt, both as they are stored."""
    return hashlib.sha256(f"{salt}\n{content}".encode()).hexdigest()


def entry_hash(before: str, first_run: str, n: int, metadata: JSONObject, digest: str) -> str:
    """Return the hash of an entry.

    Args:
        before: The hash of the entry before it in its run's chain.
        first_run: Temporal's id of the run's first history.
        n: Its place in the chain, from 0.
        metadata: See `RecordEntry.metadata`.
        digest: See `content_digest`.
    """
    document = {**metadata, "before": before, "first_run": first_run, "n": n, "digest": digest}
    return hashlib.sha256(canonical(document).encode()).hexdigest()
