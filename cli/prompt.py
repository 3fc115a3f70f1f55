"""A prompt for a person at a terminal, and its interruption: `prompts` makes prompts, `line_editor` shows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class PromptInterrupted(Exception):
    """Ctrl-C during a prompt, or while a line of standard input was read."""


@dataclass(frozen=True)
class Prompt:
    """A prompt for a person."""

    text: str
    hidden: bool = False
    """True if what is typed may not be shown."""
    words: Sequence[str] = ()
    """What may be typed, for completion."""
    several: bool = False
    """True if several of the words may be typed, with commas."""
    long: bool = False
    """True if text of several lines may be typed."""
