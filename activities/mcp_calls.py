"""Calls of the tools of MCP servers, within the activity: what a server needs from people, it gets by the workflow.

A server of the protocol of 2026 ends the call with what it needs; the activity returns that, and another one goes on
with the responses. An older server asks in the middle of the call; see `mcp_asking`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from temporalio.exceptions import ApplicationError

from holdfast.activities.elicitation import BadElicitation, bad_elicitation, make_path, make_question, response_to
from holdfast.activities.mcp_asking import CallClock, MidCallQuestions
from holdfast.activities.mcp_callers import Continuation, InputRequired
from holdfast.activities.mcp_servers import LOST, NO_CHANNEL, STATE_REFUSED, UNREACHABLE, McpServers
from holdfast.activities.registry import wrong
from holdfast.activities.sizes import check_result
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.questions import Asked
from holdfast.protocol import guard
from holdfast.protocol.agents import Interrupted, RaisedInterrupt, ToolRequest
from holdfast.protocol.values import Value

MCP = "mcp:"
UNREACHED_PAUSES = (1.0, 2.0, 4.0, 8.0)
"""Seconds between the attempts to reach a server."""
MOST_ROUNDS = 100
"""A server that ends one call more often than this without a result is given up."""
STATE_PAUSES = (0.05, 0.1, 0.25, 0.5, 1.0)
"""Seconds before a call goes on that a server ended without needing anything; the last one again and again."""


class CallProgress(Value):
    """The needs of a call from people so far; kept in the workflow between two activities."""

    state: str | None = None
    """The server's own, unread."""
    needed: dict[str, JSONObject] = {}
    """What it needs now, by the server's keys."""
    settled: list[tuple[str, JSONObject, JSONObject]] = []
    """Key, request and response of what it needed before."""
    takes_responses: bool = True
    rounds: int = 0


class McpCall:
    """One call, from where the last activity left it."""

    def __init__(self, servers: McpServers, request: ToolRequest) -> None:
        self._servers, self._request = servers, request
        self._server, _, self._tool = request.tool.removeprefix(MCP).partition("/")
        self._clock = CallClock(request.timeout)
        self._questions = MidCallQuestions(request, self._clock)
        self._exchange = CallProgress.model_validate(request.states.get("") or {})
        self._anew = False
        """True once the call was begun again, as the server no longer takes its state."""

    async def outcome(self) -> JSON | Interrupted:
        """Return the result, or the questions that people must answer first."""
        try:
            async with self._clock:
                outcome = await self._until_needed(self._responses())
        except TimeoutError:
            text = f"the call of {self._request.tool} was lost (no result within {self._clock.seconds:g} s)"
            raise ApplicationError(f"{text}; it may have taken effect", type=LOST) from None
        except ApplicationError:
            if self._questions.failure is not None:  # the server only heard that its question cannot be asked
                raise self._questions.failure from None
            raise
        if self._questions.failure is not None:
            raise self._questions.failure
        return outcome

    async def _until_needed(self, continuation: Continuation | None) -> JSON | Interrupted:
        while True:
            result = await self._send_or_begin_anew(continuation)
            if not isinstance(result, InputRequired):
                return result
            self._note(result)
            if not result.requests:
                await asyncio.sleep(STATE_PAUSES[min(self._exchange.rounds, len(STATE_PAUSES)) - 1])
            elif not self._anew or (responses := self._find_responses(result.requests)) is None:
                return self._make_interrupt()
            else:
                continuation = Continuation(responses, result.state)
                continue
            continuation = Continuation({}, result.state)

    def _note(self, required: InputRequired) -> None:
        rounds = self._exchange.rounds + 1
        if rounds > MOST_ROUNDS:
            raise wrong("tool_error", f"{self._request.tool}: the server needs something more than {MOST_ROUNDS} times")
        needed = {"state": required.state, "needed": dict(required.requests), "rounds": rounds}
        self._exchange = self._exchange.model_copy(update={**needed, "takes_responses": required.takes_responses})

    def _responses(self) -> Continuation | None:
        """Return what people have answered to what the server needs; None for a call that is to begin."""
        exchange, answers = self._exchange, self._request.given
        if not exchange.needed:
            return None
        responses = {
            key: response_to(self._make_question(key, request), answers[make_path(key)])
            for key, request in exchange.needed.items()
        }
        settled = [(key, request, responses[key]) for key, request in exchange.needed.items()]
        self._exchange = exchange.model_copy(update={"settled": [*exchange.settled, *settled], "needed": {}})
        if exchange.takes_responses:
            return Continuation(responses, exchange.state)
        for key, response in responses.items():
            if response["action"] != "accept":
                text = f"{self._request.tool}: a person did not open the page that the server needs ({key})"
                raise wrong("tool_error", text)
        return None

    def _find_responses(self, requests: Mapping[str, JSONObject]) -> Mapping[str, JSONObject] | None:
        """Return the responses to the same requests before; None if there is one that was not answered yet."""
        settled = {
            key: response
            for key, request, response in self._exchange.settled
            if key in requests and requests[key] == request
        }
        return settled if settled.keys() == requests.keys() else None

    def _make_interrupt(self) -> Interrupted:
        needed = self._exchange.needed
        questions = [
            RaisedInterrupt(path=make_path(key), asked=self._make_question(key, needed[key])) for key in needed
        ]
        states: JSONObject = {"": self._exchange.model_dump(mode="json")}
        outcome = Interrupted(questions=questions, states=states, together=True)
        check_result(outcome.model_dump(mode="json"), guard.DEPLOYMENT.limits.result, self._request.tool)
        return outcome

    def _make_question(self, key: str, request: JSONObject) -> Asked:
        try:
            return make_question(self._request.tool, request)
        except BadElicitation as error:
            raise bad_elicitation(self._request.tool, key, error) from None

    async def _send_or_begin_anew(self, continuation: Continuation | None) -> JSON | InputRequired:
        """Send the call. A server whose state has expired gets it once more from its beginning.

        States of servers live for minutes, and people answer after days. By the protocol each request stands for
        itself, and a call that ended with a need has not been done, so that it may begin again; what people have
        answered then answers the same questions.
        """
        try:
            return await self._send(continuation)
        except ApplicationError as error:
            if error.type != STATE_REFUSED:
                raise
            if self._anew:
                raise wrong("tool_error", error.message) from None
        self._anew = True
        return await self._send(None)

    async def _send(self, continuation: Continuation | None) -> JSON | InputRequired:
        """Return the server's result.

        A call that certainly was not sent is retried here: a second attempt of the activity could not tell it from one
        that was lost.
        """
        for pause in UNREACHED_PAUSES:
            try:
                return await self._send_call(continuation)
            except ApplicationError as error:
                if error.type != UNREACHABLE or error.non_retryable or self._request.idempotent:
                    raise
            await asyncio.sleep(pause)
        try:
            return await self._send_call(continuation)
        except ApplicationError as error:
            raise (wrong(UNREACHABLE, error.message) if error.type == UNREACHABLE else error) from None

    async def _send_call(self, continuation: Continuation | None) -> JSON | InputRequired:
        args = self._request.input or {}
        try:
            return await self._servers.call(self._server, self._tool, args, continuation, self._questions.ask)
        except ApplicationError as error:
            if error.type != NO_CHANNEL or not self._request.idempotent:
                raise
        # In the older protocol now, in which the server can ask.
        return await self._servers.call(self._server, self._tool, args, continuation, self._questions.ask)
