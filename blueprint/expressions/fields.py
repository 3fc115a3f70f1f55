"""Names of what an expression can read of a step: the checks of a blueprint and the interpreter use them."""

from __future__ import annotations

STEP_FIELDS = ("output", "reply", "status", "reason", "error")
REPLY_FIELDS = ("action", "by", "at", "proved_by", "comment", "answers")
"""What the reply to any question may have; `Asked.remarks` says what one of a kind has beside them."""
CONDITION_FALSE, DECLINED = "condition_false", "declined"
DEPENDENCY_FAILED, DEPENDENCY_SKIPPED = "dependency_failed", "dependency_skipped"
SKIP_REASONS = (CONDITION_FALSE, DECLINED, DEPENDENCY_FAILED, DEPENDENCY_SKIPPED)
"""Why a step was skipped: its `when`, a person's no to its tool, or what it needs."""
ERROR_FIELDS = ("type", "message", "address", "output")
"""`output`: what had been done when it failed, as far as that is known: of a plan the results of its steps, of a loop
the output of the last iteration that completed, of an agent the tools that it called."""
