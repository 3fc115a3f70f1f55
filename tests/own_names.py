"""A workflow of an author's own with names that Holdfast has, too; alone in its module, see `own_questions.py`."""

from __future__ import annotations

from temporalio import workflow

from holdfast.workflows import HumanInTheLoop


@workflow.defn
class Diary(HumanInTheLoop):
    """Notes what is told, asks, and sets the attributes that a test wants."""

    def __init__(self) -> None:
        self.history: list[str] = []

    @workflow.signal
    def note(self, text: str) -> None:
        self.history.append(text)

    @workflow.query
    def count(self) -> int:
        return len(self.history)

    @workflow.run
    async def run(self, names: list[str]) -> list[str]:
        await workflow.wait_condition(lambda: bool(self.history))
        for name in names:
            setattr(self, name, "mine")
        answer = await self.human.ask("What else?")
        return [*self.history, answer, str(self.usage.questions), *(getattr(self, name) for name in names)]
