"""Write a run down as a test of its blueprint: input, replies of models and tools, answers, and how it ended.

`holdfast test --from RUN` writes it into a file. What a test cannot say is told in `RecordedCase.notes`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from glob import escape
from operator import attrgetter

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.kinds import Blueprint
from holdfast.blueprint.questions import asks_people
from holdfast.blueprint.questions.secret import reference_in
from holdfast.client.events import below
from holdfast.client.history import read_input, started_with
from holdfast.client.outcomes import outcome_so_far
from holdfast.client.past_runs import FREE_COMMANDS
from holdfast.client.places import describe_place
from holdfast.client.run_histories import Call, ChildRun, Histories
from holdfast.client.states import Outcome, RunState
from holdfast.client.tree import Tree
from holdfast.client.whole_runs import WholeRunReader
from holdfast.protocol import agents
from holdfast.protocol.address import INSIDE, Address, is_within, name_at, parts, segment
from holdfast.protocol.agents import CacheHit, Completed, ModelReply, ModelRequest, ToolRequest
from holdfast.protocol.events import Event, QuestionAsked, is_beginning
from holdfast.protocol.past import Past, PastFailure, PastReply
from holdfast.protocol.tool_errors import OUTCOME_UNKNOWN, TOOL_ERROR
from holdfast.runtime.errors import BadInput

EVENT_KEYS = {"name", "key", "payload", "id"}
"""The keys of an accepted event."""
STAND_IN = "not-the-secret"
"""What a test answers in place of a secret."""
NO_RESULT = "it had no result when the run became a test"
"""The error of a tool whose only call was under way when the run ended: a test must not really call it."""
BESIDE = ("branch", "map", "plan", "tool")
"""Kinds of segments below which things are done at once, or in another order when a run goes on from another one."""


@dataclass(frozen=True)
class RecordedCase:
    """A run as a test."""

    blueprint: Blueprint
    """That of the run."""
    case: JSONObject
    """The test, as it stands under `tests`."""
    notes: list[str]
    """What the test does not have of the run, each with its place."""


@dataclass(frozen=True)
class _RecordedReply:
    """What a model replied."""

    step: str
    address: str
    n: int
    value: JSON


@dataclass(frozen=True)
class _RecordedCall:
    """A call of a tool, of a function, or of a workflow of the author's own."""

    tool: str
    address: str
    at: datetime
    arguments: JSON
    result: JSON
    """As a test has it: a value, `{output: …}` or `{error: text}`, with the error's type where it has its own."""
    is_workflow: bool = False
    """True for one that Temporal retries, so that there may be more of them than the history tells."""


