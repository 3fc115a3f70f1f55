"""Calls of tools: which were made, and what follows an error where the author says it.

It asks for access, finds another tool, calls again, or fails. An agent, a step that calls a tool, and a step of a plan
make their calls here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from temporalio.exceptions import ApplicationError

from holdfast.blueprint.dependencies import calls_tools
from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds.references import IMPORT
from holdfast.blueprint.parts import AskForAccess, CallAgain, ToolErrors
from holdfast.blueprint.questions import Extension
from holdfast.protocol.agents import LONGEST_KEPT, MadeCall, ToolSpec, add_calls
from holdfast.protocol.children import Failure
from holdfast.protocol.events import StepRetrying
from holdfast.protocol.tool_errors import kind_of_failure, kind_of_result, may_have_acted
from holdfast.protocol.values import make_digest
from holdfast.workflows.concurrency import CancelledWithFailure, CancelledWithResult, is_cancelled
from holdfast.workflows.failures import HANDLED, ToolErrorFailure, find_failure
from holdfast.workflows.frame import Frame
from holdfast.workflows.journal import preview

FindOther = Callable[[str], Awaitable[ToolSpec | None]]


class ToolReplaced(ApplicationError):
    """An error of a tool that is missing, in whose place another one is to be called."""

    def __init__(self, cause: Failure, other: ToolSpec) -> None:
        cause = cause.model_copy(update={"message": f"{cause.message}; call {other.name} in its place"})
        super().__init__(cause.message, cause, type=cause.type, non_retryable=True)
        self.other = other


def name_tool_error(error: BaseException) -> str | None:
    """Return the kind of the error of a tool that ends an agent or a step, else its type; None for other errors."""
    if not isinstance(error, ToolErrorFailure):
        return None
    return kind_of_failure(error.type or "", error.message) or error.type


def _may_have_acted(tool: str, cause: Failure, frame: Frame) -> bool:
    """Return whether a call that failed may have had an effect: of an import any step before the failed one."""
    if may_have_acted(cause.type):
        return True
    alias = tool.removeprefix(IMPORT)
    if not tool.startswith(IMPORT) or cause.address == frame.at("import", alias).address:  # not begun
        return False
    return calls_tools(frame.blueprint.imports[alias])


class ToolCalls:
    """The calls of one agent, or of one step.

    Args:
        rules: What follows errors, as the author wrote it; None: every error is a plain failure.
        find_other: Finds a tool in place of a missing one. None where there is no other.
        by_model: True if it is a model that calls again, and not this object.
        tries: Errors so far after which it was called again, by kind; counted on.
        made: The calls so far, whatever came of them.
        keep: Is called with changes of these two, before what they count is done.
    """

    def __init__(
        self,
        rules: ToolErrors | None,
        find_other: FindOther | None = None,
        *,
        by_model: bool = False,
        tries: Mapping[str, int] | None = None,
        made: Iterable[MadeCall] = (),
        keep: Callable[..., object] | None = None,
    ) -> None:
        self.tries, self.made = dict(tries or {}), list(made)
        self._rules, self._find_other, self._by_model, self._keep = rules, find_other, by_model, keep
        self._unsettled = Counter((call.tool, call.args) for call in self.made if call.outcome == "begun")
        """By tool and arguments: calls of which it is not known, or not yet, how they ended."""

    async def make(self, tool: str, args: object, call: Callable[[], Awaitable[JSON]], frame: Frame) -> JSON:
        """Make a call and return its result; after an error do what its rule says. The frame stands at the call.

        Raises what the call raises, for a model to call again, `ToolErrorFailure` where there is no further call, and
        `ToolReplaced` where it is another tool's.
        """
        made = MadeCall(tool=tool, args=make_digest(args), arguments=preview(args, LONGEST_KEPT))
        key = (tool, made.args)
        earlier = [call for call in self.made if call.outcome == "returned" and (call.tool, call.args) == key]
        while True:
            # Before the call: what is broken off in the middle of it may have had its effect.
            self._unsettled[key] += 1
            self.note(made)
            try:
                result = await call()
            except CancelledWithResult as cancelled:
                self.note(*getattr(cancelled.result, "made", ()))  # those of an agent that is the tool
                raise
            except CancelledWithFailure as cancelled:
                self.note(*find_failure(cancelled.error, frame.address).made)
                raise
            except HANDLED as error:
                cause = find_failure(error, frame.address)
                is_known = not is_cancelled(error) and not _may_have_acted(tool, cause, frame)
                self.note(*cause.made)
                if is_known:
                    self._note_end(made, "failed", cause.message, earlier)
                kind = kind_of_failure(cause.type, cause.message) or "other"
                if is_cancelled(error) or cause.final or self._rule(kind) is None:
                    raise
                try:
                    calls_again = await self._calls_again(tool, kind, cause, frame)
                except ToolErrorFailure as end:
                    raise end from error  # whose traceback is in the tool
                if not calls_again:
                    raise
            else:
                found = kind_of_result(result)
                self._note_end(made, "returned" if found is None else "failed", result, earlier)
                if found is None or self._rule(found[0]) is None:
                    return result
                cause = Failure(type=found[0], message=f"{tool}: {found[1]}", address=frame.address)
                if not await self._calls_again(tool, found[0], cause, frame):
                    return result

    def note(self, *calls: MadeCall) -> None:
        """Record calls, made here or by an agent that is a tool."""
        self.made = add_calls(self.made, calls)
        if self._keep is not None:
            self._keep(made=self.made)

    def _note_end(self, made: MadeCall, outcome: str, output: object, earlier: list[MadeCall]) -> None:
        """Record how a call ended; one that failed hides no equal one that has returned, or may have acted."""
        self._unsettled[made.tool, made.args] -= 1
        if outcome == "failed" and self._unsettled[made.tool, made.args]:
            return
        ended = made.model_copy(update={"outcome": outcome, "output": preview(output, LONGEST_KEPT)})
        self.note(*earlier, ended)

    def count_misfit(self, tool: str, message: str, frame: Frame) -> None:
        """Count arguments that cannot be used, which a model gives again. Raises `ToolErrorFailure` after the last."""
        if self._rules is not None and self._rules.bad_arguments is not None:
            cause = Failure(type="tool_input", message=message, address=frame.address)
            self._count("bad_arguments", cause, tool, frame)

    async def replace(self, tool: str, cause: Failure, frame: Frame) -> ToolSpec:
        """Return another tool for one that is missing, once for each. Raises `ToolErrorFailure` if there is none."""
        key, other = f"find {tool}", None
        if self._find_other is not None and key not in self.tries and self._is_any_left:
            self._add_try(key)
            other = await self._find_other(tool)
        if other is None:
            raise ToolErrorFailure(cause)
        frame.note(StepRetrying(tool=other.name, instead_of=tool))
        return other

    async def _calls_again(self, tool: str, kind: str, cause: Failure, frame: Frame) -> bool:
        """Return whether the same call is made again, and not by the model. Raises `ToolErrorFailure`."""
        match self._rule(kind):
            case "find":
                raise ToolReplaced(cause, await self.replace(tool, cause, frame))
            case "ask" | AskForAccess():
                self._check_left(kind, cause)
                if not await self._is_given_access(tool, cause, frame):
                    raise ToolErrorFailure(cause)
                self._count(kind, cause, tool, frame)
                return True
        self._count(kind, cause, tool, frame)
        return not self._by_model

    def _rule(self, kind: str) -> Any:
        return getattr(self._rules, kind, None)

    @property
    def _is_any_left(self) -> bool:
        total = None if self._rules is None else self._rules.total
        return total is None or sum(self.tries.values()) < total

    def _check_left(self, kind: str, cause: Failure) -> None:
        """Raise `ToolErrorFailure` if there is no further call after an error of this kind."""
        match self._rule(kind):
            case CallAgain(retry=most) | AskForAccess(ask=most) if self.tries.get(kind, 0) < most and self._is_any_left:
                return
            case "ask" if self._is_any_left:
                return
        raise ToolErrorFailure(cause)

    def _count(self, kind: str, cause: Failure, tool: str, frame: Frame) -> None:
        self._check_left(kind, cause)
        self._add_try(kind)
        frame.note(StepRetrying(tool=tool, error=cause.type, message=cause.message))

    def _add_try(self, key: str) -> None:
        self.tries[key] = self.tries.get(key, 0) + 1
        if self._keep is not None:
            self._keep(tries=dict(self.tries))

    async def _is_given_access(self, tool: str, cause: Failure, frame: Frame) -> bool:
        """Ask a person to give a tool its access again; return whether it may be called once more."""
        options = [
            {"id": "reconnected", "label": "Access is given, call it again"},
            {"id": "fail", "label": "Let the call fail"},
        ]
        text = f"{tool} is not authorized: {cause.message}. Give it access, then say so."
        asked = {"message": text, "options": options, "info": {"tool": tool, "message": cause.message}}
        reply = await frame.at("hitl", "access").ask(Extension.model_validate(asked))
        if reply.status == "cancelled":
            message = f"{reply.by or 'somebody'} cancelled the question whether {tool} has its access"
            raise ToolErrorFailure(Failure(type="question_cancelled", message=message, address=frame.address))
        return bool(reply.content == "reconnected")
