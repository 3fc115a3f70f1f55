"""What follows an error of a tool, where the author says it: ask for access, find another, call again, or fail."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from temporalio.exceptions import ApplicationError

from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.parts import CallAgain, ToolErrors
from holdfast.blueprint.questions import Decision
from holdfast.protocol.events import StepRetrying
from holdfast.protocol.runs import Failure
from holdfast.protocol.tool_errors import ErrorKind, kind_of_failure, kind_of_result
from holdfast.workflows.concurrency import is_cancelled
from holdfast.workflows.failures import HANDLED, find_failure, make_error
from holdfast.workflows.frame import Frame

FindOther = Callable[[str], Awaitable[str | None]]
_KEYS: Mapping[ErrorKind, str] = {
    "authorisation": "authorization",
    "tool_missing": "missing",
    "bad_parameters": "bad_arguments",
    "timeout": "timeout",
    "business": "business",
}


class ToolErrorFailure(ApplicationError):
    """An error of a tool after which the author wants no further call: it ends the agent, or the step."""

    def __init__(self, cause: Failure) -> None:
        super().__init__(cause.message, cause, type=cause.type, non_retryable=True)


class ErrorRules:
    """The rules of one step or agent about errors of its tools, at one call.

    Args:
        rules: As the author wrote them; None: every error is a plain failure.
        frame: A frame at the call's address.
        tries: Errors so far after which it was called again, by kind; counted on.
        find_other: Finds a tool in place of a missing one. None for a step, which has no other, and calls again itself;
            for an agent it is the model that calls again.
    """

    def __init__(
        self,
        rules: ToolErrors | None,
        frame: Frame,
        tries: dict[str, int] | None = None,
        find_other: FindOther | None = None,
    ) -> None:
        self.tries = {} if tries is None else tries
        self._rules, self._frame, self._find_other = rules, frame, find_other

    async def call(self, tool: str, call: Callable[[], Awaitable[JSON]]) -> JSON:
        """Make a call and return its result; after an error do what its rule says.

        Raises what the call raises, for a model to call again, and `ToolErrorFailure` where there is no further call.
        """
        if self._rules is None:
            return await call()
        while True:
            try:
                result = await call()
            except HANDLED as error:
                cause = find_failure(error, self._frame.address)
                kind = kind_of_failure(cause.type, cause.message)
                if is_cancelled(error) or cause.final or kind is None or self._rule(kind) is None:
                    raise
                if not await self._calls_again(tool, kind, cause):
                    raise
            else:
                found = kind_of_result(result)
                if found is None or self._rule(found[0]) is None:
                    return result
                cause = Failure(type=_KEYS[found[0]], message=f"{tool}: {found[1]}", address=self._frame.address)
                if not await self._calls_again(tool, found[0], cause):
                    return result

    def count_misfit(self, tool: str, message: str) -> None:
        """Count arguments that cannot be used, which a model gives again. Raises `ToolErrorFailure` after the last."""
        if self._rules is not None and self._rules.bad_arguments is not None:
            cause = Failure(type="tool_input", message=message, address=self._frame.address)
            self._count("bad_parameters", cause, tool)

    def _count(self, kind: ErrorKind, cause: Failure, tool: str) -> None:
        rule = self._rule(kind)
        if not isinstance(rule, CallAgain) or self.tries.get(kind, 0) >= rule.retry:
            raise ToolErrorFailure(cause)
        self.tries[kind] = self.tries.get(kind, 0) + 1
        self._frame.note(StepRetrying(tool=tool, error=cause.type, message=cause.message))

    def _rule(self, kind: ErrorKind) -> str | CallAgain | None:
        rule: str | CallAgain | None = getattr(self._rules, _KEYS[kind])
        return rule

    async def _calls_again(self, tool: str, kind: ErrorKind, cause: Failure) -> bool:
        """Return whether the same call is made again, and not by the model. Raises `ToolErrorFailure`."""
        match self._rule(kind):
            case "ask" if await self._is_reconnected(tool, cause.message):
                self._frame.note(StepRetrying(tool=tool, error=cause.type, message=cause.message))
                return True
            case "find" if (other := await self._other(tool)) is not None:
                self._frame.note(StepRetrying(tool=other, instead_of=tool))
                message = f"{cause.message}; call {other} in its place"
                raise make_error(cause.model_copy(update={"message": message}))
        self._count(kind, cause, tool)
        return self._find_other is None

    async def _other(self, tool: str) -> str | None:
        """Return another tool, once for each that is missing: a model may call that one again."""
        if self._find_other is None or f"find {tool}" in self.tries:
            return None
        self.tries[f"find {tool}"] = 1
        return await self._find_other(tool)

    async def _is_reconnected(self, tool: str, message: str) -> bool:
        """Ask a person to give a tool its access again; return whether it may be called once more."""
        options = [
            {"id": "reconnected", "label": "Access is given, call it again"},
            {"id": "fail", "label": "Let the call fail"},
        ]
        info = {"tool": tool, "message": message}
        text = f"{tool} is not authorized: {message}. Give it access, then say so."
        asked = Decision.model_validate({"message": text, "options": options, "info": info})
        reply = await self._frame.at("hitl", "access").ask(asked)
        return bool(reply.content == "reconnected")
