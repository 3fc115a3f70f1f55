"""The workflow of a clarification: one question after the other, until an object fits its schema."""

from __future__ import annotations

from temporalio import workflow

from holdfast.blueprint.amounts import say_count
from holdfast.blueprint.expressions.error import ExpressionError
from holdfast.blueprint.expressions.values import write_text
from holdfast.blueprint.json_values import JSONObject
from holdfast.blueprint.jsonschemas import list_misfits, misfit
from holdfast.blueprint.kinds import Agent, Clarify
from holdfast.blueprint.parts import Option
from holdfast.blueprint.questions import Asked, Clarification, Fact, Input, Review
from holdfast.protocol.agents import Message, ModelRequest
from holdfast.protocol.children import ClarifyDefinition, ClarifyResult, ClarifyState
from holdfast.protocol.names import CLARIFY_WORKFLOW
from holdfast.protocol.values import Value
from holdfast.workflows.agents import AgentCall, ask_model
from holdfast.workflows.failures import failure
from holdfast.workflows.frame import ContextStore, Frame, Scope
from holdfast.workflows.limits import ExhaustedLimit
from holdfast.workflows.replies import Reply, describe_reply
from holdfast.workflows.run import RunWorkflow

MOST_READINGS = 3
"""Requests to the model for one answer, if the facts that it reads do not fit."""
MOST_REJECTIONS = 10
"""Rejections of the summary after which the clarification fails."""
_TASK = """You make a goal clear by asking a person. You get the goal, the JSON Schema of the facts that are wanted, \
those that are known, those that are lacking, and what was said so far. Give: `facts`, every fact that was told, \
in the form that the schema wants; `question`, one short question for what is lacking, with `options` where they \
help; `summary`, in a sentence, once nothing is lacking. Never ask what is known, and nothing twice."""
_READ = {
    "type": "object",
    "required": ["facts"],
    "properties": {
        "facts": {"type": "object"},
        "question": {"type": ["string", "null"]},
        "options": {"type": "array", "items": {"type": "string"}},
        "summary": {"type": ["string", "null"]},
    },
}


class Read(Value):
    """The facts that a model read from the conversation, and its next question."""

    facts: JSONObject = {}
    question: str | None = None
    options: list[str] = []
    summary: str | None = None