class CaseRecorder:
    """Writes one run down, by `record`."""

    def __init__(self, tree: Tree, state: RunState) -> None:
        self._tree, self._state = tree, state
        self._runs = [state.run]
        """The run, and those that it goes on from."""
        self._histories = Histories(tree, state.run)
        self._replies: list[_RecordedReply] = []
        self.calls: list[_RecordedCall] = []
        self.answers: list[PastReply] = []
        self._blueprint: Blueprint
        self._interrupted: list[str] = []
        """Where tools asked people in the middle of their work."""
        self._without_result: list[str] = []
        """Tools of which a call was under way when the run ended."""
        self._asked: dict[str, Event] = {}
        """By their ids the questions of the run, and those whose answers it met, in their order."""
        self._reports: set[str] = set()
        """The ids of the questions that ask how a lost call ended: in a test, too, a person says so."""
        self._notes: list[str] = []

    async def record(self, name: str) -> RecordedCase:
        """Return the run as a test.

        Args:
            name: The name of the test.

        Raises:
            BadInput: The run still works, was ended from outside, is a fork with changed values, is a workflow of its
                author's own, or Temporal has forgotten a part of it.
        """
        run, state = self._state.run, self._state
        definition = await started_with(self._tree.client, await self._tree.describe(run))
        self._check(definition.past)
        self._blueprint = definition.blueprint
        await self._read()
        input_ = (await read_input(self._tree.client, run)).input
        answers, tools, model = self.write_answers(), self.write_tools(), self._write_model()
        outcome = await outcome_so_far(self._tree, state)
        parts_ = {"by": definition.started_by, "input": input_, "model": model, "tools": tools, "answers": answers}
        case = {"name": name, **{key: value for key, value in parts_.items() if value not in (None, {}, [])}}
        case["expect"] = self._expect(outcome)
        return RecordedCase(definition.blueprint, case, self._notes)

    def _check(self, past: Past | None) -> None:
        run, status = self._state.run, self._state.status
        if past is not None and past.fork is not None and (past.fork.changes or past.fork.input):
            raise BadInput(f"{run} was begun with values changed at {past.fork.address}, which a test cannot do")
        if status in ("running", "paused") and not [*self._state.questions, *self._state.events]:
            is_at = "is paused" if status == "paused" else "still works"
            raise BadInput(f"{run} {is_at}: a test is written from a run that has ended, or waits for a person")
        if status not in ("running", "waiting", "paused", "completed", "failed"):
            raise BadInput(f"{run} was ended from outside ({status}), which a test cannot do")

    async def _read(self) -> None:
        whole = await WholeRunReader(self._tree, self._state.run).read()
        self._runs += whole.past
        for history in whole.histories:
            whole.calls += history.calls.values()
            whole.own_children += [child for child in history.children if child.is_own]
            self.answers += (await self._histories.read_waits(history)).replies
            for command in sorted(history.commands & FREE_COMMANDS.keys()):
                what = f"somebody {FREE_COMMANDS[command]} while it ran, which a test cannot do"
                self._notes.append(f"{history.workflow}: {what}")
        for question in self._state.questions:
            if question.answers_so_far:
                accepted = f"{question.answers_so_far} of {question.quorum} have accepted"
                self._notes.append(f"{name_at(question.address)}: {accepted}, which the test leaves out")
        for call in whole.calls:
            await self._take_call(call)
        for child in whole.own_children:
            await self._take_own(child)
        self.calls.sort(key=attrgetter("at"))
        self.answers.sort(key=attrgetter("at"))
        self._asked = await self._list_asked()
        self._reports = {id_ for call in self.calls if (id_ := self._find_report(call)) is not None}

    def _find_report(self, call: _RecordedCall) -> str | None:
        """Return the id of the question how a call ended: the next one at its place, if the call was lost."""
        if not isinstance(call.result, dict) or call.result.get("type") != OUTCOME_UNKNOWN:
            return None
        asked = self._asked.items()
        return next((id_ for id_, event in asked if event.address == call.address and event.time > call.at), None)

    async def _take_local(self, call: Call) -> None:
        """Take a local call, of which the history has the address, but no request."""
        if call.activity == agents.CALL_MODEL and call.status == "completed":
            step = next(name for kind, name, _ in reversed(parts(call.address)) if kind != "turn")
            place = _make_pattern(call.address)
            n = 1 + sum((reply.step, _make_pattern(reply.address)) == (step, place) for reply in self._replies)
            value = ModelReply.model_validate(await self._histories.decode(call.result))
            self._replies.append(_RecordedReply(step, call.address, n, _write_reply(value)))
        elif call.activity == agents.CALL_TOOL:
            self._notes.append(f"{call.address}: a local tool, which the test calls")

    async def _take_call(self, call: Call) -> None:
        if call.request is None and call.activity != agents.CACHE_GET:
            await self._take_local(call)
            return
        match call.activity, call.status:
            case agents.CALL_MODEL, "completed":
                self._take_reply(
                    ModelRequest.model_validate(await self._histories.decode(call.request)),
                    ModelReply.model_validate(await self._histories.decode(call.result)),
                )
            case agents.CALL_TOOL, _:
                await self._take_tool(call, ToolRequest.model_validate(await self._histories.decode(call.request)))
            case agents.CACHE_GET, "completed":
                hit = CacheHit.model_validate(await self._histories.decode(call.result))
                if hit.found:
                    self._notes.append("an output came from the cache, which a test begins without: add what made it")
            case agents.CALL_MODEL, "failed":
                request = ModelRequest.model_validate(await self._histories.decode(call.request))
                self._notes.append(f"{request.step}: a request to {request.model} failed, which no script can say")

    def _take_reply(self, request: ModelRequest, reply: ModelReply) -> None:
        if request.use is not None:
            self._notes.append(f"{request.step}: the agent is an object of your code, whose library asks its model")
        self._replies.append(_RecordedReply(request.step, request.address, request.n, _write_reply(reply)))

    async def _take_tool(self, call: Call, request: ToolRequest) -> None:
        arguments = request.input if request.args is None else request.args
        if request.of_agent is not None:
            self._notes.append(f"{request.address}: {request.tool} belongs to an agent of your code, and is called")
            return
        if call.status == "failed":
            result = _write_error(request.tool, await self._histories.read_failure(call.failure))
        elif call.status == "completed":
            value = await self._histories.decode(call.result)
            if "questions" in value:
                self._interrupted.append(request.address)
                return
            result = _write_result(Completed.model_validate(value).result)
        else:
            self._notes.append(f"{request.address}: {request.tool} was under way when the run ended")
            self._without_result.append(request.tool)
            return
        self.calls.append(_RecordedCall(request.tool, request.address, call.at, arguments, result))

    async def _take_own(self, child: ChildRun) -> None:
        arguments = await self._histories.decode(child.arguments[0] if child.arguments else None)
        if child.status == "completed":
            result = _write_result(await self._histories.decode(child.result))
        elif child.status == "failed":
            result = {"error": (await self._histories.read_failure(child.failure)).message}
        else:
            return
        self.calls.append(_RecordedCall(child.type, child.address, child.at, arguments, result, is_workflow=True))

    # The parts of the test

    def _write_model(self) -> JSONObject:
        """Return the replies by step; by place where a step got others in another item, branch or import."""
        by_step: dict[str, list[_RecordedReply]] = defaultdict(list)
        for reply in self._replies:
            by_step[reply.step].append(reply)
        model: JSONObject = {}
        for step, replies in by_step.items():
            if (listed := _number(replies)) is not None:
                model[step] = listed
                continue
            places: dict[str, list[_RecordedReply]] = defaultdict(list)
            for reply in replies:
                places[_make_pattern(reply.address)].append(reply)
            for place, there in places.items():
                listed = _number(there)
                model[place] = _number(there, strict=False) if listed is None else listed
                if listed is None:
                    self._notes.append(f"{step}: it got several replies under one number, of which the test has one")
        return model

    def write_tools(self) -> JSONObject:
        """Return the results by tool; with the arguments of each call where their order may be another one."""
        tools: JSONObject = {}
        for tool, calls in self._group_calls().items():
            results = [call.result for call in calls]
            if self._stand_in_line(calls) or all(result == results[0] for result in results):
                tools[tool] = _shorten(results)
            else:
                tools[tool] = [{"arguments": call.arguments, **_spell_out(call.result)} for call in calls]
        for tool in self._without_result:
            tools.setdefault(tool, [{"error": NO_RESULT}])
        if self._interrupted:
            where = ", ".join(sorted({name_at(address) for address in self._interrupted}))
            self._notes.append(f"{where}: a tool asked people in the middle of its work; the test has only its result")
        return tools

    def _group_calls(self) -> Mapping[str, Sequence[_RecordedCall]]:
        by_tool: dict[str, list[_RecordedCall]] = defaultdict(list)
        for call in self.calls:
            by_tool[call.tool].append(call)
        return by_tool

    def write_answers(self) -> list[JSON]:
        asked: dict[str, set[str]] = defaultdict(set)
        for reply in self.answers:
            asked[name_at(reply.address)].add(_make_pattern(reply.address))
        answers: list[JSON] = []
        for reply in self.answers:
            name = name_at(reply.address)
            pattern = name if len(asked[name]) == 1 and not is_glob(name) else escape(reply.address)
            answers += self._write_answer(reply, pattern)
        return answers

    def _write_answer(self, reply: PastReply, pattern: str) -> list[JSON]:
        """Return the answers that ended a question, several with a quorum; none if none did."""
        if reply.status == "superseded":
            told = "its branch had lost a race, which a test may decide in another way"
            self._notes.append(f"{name_at(reply.address)}: {told}")
        if not reply.question or self._is_inside_call(reply.address, reply.question):
            return []
        if reply.comment:
            self._notes.append(f"{name_at(reply.address)}: a comment, which answers of a test do not have")
        given = reply.answers or [{"by": reply.by, "content": reply.content}]
        match reply.status:
            case "answered":
                return [
                    {
                        "question": pattern,
                        "content": self._hide(answer["content"], reply.address),
                        **_name(answer["by"]),
                    }
                    for answer in given
                ]
            case "declined":
                return [{"question": pattern, "decline": True, **_name(reply.by)}]
            case "cancelled":
                self._notes.append(f"{name_at(reply.address)}: somebody cancelled the question, which a test cannot do")
        return []

    def _is_inside_call(self, address: str, question: str) -> bool:
        """Return whether a tool that the test stands in for asked a question."""
        if question in self._reports:
            return False
        return any(is_within(address, place) for place in self._interrupted) or any(
            kind in INSIDE for kind, _, _ in parts(address)
        )

    def _hide(self, content: JSON, address: str) -> JSON:
        """Return the content of an answer with a stand-in for each secret."""
        if reference_in(content) is not None:
            self._notes.append(f"{name_at(address)}: the secret is not written, but {STAND_IN!r} in its place")
            return STAND_IN
        if isinstance(content, dict):
            if content.keys() == EVENT_KEYS:  # its name and key are those that the step waits for
                content = {"payload": content["payload"], **({"id": content["id"]} if content["id"] else {})}
            return {key: self._hide(value, address) for key, value in content.items()}
        return content

    # What is expected

    def _expect(self, outcome: Outcome) -> JSONObject:
        expect: JSONObject = {}
        if outcome.status == "completed":
            if _holds_secret(outcome.output):
                self._notes.append("the output refers to a secret, so it is not compared")
            else:
                expect["output"] = outcome.output
        elif outcome.status == "failed" and outcome.error is not None:
            expect["error"] = {"address": escape(outcome.error.address)}
        else:
            expect["status"] = "waiting"
        if questions := self._expect_questions():
            expect["questions"] = questions
        if calls := self.expect_calls():
            expect["calls"] = calls
        return expect

    def _expect_questions(self) -> JSON:
        """Return what was asked: in its order, unless several things were done at once."""
        asked = [event for id_, event in self._asked.items() if not self._is_inside_call(event.address, id_)]
        listed: list[JSON] = [
            {"step": name_at(event.address)}
            if is_beginning(event.data.message) or self._names_run(event.data.message)
            else {"step": name_at(event.address), "message": event.data.message}
            for event in asked
            if isinstance(event.data, QuestionAsked) and asks_people(event.data.kind)
        ]
        if all(self._stands_in_line(event.address) for event in asked):
            return listed
        return {"contains": _drop_repeated(listed)}

    async def _list_asked(self) -> dict[str, Event]:
        """Return what `_asked` is."""
        counted = {reply.question for reply in self.answers}
        asked: dict[str, Event] = {}
        for run in reversed(self._runs):
            for event in await below(self._tree, run):
                if isinstance(event.data, QuestionAsked) and (run == self._state.run or event.data.id in counted):
                    asked.setdefault(event.data.id, event)
        return asked

    def _names_run(self, text: str) -> bool:
        return any(run in text for run in self._runs)

    def expect_calls(self) -> JSONObject:
        calls: JSONObject = {}
        for tool, made in self._group_calls().items():
            arguments = [call.arguments for call in made]
            if _holds_secret(arguments) or self._names_run(str(arguments)):
                continue
            is_exact = self._stand_in_line(made) and not made[0].is_workflow
            calls[tool] = arguments if is_exact else {"contains": _drop_repeated(arguments)}
        return calls

    def _stand_in_line(self, calls: Sequence[_RecordedCall]) -> bool:
        return len(calls) == 1 or all(self._stands_in_line(call.address) for call in calls)

    def _stands_in_line(self, address: str) -> bool:
        """Return whether nothing may be done beside what stands at an address, or in another order."""
        if any(kind in BESIDE for kind, _, _ in parts(address)):
            return False
        return not describe_place(self._blueprint, Address(address)).independent


