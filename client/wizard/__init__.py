"""The wizard of `create --wizard`: its questions, a blueprint of our own, and the files made from the answers."""

from __future__ import annotations

from importlib import resources

from holdfast.blueprint import Blueprint, loads
from holdfast.client.wizard.texts import WizardAnswers, blueprint_text, replies_text

__all__ = ["WizardAnswers", "blueprint_text", "questions", "replies_text"]


def questions() -> Blueprint:
    """Return the blueprint whose run asks about the new blueprint; its output is a `WizardAnswers`."""
    text = resources.files(__name__).joinpath("questions.yaml").read_text(encoding="utf-8")
    return loads(text, file="questions.yaml")
