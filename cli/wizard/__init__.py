"""The wizard of `create --wizard`: what it asks, and the files that it makes of the answers. Pure values and texts."""

from __future__ import annotations

from holdfast.cli.wizard.questions import WizardQuestion, next_question
from holdfast.cli.wizard.texts import WizardAnswers, blueprint_text, replies_text

__all__ = ["WizardAnswers", "WizardQuestion", "blueprint_text", "next_question", "replies_text"]
