"""Agents of pydantic-ai as a team has them, with the features that its documentation shows; brought in by `from`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic_ai import (
    Agent,
    ApprovalRequired,
    CallDeferred,
    DeferredToolRequests,
    ModelRetry,
    RunContext,
    Tool,
    ToolDefinition,
    ToolReturn,
)
from pydantic_ai.capabilities import (
    AbstractCapability,
    Hooks,
    Instrumentation,
    NativeTool,
    PrefixTools,
    PrepareTools,
    ProcessHistory,
    Thinking,
    Toolset,
)
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    NativeToolCallPart,
    NativeToolReturnPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.native_tools import WebSearchTool
from pydantic_ai.toolsets import ExternalToolset, FunctionToolset

from holdfast import Interrupt, report_usage, resumed
from holdfast import agent as agent_function
from tests.tools import count


@dataclass
class Bank:
    """What the tools work with: a folder in which calls are counted."""

    folder: Path
    customer: str


class Advice(BaseModel):
    advice: str
    block_card: bool


@asynccontextmanager
async def bank(input: str) -> AsyncIterator[Bank]:
    """The dependencies, from the input `FOLDER CUSTOMER`."""
    folder, _, customer = input.partition(" ")
    yield Bank(Path(folder), customer)
    count(folder, "closed")


support = Agent(
    "test",
    deps_type=Bank,
    output_type=[Advice, DeferredToolRequests],
    instructions="Be short.",
    system_prompt="You work for a bank.",
    retries={"tools": 2, "output": 2},
)


@support.system_prompt
def greet(ctx: RunContext[Bank]) -> str:
    count(str(ctx.deps.folder), "greet")
    return f"The customer is {ctx.deps.customer}."


@support.instructions
async def remind(ctx: RunContext[Bank]) -> str:
    return f"This is step {ctx.run_step}."


@support.tool
def balance(ctx: RunContext[Bank], pending: bool) -> str:
    """Return the balance."""
    count(str(ctx.deps.folder), "balance")
    return f"{ctx.deps.customer} has 123.45{' pending' if pending else ''}"


@support.tool(requires_approval=True)
def refund(ctx: RunContext[Bank], amount: int) -> str:
    """Refund an amount."""
    count(str(ctx.deps.folder), "refund")
    return f"refunded {amount}"


@support.tool
def transfer(ctx: RunContext[Bank], amount: int) -> str:
    """Transfer an amount."""
    if amount > 100 and not ctx.tool_call_approved:
        raise ApprovalRequired(metadata={"reason": "large"})
    count(str(ctx.deps.folder), "transfer")
    return f"transferred {amount}"


@support.tool
def appraise(ctx: RunContext[Bank], item: str) -> int:
    """Have an item appraised."""
    count(str(ctx.deps.folder), "appraise")
    raise CallDeferred(metadata={"item": item})


@support.tool
def guess(ctx: RunContext[Bank], number: int) -> str:
    """Guess a number."""
    if number != 7:
        raise ModelRetry(f"not {number}, try {ctx.retry}")
    return f"right after {ctx.retry}"


@support.tool
def look(ctx: RunContext[Bank]) -> str:
    """Tell what the context is."""
    kinds = "".join(message.kind[2] for message in ctx.messages)
    return f"{ctx.prompt!r} {ctx.run_step} {kinds} {ctx.usage.requests} {ctx.usage.tool_calls} {ctx.run_id}"


@support.tool
async def give_up(ctx: RunContext[Bank]) -> None:
    """Cancel the run."""
    ctx.cancel()
    await asyncio.sleep(0)


@support.tool
def add_note(ctx: RunContext[Bank]) -> None:
    """Add a message for the model by the run's queue."""
    ctx.enqueue("a note")


@support.tool
def pick(ctx: RunContext[Bank]) -> str:
    """Ask a person by an interrupt."""
    picked = resumed(str)
    if not picked.has_data:
        raise Interrupt("Which one?", state=count(str(ctx.deps.folder), "picked"))
    return str(picked.data)


@support.output_validator
async def careful(ctx: RunContext[Bank], advice: Advice) -> Advice:
    count(str(ctx.deps.folder), "careful")
    if advice.advice == "bad":
        raise ModelRetry(f"better advice, please ({ctx.retry})")
    return advice


