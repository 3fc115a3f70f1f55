"""The handlers of workflows: one object a subject, which owns its state and says what of it is carried over.

- `forwarders`: `@handles(Answers, Steering, …)` gives a workflow class the decorated methods that call its objects.
- `host`: `Host` puts the objects of one workflow together; `run` and `human` hold one.
- `answers`, `assignments`, `events`, `steering`, `elicitations`, `view`: the objects; `questions`: what is open.

May import frames, calls, children, the door and the journal; never steps, the interpreter or a workflow class.
Traps: a handler runs again on replay, so only a validator of an update may read the deployment. From the moment that a
question is closed until its reply is set nothing may raise. A signal's handler may raise `Refusal`, which the view
lists, and nothing else: it would fail the workflow task for ever.
"""

from holdfast.workflows.handlers.answers import Answers
from holdfast.workflows.handlers.assignments import Assignments
from holdfast.workflows.handlers.elicitations import Elicitations
from holdfast.workflows.handlers.events import Events
from holdfast.workflows.handlers.forwarders import handles
from holdfast.workflows.handlers.host import Host
from holdfast.workflows.handlers.steering import Steering
from holdfast.workflows.handlers.view import View

__all__ = ["Answers", "Assignments", "Elicitations", "Events", "Host", "Steering", "View", "handles"]
