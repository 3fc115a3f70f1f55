"""The world around simulated runs: activities, people, and other systems.

What they do depends on what they are asked and never on when, so a run under any schedule must end as the undisturbed
one. Activities return what the real ones return, typed; a call counts its failures and losses as `activities/attempts`
does, and a tool that may not run twice refuses to after a loss.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache, partial
from typing import Any

from temporalio.api.common.v1 import Payload
from temporalio.bridge.proto.activity_result import ActivityResolution
from temporalio.bridge.proto.workflow_activation import InitializeWorkflow
from temporalio.bridge.proto.workflow_commands.workflow_commands_pb2 import ScheduleLocalActivity
from temporalio.exceptions import ApplicationError, CancelledError

from drills.simulate.extras import NOBODY
from drills.simulate.sdk import decode_failure, encode_failure, get_converter
from drills.simulate.server import Call, Move, Run, Server, Update
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.questions import Clarification
from holdfast.protocol.agents import (
    CacheEntry,
    CacheHit,
    CacheLookup,
    Completed,
    FindTool,
    FoundTool,
    Interrupted,
    Message,
    ModelReply,
    ModelRequest,
    RaisedInterrupt,
    ToolCall,
    ToolRequest,
    ToolSpec,
    ToolsRequest,
)
from holdfast.protocol.answers import Answer, AnswerBatch, Receipt
from holdfast.protocol.event_delivery import (
    DELIVER_EVENT,
    NOT_AWAITED,
    DeliveryRequest,
    DeliveryResult,
    DeliveryStatus,
)
from holdfast.protocol.incoming import SEND_EVENT, SystemEvent
from holdfast.protocol.names import ANSWER, PAUSE, QUESTIONS_ATTRIBUTE, RESUME, VIEW
from holdfast.protocol.questions import Question
from holdfast.protocol.runs import Definition, PipelineState
from holdfast.protocol.tool_errors import OUTCOME_UNKNOWN
from holdfast.protocol.usage import Usage
from holdfast.protocol.values import make_digest
from holdfast.protocol.views import WorkflowView

RUN = "run"
FINALLY = ";branch:finally"
"""Stands in the addresses of what a block does at its end."""
PAY, FIND, ASKING, BROKEN, RING = "pay", "find", "asking", "broken", "ring"
"""Tools; whoever permits `ring` permits it for the run."""
THINK = "think"
"""How the names of steps begin that make a plan, and make it again."""
LATE = "due"
"""The name of events that are sent only once a step waits for them, as it would take none that comes before."""
TOOLS = {PAY: False, FIND: True, ASKING: True, BROKEN: True, RING: True}
"""The tools, and whether each may run twice."""
_PARAMETERS = {
    "type": "object",
    "properties": {"what": {"type": "string"}},
    "required": ["what"],
    "additionalProperties": False,
}


# Values


def make_value(schema: object, seed: str) -> JSON:
    """Return a value that fits a schema, the same for the same seed."""
    if not isinstance(schema, dict):
        return seed
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][_pick(seed, len(schema["enum"]))]
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return make_value(schema[key][0], seed)
    type_ = schema.get("type", "string")
    match type_[0] if isinstance(type_, list) else type_:
        case "boolean":
            return _pick(seed, 2) == 0
        case "integer" | "number":
            return int(schema.get("minimum", 1))
        case "null":
            return None
        case "array":
            most = 1 if schema.get("uniqueItems") else 2
            count = max(schema.get("minItems", 0), min(most, schema.get("maxItems", most)))
            return [make_value(schema.get("items", {}), f"{seed}{n}") for n in range(count)]
        case "object":
            properties = schema.get("properties", {})
            return {name: make_value(properties.get(name, {}), f"{seed}.{name}") for name in schema.get("required", [])}
    return f"said {make_digest(seed)[:6]}"


def _pick(seed: str, count: int) -> int:
    return int(make_digest(seed)[:8], 16) % count


def pack(value: object) -> Payload:
    """Return a value as a payload."""
    [payload] = get_converter().to_payloads([value])
    return payload


def unpack(payload: Payload, type_: Any) -> Any:
    """Return the value of a payload; nobody may change it."""
    return _unpack(payload.SerializeToString(), type_)


@lru_cache(maxsize=256)
def _unpack(data: bytes, type_: Any) -> Any:
    [value] = get_converter().from_payloads([Payload.FromString(data)], [type_])
    return value


# Models


def make_reply(request: ModelRequest) -> ModelReply:
    """Return what a model says: some calls of its tools first, then an output."""
    if request.step.startswith(THINK):
        return ModelReply(output=_make_plan(request.n), usage=Usage(requests=1, input_tokens=1, output_tokens=1))
    offered = {spec.name: spec for spec in request.tools}
    made = _count_turns(request.messages)
    seed = f"{request.step} {made}"
    if calls := _choose_calls(request, offered, made, seed):
        return ModelReply(tool_calls=calls, usage=Usage(requests=1, input_tokens=1, output_tokens=1))
    output = f"{request.step} says {made}" if request.output_schema is None else make_value(request.output_schema, seed)
    return ModelReply(output=output, usage=Usage(requests=1, input_tokens=1, output_tokens=1))


def _count_turns(messages: Sequence[Message]) -> int:
    """Return how many replies with calls there were, by the ids of the last one's: earlier ones may be left out."""
    called = [message.tool_calls for message in messages if message.tool_calls]
    return 1 + int(called[-1][0].id[1:].partition("-")[0]) if called else 0


