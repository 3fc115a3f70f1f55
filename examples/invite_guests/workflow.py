"""A workflow of your own that asks people: questions, answers and deadlines as in every run, the rest is yours."""

from datetime import timedelta

from temporalio import workflow

from holdfast import HumanInTheLoop


@workflow.defn
class Invitations(HumanInTheLoop):
    """Ask before sending, and ask again if the guest list is to be changed."""

    @workflow.run
    async def run(self, guests: list[str]) -> str:
        while True:
            answer = await self.human.ask(
                f"Send the invitations to {', '.join(guests)}?",
                options=["yes", "no", "change"],
                timeout=timedelta(days=2),
                default="no",
            )
            if answer != "change":
                return f"sent to {len(guests)}" if answer == "yes" else "not sent"
            guests = await self.human.ask("Who is invited?", schema={"type": "array", "items": {"type": "string"}})
