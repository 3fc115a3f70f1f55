"""A workflow of an author's own that runs an agent and a loop; alone in its module, see `tests/own_questions.py`."""

from __future__ import annotations

from pydantic import BaseModel, field_validator
from temporalio import workflow

from holdfast import HumanInTheLoop
from holdfast.build import Pipeline, agent, ask, context, step


class Letter(BaseModel):
    """What the writer gives; it must not shout."""

    to: str
    text: str

    @field_validator("text")
    @classmethod
    def _is_calm(cls, text: str) -> str:
        if text.isupper():
            raise ValueError("it shouts")
        return text


class Verdict(BaseModel):
    """What an iteration of the loop gives."""

    round: int
    said: str


WRITER = agent("writer", model="scripted:own_author.yaml", output=Letter)
LOUD = agent("loud", model="scripted:own_author.yaml", output=Letter)
CLERK = agent("clerk", model="scripted:own_author.yaml", tools=[{"name": "stringy", "approve": "always"}])
with Pipeline("again", context={"rounds": 0}) as ASK_AGAIN:
    step("count", input=context.rounds + 1, sink_to=context.rounds)
    asked = ask.input("ask", f"Is {ASK_AGAIN.input.to} content ({context.rounds})?")
    ASK_AGAIN.gives({"round": context.rounds, "said": asked.output})


@workflow.defn
class Correspondence(HumanInTheLoop):
    """Has a letter written, sent with an approval, and asks until somebody is content; skips what it is told to."""

    @workflow.run
    async def run(self, to: str, parts: list[str]) -> list[str]:
        letter = Letter(to=to, text="")
        done = []
        if "write" in parts:
            letter = await self.human.agent(WRITER, f"Write to {to}")
            done.append(letter.text)
        if "shout" in parts:
            await self.human.agent(LOUD, f"Write to {to}")
        if "endless" in parts:
            await self.human.loop(ASK_AGAIN, letter, name="endless")
        if "send" in parts:
            done.append(await self.human.agent(CLERK, letter, name="post"))
        if "ask" in parts:
            verdict = await self.human.loop(
                ASK_AGAIN, letter, output=Verdict, name="revise", until="output.said == 'yes'", checkpoint_every=1
            )
            done.append(f"{verdict.round} {verdict.said}")
        return [*done, str(self.usage.requests)]