def is_glob(name: str) -> bool:
    """Return whether a name would be read as a pattern."""
    return escape(name) != name


def escape_template(value: JSON) -> JSON:
    """Return a value that a template gives literally.

    >>> escape_template("{{ x }} and {% y %}")
    '{{ "{{" }} x }} and {{ "{%" }} y %}'
    """
    match value:
        case str():
            return re.sub(r"\{[{%#]", lambda match: f'{{{{ "{match[0]}" }}}}', value)
        case dict():
            return {key: escape_template(inner) for key, inner in value.items()}
        case list():
            return [escape_template(inner) for inner in value]
    return value


def _write_reply(reply: ModelReply) -> JSON:
    """Return a reply as a script has it."""
    output = escape_template(reply.output)
    calls = [{"name": call.name, "args": escape_template(call.args)} for call in reply.tool_calls]
    if not calls and reply.finish == "finished" and isinstance(output, str):
        return output
    written: JSONObject = {} if output is None and calls else {"output": output}
    if calls:
        written["tool_calls"] = calls
    return written if reply.finish == "finished" else {**written, "finish": reply.finish}


def _write_result(result: JSON) -> JSON:
    """Return a result as a test has it: an object would be read as one with keys of its own."""
    return {"output": result} if isinstance(result, dict) else result