def _make_plan(n: int) -> JSON:
    """Return the n-th plan of a planner: it repeats what the first one did, which then fails."""
    pay: JSONObject = {"id": "buy", "instruction": "Buy tea", "tools": [PAY], "arguments": {"what": "tea"}}
    last: JSONObject = {"id": "end", "instruction": "Go on", "dependencies": ["buy"]}
    if n == 1:
        last |= {"tools": [BROKEN], "arguments": {"what": "tea"}}
    return {"goal": "Tea", "steps": [pay, last]}


def _choose_calls(request: ModelRequest, offered: Mapping[str, ToolSpec], made: int, seed: str) -> list[ToolCall]:
    if "finish" in offered:  # the commands of an agentic loop
        if made == 0 and "run_agent" in offered:
            agents = offered["run_agent"].parameters["properties"]["agent"]["enum"]
            return [ToolCall(id="c0-0", name="run_agent", args={"agent": agents[0], "input": {"what": seed}})]
        if made <= 1:
            return [ToolCall(id=f"c{made}-0", name="ask_human", args={"question": f"Which of {request.step}?"})]
        return [ToolCall(id=f"c{made}-0", name="finish", args={"output": seed})]
    if "finish_step" in offered:  # the control calls of a plan
        calls = _list_control_calls(request.messages[0].content)
        return [ToolCall(id=f"c{made}-0", name=calls[made][0], args=calls[made][1])] if made < len(calls) else []
    turns = 1 if not request.messages or len(offered) == 1 else 2
    names = sorted(offered)
    if not names or made >= turns:
        return []
    count = 1 + _pick(seed, 2)
    chosen = [names[_pick(f"{seed}{n}", len(names))] for n in range(count)]
    return [
        ToolCall(id=f"c{made}-{n}", name=name, args=_make_arguments(offered[name], f"{seed} {n}"))
        for n, name in enumerate(chosen)
    ]


def _list_control_calls(plan: Any) -> list[tuple[str, JSONObject]]:
    """Return the calls by which an agent drives a plan to its end: its steps as they are written, loops last."""
    loops = plan.get("loop_blocks") or {}
    inside = {id_ for loop in loops.values() for id_ in loop["steps"]}
    steps = {step["id"]: step for step in plan["steps"]}
    calls = [call for id_, step in steps.items() if id_ not in inside for call in _list_step_calls(step)]
    for id_, loop in loops.items():
        calls.append(("start_loop", {"loop_id": id_}))
        for _ in loop["over"]:
            calls += [call for step in loop["steps"] for call in _list_step_calls(steps[step])]
            calls.append(("advance_loop", {"loop_id": id_}))
    return calls


def _list_step_calls(step: Any) -> list[tuple[str, JSONObject]]:
    id_ = step["id"]
    calls: list[tuple[str, JSONObject]] = []
    if step.get("pause_for_response"):
        calls.append(("request_user_info", {"question": step["instruction"], "step_id": id_}))
    for tool in step.get("tools") or []:
        calls.append(("execute_step_tool", {"step_id": id_, "tool_name": tool, "parameters": {"what": id_}}))
    return [*calls, ("finish_step", {"step_id": id_, "result_summary": f"{id_} is done"})]


