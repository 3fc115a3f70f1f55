"""Questions of MCP servers in the middle of a call, within the activity that holds it.

The workflow is told by an update with a token, so that in a guarded run nobody else can put a question to people. It is
asked by query whether somebody has answered: a query costs no event, and needs none of the few updates that may be in
flight.
"""

from __future__ import annotations

import asyncio
import json
import logging
from types import TracebackType

from temporalio import activity
from temporalio.client import (
    WorkflowHandle,
    WorkflowQueryFailedError,
    WorkflowQueryRejectedError,
    WorkflowUpdateFailedError,
)
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from holdfast.activities.elicitation import BadElicitation, bad_elicitation, make_path, make_question, response_to
from holdfast.activities.signing import sign_command
from holdfast.blueprint.json_values import JSONObject
from holdfast.blueprint.questions import Asked
from holdfast.protocol.agents import InterruptAnswer, ToolRequest
from holdfast.protocol.elicitations import (
    ELICIT,
    ELICITATION_SECONDS,
    ELICITED,
    Elicited,
    ElicitedQuery,
    PutElicitation,
)
from holdfast.protocol.guard import SignedCommand

log = logging.getLogger("holdfast.mcp")

LOOK_SECONDS = 0.5
"""The pause between two looks at whether somebody has answered."""
GRACE = 15.0
"""Seconds that this waits longer than the workflow, whose deadline is the one that people see."""
CANCEL = InterruptAnswer(action="cancel")


class CallClock:
    """The time limit of an attempt. It stands still while people are asked, for at most `ELICITATION_SECONDS`.

    Temporal's own limit is later by that time, so that this one counts.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._limit = asyncio.timeout(self.seconds)
        self._rest = 0.0
        self._stopped_at: float | None = None
        self._open = 0
        self._stopped = 0.0
        self._is_over = False

    @property
    def left_for_people(self) -> float:
        """Return the seconds that people have left in this call."""
        since = 0.0 if self._stopped_at is None else asyncio.get_running_loop().time() - self._stopped_at
        return ELICITATION_SECONDS - self._stopped - since

    async def __aenter__(self) -> CallClock:
        await self._limit.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over = True
        await self._limit.__aexit__(kind, error, trace)

    def stop(self) -> None:
        """Stop the clock until `go_on` was called as often."""
        self._open += 1
        if self._open == 1:
            self._stopped_at = asyncio.get_running_loop().time()
            self._rest = (self._limit.when() or self._stopped_at) - self._stopped_at
            if not self._is_over:
                self._limit.reschedule(None)

    def go_on(self) -> None:
        """Let the clock go on."""
        self._open -= 1
        if self._open == 0 and self._stopped_at is not None:
            now = asyncio.get_running_loop().time()
            self._stopped += now - self._stopped_at
            self._stopped_at = None
            if not self._is_over and not self._limit.expired():
                self._limit.reschedule(now + self._rest)


class MidCallQuestions:
    """The questions of one call."""

    def __init__(self, request: ToolRequest, clock: CallClock) -> None:
        self._request, self._clock = request, clock
        # Now: a server's question is handled in a task that knows of no activity.
        self._info = info = activity.info()
        self._workflow: WorkflowHandle[object, object] = activity.client().get_workflow_handle(
            # By run id, unlike commands to a child: only this history knows the call, which does not outlast it.
            info.workflow_id or "",
            run_id=info.workflow_run_id,
        )
        self._asked = 0
        self.failure: ApplicationError | None = None
        """Set once the server has asked something that people cannot be asked."""

    async def ask(self, request: JSONObject) -> JSONObject:
        """Return the response to what the server asks. Raises the failure for what people cannot be asked."""
        self._asked += 1
        key = str(self._asked)
        try:
            asked = make_question(self._request.tool, request)
        except BadElicitation as error:
            self.failure = bad_elicitation(self._request.tool, key, error)
            raise self.failure from None
        self._clock.stop()
        try:
            return response_to(asked, await self._answer(make_path(key), asked))
        finally:
            self._clock.go_on()

    async def _answer(self, path: str, asked: Asked) -> InterruptAnswer:
        """Return what people answer; `cancel` if nobody does in time, or nobody can be asked."""
        if (seconds := self._clock.left_for_people) <= 0 or not self._request.address:
            return CANCEL
        key = f"{self._info.activity_id}:{self._info.attempt}:{self._asked}"
        put = PutElicitation(call=self._request.address, path=path, asked=asked, seconds=seconds, key=key)
        payload: JSONObject = json.loads(put.model_dump_json(exclude={"token"}))
        command = SignedCommand(self._request.run, self._workflow.id, ELICIT, payload)
        try:
            async with asyncio.timeout(seconds + GRACE):
                await self._workflow.execute_update(ELICIT, sign_command(command, "service"), id=f"{ELICIT}:{key}")
                return await _await_answer(self._workflow, ElicitedQuery(call=put.call, path=path))
        except WorkflowUpdateFailedError as error:
            log.warning("%s: people cannot be asked: %s", self._request.tool, error.cause)
            return CANCEL
        except (TimeoutError, RPCError):
            return CANCEL


async def _await_answer(workflow: WorkflowHandle[object, object], query: ElicitedQuery) -> InterruptAnswer:
    """Return the answer once there is one; `cancel` if the workflow does not know the question."""
    while True:
        try:
            elicited = await workflow.query(ELICITED, query, result_type=Elicited)
        except (WorkflowQueryFailedError, WorkflowQueryRejectedError, RPCError):  # no worker now, or a busy one
            elicited = Elicited(status="open")
        if elicited.status != "open":
            return elicited.answer or CANCEL
        await asyncio.sleep(LOOK_SECONDS)
