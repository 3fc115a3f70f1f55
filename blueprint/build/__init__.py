"""The same document from typed Python: agents with names, for pipelines and for authors' own workflows.

Entry points: `agent`.
It imports the rest of the language. Authors import it as `holdfast.build`.
Traps: an author's workflow module is executed again for each run, so that what is built there must be the same each
time, and reads no clock; problems have the place in the author's code, which `places` finds by the frames.
"""

from holdfast.blueprint.build.agents import NamedAgent, agent

__all__ = ["NamedAgent", "agent"]