def _make_arguments(spec: ToolSpec, seed: str) -> JSONObject:
    arguments = make_value(spec.parameters, seed)
    assert isinstance(arguments, dict)
    return arguments


# Activities


@dataclass
class Activities:
    """The activities of the worker, and what they have done in the world."""

    effects: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often a tool that may not run twice had its effect, by the tool and the address of the call."""
    results: dict[tuple[str, str], JSON] = field(default_factory=dict)
    cache: dict[str, JSON] = field(default_factory=dict)

    def run(self, name: str, argument: Payload, *, lost: bool = False) -> ActivityResolution:
        """Run an activity to its end.

        Args:
            name: Of the activity.
            argument: Its request.
            lost: Whether it was handed out more often than it failed.
        """
        try:
            value = self.perform(name, argument, lost=lost)
        except ApplicationError as error:
            return fail(error)
        return succeed(value)

    def perform(self, name: str, argument: Payload, *, lost: bool = False) -> object:
        """Return the result of an activity. Raises `ApplicationError` if it fails; see `run`."""
        match name:
            case "call_model":
                return make_reply(unpack(argument, ModelRequest))
            case "call_tool":
                return self._call(unpack(argument, ToolRequest), lost)
            case "describe_tools":
                return [_describe(tool) for tool in unpack(argument, ToolsRequest).tools]
            case "find_tool":
                unpack(argument, FindTool)
                return FoundTool()
            case "cache_get":
                key = unpack(argument, CacheLookup).key
                return CacheHit(found=key in self.cache, value=self.cache.get(key))
            case "cache_put":
                entry = unpack(argument, CacheEntry)
                self.cache[entry.key] = entry.value
                return None
        raise NotImplementedError(f"no activity {name} is simulated")

    def _call(self, request: ToolRequest, lost: bool) -> Completed | Interrupted:
        if (lost or request.begun) and not TOOLS[request.tool]:
            raise ApplicationError(f"the worker of {request.tool} was lost", type=OUTCOME_UNKNOWN, non_retryable=True)
        return self.make_effect(request)

    def make_effect(self, request: ToolRequest) -> Completed | Interrupted:
        """Do what a tool does."""
        key = request.tool, request.address
        if request.tool == BROKEN:
            raise ApplicationError("it is broken", type="tool_error", non_retryable=True)
        if request.tool == ASKING and not request.given:
            asked = Clarification(message=f"Which of {request.address}?", options=[])
            return Interrupted(questions=[RaisedInterrupt(path="", asked=asked)], states={"": {}})
        said = [answer.content for answer in request.given.values()]
        place = "" if TOOLS[request.tool] else request.address
        result = f"{request.tool} {make_digest(request.input, place, said)[:6]}"
        if not TOOLS[request.tool]:
            self.effects[key] += 1
            self.results[key] = result
        return Completed(result=result)


def _describe(tool: str) -> ToolSpec:
    return ToolSpec(name=tool, description=tool, parameters=_PARAMETERS, reference=tool)


def succeed(value: object) -> ActivityResolution:
    """Return the result of an activity."""
    resolution = ActivityResolution()
    resolution.completed.result.CopyFrom(pack(value))
    return resolution


def fail(error: ApplicationError) -> ActivityResolution:
    """Return the failure of an activity."""
    resolution = ActivityResolution()
    resolution.failed.failure.CopyFrom(encode_failure(error, activity=True))
    return resolution


def cancel() -> ActivityResolution:
    """Return the end of an activity that was cancelled."""
    resolution = ActivityResolution()
    resolution.cancelled.failure.CopyFrom(encode_failure(CancelledError("cancelled"), activity=True))
    return resolution


def _is_of_end(question: Question) -> bool:
    """Return whether a question is asked by what is done at an end in any case."""
    return any(part in question.address for part in (";undo:", FINALLY))


def _count_attempts(call: Call, name: str) -> int:
    """Return how often a call may fail before it fails for good; 1 where it never fails or may not run twice."""
    type_ = {"call_model": ModelRequest, "call_tool": ToolRequest}.get(name)
    if type_ is None:
        return 1
    request = unpack(call.command.arguments[0], type_)
    repeatable = name == "call_model" or TOOLS[request.tool]
    return int(request.retry.attempts) if repeatable else 1


class World:
    """Everything outside of the workflows. It makes the moves that are not the server's own."""

    def __init__(self, events: Sequence[tuple[str, str]], activities: Activities | None = None) -> None:
        """`events` are those that other systems send, each a name and a key; `activities` may have done things."""
        self.server = Server(self)
        self.activities = activities or Activities()
        self.problems: list[str] = []
        self.receipts: dict[str, str] = {}
        """Who was told that their answer counts, by the id of the question."""
        self.too_late: set[str] = set()
        """Ids of questions that were closed when an answer came."""
        self.cancelled = False
        self.broken_at: str | None = None
        """The address of a call that has failed for good."""
        self.paused = False
        self._known: dict[str, tuple[str, Question]] = {}
        """Open questions that people know of, with the workflow that asks, by id."""
        self._settled: set[str] = set()
        """Questions that were answered, as far as people know."""
        self._votes: dict[str, set[str]] = {}
        """Who has answered a question that several must answer, by its id."""
        self._delivered: set[str] = set()
        """Ids of the activities that have delivered an event."""
        self._on_their_way: set[str] = set()
        """Ids of those whose update has no answer yet."""
        self._numbers = iter(range(1, 1_000_000))
        self._to_send = list(events)
        self._steering = False
        self._denied: set[str] = set()
        """Where people have denied a call of a tool."""

    def start(self, definition: Definition, input_: JSON) -> None:
        """Start the run; `definition` says what it goes on from, if it does."""
        state = PipelineState(input=input_)
        start = InitializeWorkflow(workflow_type="Pipeline", arguments=[pack(definition), pack(state)])
        self.server.start(RUN, start)

    @property
    def broke(self) -> bool:
        """Whether a call has failed for good."""
        return self.broken_at is not None

    @property
    def root(self) -> Run:
        return self.server.current[RUN]

    # What the server asks

    def note_closed(self, run: Run) -> None:
        """Look at a history that has just ended: no tool may still be at work in it."""
        for call in run.calls.values():
            if call.command.activity_type == "call_tool":
                self.problems.append(f"{run.id} has ended ({run.closed}) while a tool may be at work")
        self._known = {id_: known for id_, known in self._known.items() if known[0] != run.id}

    def run_local(self, call: ScheduleLocalActivity, *, failing: bool = False) -> ActivityResolution:
        """Run a local activity, as often as it is handed out; a failing one is made again as an ordinary one."""
        if failing:
            return fail(ApplicationError("it failed", type="tool_error", next_retry_delay=timedelta(seconds=1)))
        return self.activities.run(call.activity_type, call.arguments[0])

    # Moves: the plain ones are the first of each list

    def list_call_moves(self, call: Call) -> list[Move]:
        """Return how an activity may go on."""
        if call.command.activity_id in self._on_their_way:
            return []
        name, where = call.command.activity_type, f"{call.run.id} {call.command.activity_type}"
        moves = [Move("finish", where, lambda: self._finish(call))]
        if call.cancel_requested:
            moves.insert(0, Move("stop", where, lambda: self.server.resolve(call, cancel())))
        moves.append(Move("lose worker", where, lambda: self._lose(call)))
        moves.append(Move("lose result", where, lambda: self._lose_result(call)))
        if self._may_fail(call, name):
            moves.append(Move("fail once", where, lambda: self._fail_once(call)))
        if not self.broke and name in ("call_model", "call_tool") and not self._is_unknown(call):
            moves.append(Move("fail for good", where, lambda: self._fail_for_good(call)))
        return moves

    def _is_unknown(self, call: Call) -> bool:
        """Return whether nobody knows if a tool that may not run twice has acted: a worker of it was lost."""
        if call.command.activity_type != "call_tool":
            return False
        request: ToolRequest = unpack(call.command.arguments[0], ToolRequest)
        return not TOOLS[request.tool] and (request.begun or call.attempt - 1 > call.failures)

    def _may_fail(self, call: Call, name: str) -> bool:
        if call.attempts is None:
            call.attempts = _count_attempts(call, name)
        return call.failures + 1 < call.attempts

    def _fail_once(self, call: Call) -> None:
        call.attempt += 1
        call.failures += 1

    def _fail_for_good(self, call: Call) -> None:
        self.broken_at = str(json.loads(call.command.arguments[0].data)["address"])
        self.server.resolve(call, fail(ApplicationError("it is down", type="tool_error", non_retryable=True)))

    def _lose_result(self, call: Call) -> None:
        self._act(call)
        self._lose(call)

    def _lose(self, call: Call) -> None:
        call.attempt += 1

    def _act(self, call: Call) -> None:
        """Have the effect of a call whose result is lost."""
        if call.command.activity_type == DELIVER_EVENT:
            self._deliver(call, lambda status: None)
        if call.command.activity_type != "call_tool":
            return
        self._check_consent(call)
        request = unpack(call.command.arguments[0], ToolRequest)
        was_lost = request.begun or call.attempt - 1 > call.failures
        if request.tool == PAY and not was_lost:
            self.activities.make_effect(request)

    def _finish(self, call: Call) -> None:
        if call.command.activity_type == DELIVER_EVENT:
            self._deliver(call, lambda status: self.server.resolve(call, succeed(DeliveryResult(status=status))))
            return
        self._check_consent(call)
        lost = call.attempt - 1 > call.failures
        result = self.activities.run(call.command.activity_type, call.command.arguments[0], lost=lost)
        self.server.resolve(call, result)

    def _check_consent(self, call: Call) -> None:
        """Note a problem where a tool is called that a person has denied."""
        if call.command.activity_type == "call_tool" and self._denied:
            request = unpack(call.command.arguments[0], ToolRequest)
            if request.address in self._denied:
                self.problems.append(f"{request.tool} is called at {request.address}, where a person has denied it")

    def list_foreign_moves(self) -> list[Move]:
        """Return the ends of workflows that are not ours."""
        return [
            Move("end", run.id, lambda run=run: self.server.finish_foreign(run, pack(f"done {run.id}")))  # type: ignore[misc]
            for run in self.server.foreign
        ]

    # People

    def look(self) -> None:
        """Have people look at what asks anew, as clients do: by search attributes, then by a query."""
        for run in self.server.runs:
            if run.news and not run.closed and run.answers_queries:
                run.news = False
                self._look_at(run)

    def _look_at(self, run: Run) -> None:
        self._known = {id_: known for id_, known in self._known.items() if known[0] != run.id}
        if not run.attributes.get(QUESTIONS_ATTRIBUTE, Payload()).data:
            return
        view: WorkflowView = unpack(self.server.query(run, VIEW), WorkflowView)
        for question in view.questions:
            if question.id not in self._settled:
                self._known[question.id] = run.id, question

    def list_answer_moves(self) -> list[Move]:
        """Return the answers that may be given next."""
        return [
            Move("answer", question.address, lambda id_=id_: self._answer(id_))  # type: ignore[misc]
            for id_, question in self._list_answerable()
        ]

    def _list_answerable(self) -> list[tuple[str, Question]]:
        """Return the questions that people answer, by id: once the run is cancelled, only what its end asks."""
        known = [(id_, question) for id_, (_, question) in self._known.items()]
        known = [(id_, question) for id_, question in known if not question.message.startswith(NOBODY)]
        return [(id_, question) for id_, question in known if not self.cancelled or _is_of_end(question)]

    def list_rival_moves(self) -> list[Move]:
        """Return answers that come by signal, twice, or from two people at once."""
        moves: list[Move] = []
        for id_, question in self._list_answerable():
            where = question.address
            moves.append(Move("nonsense", where, lambda id_=id_: self._send_nonsense(id_)))  # type: ignore[misc]
            if question.quorum > 1:
                continue
            moves.append(Move("answer again", where, lambda id_=id_: self._answer_again(id_)))  # type: ignore[misc]
            moves.append(Move("answer by two", where, lambda id_=id_: self._answer(id_, "ana", "ben")))  # type: ignore[misc]
            if not question.assignees and not question.not_by:  # of those a signal is not taken
                moves.append(Move("answer by signal", where, lambda id_=id_: self._signal(id_)))  # type: ignore[misc]
        return moves

    def _answer(self, id_: str, *people: str) -> None:
        workflow, question = self._known.pop(id_)
        self._settled.add(id_)
        content = self.choose_content(question)
        for by in people or (self._choose_voter(id_),):
            self._votes.setdefault(id_, set()).add(by)
            key = f"key-{next(self._numbers)}"
            batch = AnswerBatch(answers=[Answer(question=id_, content=content)], by=f"user:{by}", key=key)
            self._send(workflow, ANSWER, pack(batch), self._hear(workflow, question, f"user:{by}", people), key)

    def _choose_voter(self, id_: str) -> str:
        """Return who answers next: of a question that several must answer somebody else."""
        return next(name for name in ("ana", "ben", "sue") if name not in self._votes.get(id_, ()))

    def _answer_again(self, id_: str) -> None:
        """Send an answer twice under one key, as a client does that has heard nothing: both get the same receipt."""
        workflow, question = self._known.pop(id_)
        self._settled.add(id_)
        key = f"key-{next(self._numbers)}"
        answer = Answer(question=id_, content=self.choose_content(question))
        batch = AnswerBatch(answers=[answer], by="user:ana", key=key)
        for n in range(2):
            self._send(workflow, ANSWER, pack(batch), self._hear(workflow, question, "user:ana", ()), f"{key}-{n}")

    def _send(self, workflow: str, name: str, argument: Payload, told: Callable[[str, Any], None], key: str) -> None:
        self.server.update(workflow, Update(key, name, argument, told))

    def _hear(self, workflow: str, question: Question, by: str, rivals: Sequence[str]) -> Callable[[str, Any], None]:
        def hear(how: str, what: Any) -> None:
            if how == "completed":
                [receipt] = unpack(what, list[Receipt])
                if receipt.status == "waiting_quorum":
                    self._ask_again(workflow, question.id)
                elif receipt.status == "answered":
                    other = self.receipts.setdefault(question.id, by)
                    if other != by:
                        self.problems.append(f"{question.address}: {other} and {by} were both told that they answered")
                return
            if how == "aborted":  # a client asks again under the same key, in the next history if there is one
                self._votes.get(question.id, set()).discard(by.removeprefix("user:"))
                self._ask_again(workflow, question.id)
                return
            code = getattr(decode_failure(what), "type", None)
            if how == "failed":  # an event that needs not stand in the history
                self.problems.append(f"{question.address}: an answer was let in, and then refused: {code}")
            if rivals and code in ("already_answered", "unknown_question", "run_closed"):
                return
            if code in ("run_closed", "busy"):
                self._votes.get(question.id, set()).discard(by.removeprefix("user:"))
                self._ask_again(workflow, question.id)
                return
            if code == "already_answered":
                self.too_late.add(question.id)
            elif not self.cancelled:
                self.problems.append(f"{question.address}: an answer was refused: {code}: {decode_failure(what)}")

        return hear

    def _ask_again(self, workflow: str, id_: str) -> None:
        """Have people look at a question once more, if its workflow goes on."""
        self._settled.discard(id_)
        if (run := self.server.find_open(workflow)) is not None:
            run.news = True

    def _signal(self, id_: str) -> None:
        workflow, question = self._known.pop(id_)
        self._settled.add(id_)
        batch = AnswerBatch(answers=[Answer(question=id_, content=self.choose_content(question))], by="user:sue")
        self.server.signal(workflow, ANSWER, pack(batch))

    def _send_nonsense(self, id_: str) -> None:
        workflow, _ = self._known[id_]
        number = next(self._numbers)

        def hear(how: str, what: Any) -> None:
            if how == "completed":
                self.problems.append("an answer that nobody can read was accepted")

        self._send(workflow, ANSWER, pack({"answers": [{"question": "no such question"}]}), hear, f"nonsense-{number}")

    def choose_content(self, question: Question) -> JSON:
        """Return what people answer to a question."""
        asked = question.asked
        if asked.is_breakpoint:  # its answer is told from those of others by what it leaves in the context
            return {**question.info, make_digest(question.address, question.message)[:8]: "stopped"}
        if asked.is_pause:
            return None
        if asked.verdicts:
            return {"verdict": "unchanged"}
        if asked.kind == "judgement" and "action" in question.requestedSchema["properties"]:
            return {"action": "skip"}
        info = question.info if isinstance(question.info, dict) else {}
        if asked.kind == "permission" and "done" in info:  # an earlier plan has done it
            return {"granted": False}
        if asked.kind == "lost_call":
            key = str(info.get("tool")), str(question.address)
            if key in self.activities.results:
                return {"outcome": "done", "result": self.activities.results[key]}
            return {"outcome": "retry"}
        content = make_value(question.requestedSchema, str(question.address))
        if asked.kind == "permission" and isinstance(content, dict):
            if f";tool:{RING}:" in question.address:
                return {"granted": True, "scope": "run"}
            if not content["granted"]:
                self._denied.add(question.address)
        return content

    # Other systems

    def list_event_moves(self) -> list[Move]:
        """Return the events that other systems may send next."""
        early = [event for event in self._to_send if event[0] != LATE]
        return [Move("send", key, partial(self._send_event, name, key)) for name, key in early[:1]]

    def list_late_moves(self) -> list[Move]:
        """Return the events that may be sent only now: a step waits for them, as the run's view says."""
        late = [event for event in self._to_send if event[0] == LATE]
        if not late or self.root.closed or not self.root.answers_queries:
            return []
        view: WorkflowView = unpack(self.server.query(self.root, VIEW), WorkflowView)
        waiting = {question.asked.awaits for question in view.events}
        return [
            Move("send late", key, partial(self._send_event, name, key)) for name, key in late if (name, key) in waiting
        ]

    def _send_event(self, name: str, key: str) -> None:
        self._to_send.remove((name, key))
        event = SystemEvent(name=name, key=key, payload=f"paid {key}", id=f"{name}-{key}")

        def hear(how: str, what: Any) -> None:
            if how in ("rejected", "failed") and not self.cancelled:
                self.problems.append(f"the event {key} was refused: {decode_failure(what)}")

        self._send(RUN, SEND_EVENT, pack(event), hear, f"event-{next(self._numbers)}")

    def _deliver(self, call: Call, told: Callable[[DeliveryStatus], None]) -> None:
        """Send an event that the run keeps to the workflow that has claimed it, as an activity does."""
        delivery: DeliveryRequest = unpack(call.command.arguments[0], DeliveryRequest)
        id_ = call.command.activity_id

        def hear(how: str, what: Any) -> None:
            self._on_their_way.discard(id_)
            if how == "completed":
                self._delivered.add(id_)
            elif how == "aborted" and self.server.find_open(delivery.owner) is not None:
                return  # it goes on in a new history: the activity tries again
            code = getattr(decode_failure(what), "type", None) if how in ("rejected", "failed") else None
            is_refused = code is not None and code not in NOT_AWAITED
            told("taken" if id_ in self._delivered else "refused" if is_refused else "not_awaited")

        self._on_their_way.add(id_)
        self._send(delivery.owner, SEND_EVENT, pack(delivery.event), hear, f"delivery-{next(self._numbers)}")

    # Whoever steers the run

    def list_steering_moves(self) -> list[Move]:
        """Return what may be commanded to the run."""
        if self._steering or self.root.closed or self.cancelled:
            return []
        return [Move("pause", RUN, lambda: self._steer(PAUSE)), Move("pause by signal", RUN, self._pause_by_signal)]

    def list_resuming_moves(self) -> list[Move]:
        """Return the end of a pause, where nothing else can happen; every workflow knows of the pause by then."""
        if not self.paused or self._steering or self.root.closed:
            return []
        for run in self.server.runs:
            if run.closed or run in self.server.foreign or not run.answers_queries:
                continue
            status = unpack(self.server.query(run, VIEW), WorkflowView).status
            if status != "paused":
                self.problems.append(f"the run is paused, and {run.id} is {status}")
        return [Move("resume", RUN, lambda: self._steer(RESUME))]

    def _steer(self, command: str) -> None:
        self._steering = True

        def hear(how: str, what: Any) -> None:
            self._steering = False
            if how == "completed":
                self.paused = command == PAUSE
            elif how != "aborted" and not self.cancelled:
                self.problems.append(f"{command} was refused: {decode_failure(what)}")

        self._send(RUN, command, pack({"key": f"steer-{next(self._numbers)}"}), hear, f"steer-{next(self._numbers)}")

    def _pause_by_signal(self) -> None:
        self.server.signal(RUN, PAUSE, None)
        self.paused = True

    def list_last_moves(self) -> list[Move]:
        """Return the cancel of a run that would wait for ever: the winner of a race has failed, and nobody answers."""
        for_nobody = any(question.message.startswith(NOBODY) for _, question in self._known.values())
        if not self.broke or not for_nobody or self.cancelled or self.root.closed:
            return []
        return [Move("give up", RUN, self.cancel_run)]

    def cancel_run(self) -> None:
        """Have somebody cancel the run."""
        self.cancelled = True
        self.server.cancel(RUN)
