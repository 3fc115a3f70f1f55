"""Production's sandbox, loaded once a process instead of once a run.

To import our workflows takes longer than most runs of a test do. Here all runs see what was imported for the first;
what is forbidden stays so for each. Runs of the command line, of the crash tests, of the recorded histories and of
workflows of one's own have a sandbox each.
"""

from __future__ import annotations

import threading
from typing import Any, ClassVar

from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner
from temporalio.worker.workflow_sandbox._importer import Importer
from temporalio.worker.workflow_sandbox._restrictions import RestrictionContext
from temporalio.worker.workflow_sandbox._runner import _Instance

from workflows import RUNNER


class _Context(RestrictionContext, threading.local):
    """Whether a workflow is at work in this thread; others may be in theirs."""


class Sandbox(SandboxedWorkflowRunner):
    """One for all runs."""

    context: ClassVar = _Context()
    importer: ClassVar = Importer(RUNNER.restrictions, context)

    def create_instance(self, det: Any) -> _Instance:
        """See base class."""
        return _Run(det, self.runner_class, self.restrictions)


class _Run(_Instance):
    def _create_instance(self) -> None:
        self.importer = Sandbox.importer
        super()._create_instance()


SANDBOX = Sandbox(RUNNER.restrictions)