def _write_error(tool: str, failure: PastFailure) -> JSON:
    """Return the failure of a call as a test has it: without the type and the beginning that it gets anyhow."""
    message = failure.message.removeprefix(f"{tool}: ")
    is_plain = failure.type == TOOL_ERROR and message != failure.message
    return {"error": message} if is_plain else {"error": failure.message, "type": failure.type}


def _spell_out(result: JSON) -> JSONObject:
    return result if isinstance(result, dict) else {"output": result}


def _number(replies: Iterable[_RecordedReply], strict: bool = True) -> list[JSON] | None:
    """Return replies by their numbers; None if two differ under one number.

    A number without a reply (a request that failed) gets the next one: it does not come to it again.
    """
    by_number: dict[int, JSON] = {}
    for reply in replies:
        if strict and by_number.setdefault(reply.n, reply.value) != reply.value:
            return None
        by_number.setdefault(reply.n, reply.value)
    numbers = sorted(by_number)
    listed = [by_number[next(there for there in numbers if there >= n)] for n in range(1, numbers[-1] + 1)]
    return _shorten(listed)


def _shorten(values: list[JSON]) -> list[JSON]:
    """Return a list without its last values as far as they repeat: the last one does so anyhow."""
    while len(values) > 1 and values[-1] == values[-2]:
        values = values[:-1]
    return values


def _make_pattern(address: str) -> str:
    """Return a glob for an address and the same place in other iterations."""
    segments = [
        f"{escape(segment(kind, name))}:*" if kind == "loop" and sub is not None else escape(whole)
        for whole, (kind, name, sub) in zip(address.split(";"), parts(address), strict=True)
    ]
    return ";".join(segments)


def _drop_repeated(values: Sequence[JSON]) -> list[JSON]:
    return [value for n, value in enumerate(values) if value not in values[:n]]


def _name(by: JSON) -> JSONObject:
    return {} if by is None else {"by": by}


def _holds_secret(value: JSON) -> bool:
    match value:
        case dict():
            return any(map(_holds_secret, value.values()))
        case list():
            return any(map(_holds_secret, value))
    return reference_in(value) is not None
