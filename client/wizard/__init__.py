"""The wizard: what it asks (a blueprint of our own), and the texts it makes of the answers."""

from __future__ import annotations

from importlib import resources

from blueprint import Blueprint, loads
from client.wizard.texts import Wanted, blueprint_text, replies_text

__all__ = ["Wanted", "blueprint_text", "questions", "replies_text"]


def questions() -> Blueprint:
    """The blueprint whose run asks a person what the new one is to be; its output is a `Wanted`."""
    text = resources.files(__name__).joinpath("questions.yaml").read_text(encoding="utf-8")
    return loads(text, file="questions.yaml")