@workflow.defn(name=CLARIFY_WORKFLOW, failure_exception_types=[ExpressionError], sandboxed=False)
class ClarifyWorkflow(RunWorkflow):
    """A workflow that asks for missing facts, and takes those in the answers."""

    definition: ClarifyDefinition
    state: ClarifyState

    @workflow.init
    def __init__(self, definition: ClarifyDefinition, state: ClarifyState) -> None:
        super().__init__(definition, state)
        (self.step,) = (step for step in definition.blueprint.steps if isinstance(step, Clarify))
        self.facts: JSONObject = {}
        self.asked = 0
        self.granted = 0
        self.rejections = 0
        self.exchanges: list[JSONObject] = []
        """Questions with their answers, for the model."""
        self.questions_put: set[str] = set()
        self.reply: JSONObject | None = None
        """Who answered last, and how: the confirmation, if there is one."""
        self.wrong: dict[str, str] = {}
        """Facts that did not fit, with the reason."""

    def current_context(self) -> JSONObject:
        return {"goal": self.definition.goal, "known": self.facts}

    @workflow.run
    async def run(self, definition: ClarifyDefinition, state: ClarifyState) -> ClarifyResult:
        return await self.run_to_end(self._work(self._frame()), self._make_result)

    def _make_result(self, output: JSONObject) -> ClarifyResult:
        return ClarifyResult(output=output, reply=self.reply, **self.collect_spending())

    def _frame(self) -> Frame:
        definition = self.definition
        return self.frame(
            ContextStore({}),
            Scope(dict(definition.steps)),
            {**definition.names, "input": definition.input},
            iteration=definition.iteration,
            place=definition.place,
        )

    async def _work(self, frame: Frame) -> JSONObject:
        self._take(self.definition.known)
        self.wrong.clear()  # a given fact that does not fit is asked for like a missing one
        while True:
            read = await self._read(frame)
            if (lacking := self._list_lacking()) or self.wrong or self._find_misfit():
                if not await self._may_ask(frame):
                    return self.facts
                await self._ask_for(lacking, read, frame)
            elif not self.step.confirm or await self._confirm(read, frame):
                return self.facts

    # Facts

    def _list_lacking(self) -> list[str]:
        """Return the names of the missing facts, in the schema's order."""
        return [name for name in self.step.list_wanted() if name not in self.facts]

    def _take(self, facts: JSONObject) -> None:
        """Store the facts that fit; remember why the others do not."""
        for name, value in facts.items():
            if name not in self.step.properties():
                continue
            problem = misfit(Fact(message=name, name=name, facts=self.step.facts).value_schema, value)
            # A null that does not fit is a fact that nobody knows, and no wrong one.
            if value is None and problem:
                continue
            if problem:
                self.wrong[name] = problem
            else:
                self.facts = {**self.facts, name: value}
                self.wrong.pop(name, None)

    def _find_misfit(self) -> str | None:
        """Return the problem of the object as a whole, where every single fact fits; None without one."""
        problems = [] if self._list_lacking() else list_misfits(self.step.facts, self.facts)
        return "; ".join(f"{path}: {reason}" if path else reason for path, reason in problems) or None

    # Asking

    async def _may_ask(self, frame: Frame) -> bool:
        most = self.step.most_questions
        if self.asked < most + self.granted:
            return True
        name, lacking = self.step.name, ", ".join(self._list_lacking()) or "an object that fits"
        limit = ExhaustedLimit(
            type="max_questions",
            key="max_questions",
            address=self.address,
            then=self.step.on_max_questions,
            amount=most,
            message=f"{name}: no answer to everything in {say_count(most, 'question')}; still unknown: {lacking}",
            question=f"{say_count(self.asked, 'question')} asked about: {self.definition.goal}. Go on?",
            ended=f"{name} was ended",
            finish="Finish with what is known",
            fail="Let the step fail",
        )
        if not await frame.go_beyond(limit):
            return False
        self.granted += most
        return True

    async def _ask_for(self, lacking: list[str], read: Read | None, frame: Frame) -> None:
        """Ask one question, and store the facts in its answer."""
        question = "" if read is None or read.question is None else " ".join(read.question.split())  # in one line
        if read is not None and question and question not in self.questions_put:
            return await self._ask_in_words(read, question, frame)
        if (name := next(iter([*self.wrong, *lacking]), None)) is None:
            return await self._ask_for_all(frame)
        reply = await self._put(self._make_fact(name), name, frame)
        self.exchanges.append({"question": name, "answer": reply.content})
        self._take(reply.content)
        return None

    async def _ask_in_words(self, read: Read, question: str, frame: Frame) -> None:
        """Ask the model's question; the model reads the answer in its next request."""
        options = [Option(id=text, label=text) for text in dict.fromkeys(read.options) if text]
        asked = Clarification(message=question, options=options, info=self._describe_info())
        reply = await self._put(asked, "question", frame)
        self.questions_put.add(question)
        self.exchanges.append({"question": question, "answer": reply.content})

    async def _ask_for_all(self, frame: Frame) -> None:
        problem = self._find_misfit()
        asked = Input(
            message=f"This does not fit together: {problem}. What is it?",
            form=self.step.facts,
            info=self._describe_info(),
        )
        reply = await self._put(asked, "all", frame)
        self.facts = reply.content

    def _make_fact(self, name: str) -> Fact:
        schema = self.step.properties()[name]
        text = schema.get("description") or schema.get("title") or f"{name.replace('_', ' ').capitalize()}?"
        reason = f"{self.wrong[name]}. " if name in self.wrong else ""
        return Fact(message=f"{reason}{text}", name=name, facts=self.step.facts, info=self._describe_info())

    def _describe_info(self) -> JSONObject:
        return {"goal": self.definition.goal, **({"known": self.facts} if self.facts else {})}

    async def _put(self, asked: Asked, name: str, frame: Frame) -> Reply:
        await self.host.until_resumed()
        self.asked += 1
        reply = await frame.at("hitl", name).ask(asked)
        self.reply = describe_reply(asked, reply)
        if reply.status != "answered":
            comment = f": {reply.comment}" if reply.comment else ""
            text = f"{reply.by or 'somebody'} {reply.status} a question of {self.step.name}{comment}"
            raise failure(f"question_{reply.status}", text, self.address)
        return reply

    async def _confirm(self, read: Read | None, frame: Frame) -> bool:
        """Have a person confirm the facts; a rejection leads to more questions, or to a form with all facts."""
        summary = read.summary if read is not None and read.summary else f"Is this right? {self.definition.goal}"
        asked = Review(message=summary, payload=self.facts, payload_schema=self.step.facts)
        await self.host.until_resumed()
        reply = await frame.at("hitl", "confirm").ask(asked)
        self.reply = describe_reply(asked, reply)
        answer = reply.content if reply.status == "answered" else asked.when_declined(reply.comment)
        if answer["verdict"] != "rejected":
            self.facts = answer["payload"]
            return True
        self.rejections += 1
        if self.rejections >= MOST_REJECTIONS:
            text = f"{self.step.name}: the confirmation was rejected {MOST_REJECTIONS} times"
            raise failure("not_confirmed", text, self.address)
        reason = answer.get("reason", "")
        if self._find_agent() is None:
            await self._ask_for_changes(reason, frame)
            return False
        self.exchanges.append({"question": summary, "answer": f"No. {reason}".strip()})
        self.facts = {name: value for name, value in self.definition.known.items() if name in self.facts}
        return False

    async def _ask_for_changes(self, reason: str, frame: Frame) -> None:
        """Ask for all facts once more, prefilled; it does not count as a question."""
        properties = {
            name: {**schema, "default": self.facts[name]} if isinstance(schema, dict) and name in self.facts else schema
            for name, schema in self.step.properties().items()
        }
        form = {**self.step.facts, "properties": properties, "required": [], "additionalProperties": False}
        message = f"What should be changed? {reason}".strip()
        reply = await self._put(Input(message=message, form=form, info=self._describe_info()), "changes", frame)
        self.asked -= 1
        self._take(reply.content)

    # The agent

    def _find_agent(self) -> Agent | None:
        agent = self.step.agent
        return self.definition.blueprint.agents[agent] if isinstance(agent, str) else agent

    async def _read(self, frame: Frame) -> Read | None:
        """Have the model read the facts and suggest a question; None without an agent."""
        agent = self._find_agent()
        if agent is None:
            return None
        name = self.step.agent if isinstance(self.step.agent, str) else None
        read = Read()
        for _ in range(MOST_READINGS):
            await self.host.until_resumed()
            request = self._make_request(agent, name)
            reply = await ask_model(request, AgentCall(agent, name, self.step.name), frame, self.step.name)
            if reply.problem is not None:
                continue
            read = Read.model_validate({key: value for key, value in reply.output.items() if key in Read.model_fields})
            self.wrong.clear()
            self._take(read.facts)
            if not self.wrong:
                break
        return read

    def _make_request(self, agent: Agent, name: str | None) -> ModelRequest:
        content = {
            "goal": self.definition.goal,
            "schema": self.step.facts,
            "known": self.facts,
            "lacking": self._list_lacking(),
            "said": self.exchanges,
            **({"did_not_fit": self.wrong} if self.wrong else {}),
        }
        return ModelRequest(
            step=self.step.name,
            agent=name,
            model=agent.model,
            instructions=f"{self.definition.instructions}\n\n{_TASK}".strip(),
            messages=[Message(role="user", content=write_text(content))],
            output_schema=_READ,
            settings=agent.model_settings,
        )