def plain_add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def shown(url: str) -> ToolReturn[str]:
    """Show a page."""
    return ToolReturn(return_value="shown", content=["This is the page ", url], metadata={"url": url})


plain = Agent(
    "test",
    toolsets=[
        FunctionToolset([plain_add, Tool(shown, sequential=True)]).prefixed("t"),
        ExternalToolset([ToolDefinition(name="ask_office", parameters_json_schema={"type": "object"})]),
    ],
)
no_model = Agent()
bare = Agent("test")
thinker = Agent("test", tools=[Tool(plain_add, requires_approval=True)], capabilities=[Thinking(effort="high")])


def admin_reset(reason: str) -> str:
    """Reset everything."""
    return f"reset: {reason}"


def admin_first(ctx: RunContext[None], tools: list[ToolDefinition]) -> list[ToolDefinition]:
    """Offer the tools of administrators in the first step only."""
    return [tool for tool in tools if ctx.run_step == 1 or not tool.name.startswith("admin_")]


async def described(ctx: RunContext[None], tools: list[ToolDefinition]) -> list[ToolDefinition]:
    """Tell in each description which step it is for."""
    return [replace(tool, description=f"For step {ctx.run_step}.") for tool in tools]


def late(ctx: RunContext[None], tool: ToolDefinition) -> ToolDefinition | None:
    """Offer a tool from the second step on."""
    return tool if ctx.run_step > 1 else None


changing = Agent("test", toolsets=[FunctionToolset([Tool(admin_reset, prepare=late), plain_add]).prefixed("d")])


@changing.toolset
def of_the_run(ctx: RunContext[None]) -> FunctionToolset[None]:
    return FunctionToolset([shown])


prepared = Agent("test", tools=[admin_reset, plain_add], capabilities=[PrepareTools(admin_first)])
prepared_toolset = Agent("test", toolsets=[FunctionToolset([admin_reset, plain_add]).prepared(described)])
hooked = Agent("test", capabilities=[Hooks(), PrefixTools(wrapped=Hooks(), prefix="h")], max_concurrency=3)


def tells_what_it_got(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Call a tool, and then tell how many messages there were."""
    if not isinstance(messages[-1].parts[-1], ToolReturnPart):
        searched = [
            NativeToolCallPart("web_search", {"query": "sum"}, "n1"),
            NativeToolReturnPart("web_search", "found", "n1"),
        ]
        calls = [ToolCallPart(tool.name, {"a": 1, "b": 2}, "c1") for tool in info.function_tools]
        return ModelResponse(parts=[*(searched if info.model_request_parameters.native_tools else []), *calls])
    kinds = [type(part).__name__ for message in messages for part in message.parts]
    return ModelResponse(parts=[TextPart(f"{len(messages)} {' '.join(kinds)}")])


def telling(capability: AbstractCapability[None], *tools: Any) -> Agent[None, str]:
    return Agent(FunctionModel(tells_what_it_got), tools=tools, capabilities=[capability])


shortens = telling(ProcessHistory(lambda messages: messages[-2:]), plain_add)
instrumented = telling(Instrumentation(), plain_add)
searches = telling(NativeTool(WebSearchTool()), plain_add)
prefixes = telling(PrefixTools(wrapped=Toolset(FunctionToolset([plain_add])), prefix="math"))


async def delegate(ctx: RunContext[None], question: str) -> str:
    """Ask another agent."""
    return (await Agent(TestModel(custom_output_text="yes")).run(question, usage=ctx.usage)).output


delegates = Agent(TestModel(), tools=[delegate])


class Foreign:
    """An agent of another library: some of them can be called."""

    def __call__(self, question: str) -> str:
        return question


not_an_agent = Foreign()


@agent_function
async def metered(question: str) -> str:
    """A function that says what its own requests to models took, one of them in a thread."""
    report_usage("openai:gpt-4o", input_tokens=1_000_000)
    await asyncio.to_thread(report_usage, "nobody:knows", requests=2, output_tokens=7)
    return question


@agent_function
def prophet(question: str) -> str:
    """A function that is an agent."""
    return f"42 is the answer to {question}"
