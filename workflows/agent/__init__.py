"""An agent with tools, in a workflow of its own (`workflow.py`) or in that of a run that is one agent (`in_run.py`).

`turns.py` takes the turns: it asks the model, and hands what came to the others. They share `work.py`: the agent
with its state, its tools and its output. `agent_calls.py` makes the calls of a turn, and runs the commands of a planner
(`commands.py`); `checks.py` looks at tools and calls before; `ending.py` has the tools with which an agent ends.
`context.py` keeps what a request holds short (`conversation.py`), `mailbox.py` what people say. `object_turns.py` takes
the turns of an agent object of the team's own code (`objects.py`). `plan/agent_workflow.py` derives the driver of a
plan.

Calls of one turn run at once: the number of a request must not depend on the order in which they wake
(`fork_requests`).
"""

from holdfast.workflows.agent.workflow import AgentWorkflow

__all__ = ["AgentWorkflow"]
