"""The tools of an agent that ends with them: which are still to be called, and what they returned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.blueprint.json_values import JSON
from holdfast.protocol.agents import ReturnedCall, ToolCall, ToolSpec
from holdfast.protocol.children import AgentState
from holdfast.protocol.tool_errors import kind_of_result, useful
from holdfast.workflows.toolbox import ASK_PERSON


class EndingTools:
    """The tools with which an agent ends.

    Args:
        state: The agent's state, of which this goes on.
        is_bounded: Whether the agent works on a step of a plan: then each tool ends by its last call, and the calls
            behind one that failed are not made.
    """

    def __init__(self, state: AgentState, *, is_bounded: bool) -> None:
        self.open, self.returned, self._is_bounded = list(state.open_tools), list(state.returned), is_bounded
        self.text = ""
        """What the model said beside its last calls."""
        self._done_before: set[str] = set()
        """The tools that were done before this turn."""
        self._has_failed = False
        """Whether a call of this turn has failed."""

    def collect_state(self) -> dict[str, Any]:
        """Return the fields of the agent's state that are kept here."""
        return {"open_tools": self.open, "returned": self.returned}

    def begin(self, specs: Sequence[ToolSpec]) -> None:
        """Take the tools that the agent has at its start."""
        self.open = [spec.reference for spec in specs if spec.reference != ASK_PERSON]

    def select_open(self, specs: Sequence[ToolSpec]) -> list[ToolSpec]:
        """Return the tools that are still to be called, and the one that asks a person."""
        return [spec for spec in specs if spec.reference in (*self.open, ASK_PERSON)]

    def begin_turn(self, text: object) -> None:
        """Begin the calls of a turn, beside which the model said this."""
        self.text = text if isinstance(text, str) and text.strip() else ""
        self._done_before = {call.tool for call in self.returned}
        self._has_failed = False

    def find_earlier(self, call: ToolCall, spec: ToolSpec | None) -> tuple[JSON] | None:
        """Return the result for a call that is not made, as it was made before or comes behind one that failed."""
        if self._is_bounded and self._has_failed:
            return ("not called, as the one before failed",)
        if spec is None:
            return None
        for made in self.returned:
            if (made.tool, made.parameters) == (spec.reference, call.args):
                return (made.data,)
        if spec.reference not in self.open and spec.reference in self._done_before:
            return (f"{call.name} was done before, and is not run again; call {' or '.join(self.open)}",)
        return None

    def take_result(self, call: ToolCall, spec: ToolSpec, content: JSON) -> bool:
        """Take the result of a call; return whether it is a success."""
        if kind_of_result(content) is not None:
            self.take_failure(spec)
            return False
        self.returned.append(ReturnedCall(tool=spec.reference, parameters=call.args, data=useful(content)))
        if spec.reference in self.open:
            self.open.remove(spec.reference)
        return True

    def take_failure(self, spec: ToolSpec | None) -> None:
        """Note that a call failed: in a plan its tool is still to be called, though another call has succeeded."""
        self._has_failed = True
        tool = None if spec is None else spec.reference
        if self._is_bounded and any(call.tool == tool for call in self.returned) and tool not in self.open:
            self.open.append(str(tool))

    def replace(self, missing: str, other: str) -> None:
        """Put another tool in place of one that is missing."""
        self.open = list(dict.fromkeys(other if name == missing else name for name in self.open))
        if other not in self.open:
            self.open.append(other)
