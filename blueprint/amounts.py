"""Amounts in messages: a number with its noun."""

from __future__ import annotations


def say_count(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> say_count(1, "request"), say_count(4020, "request")
    ('1 request', '4,020 requests')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
