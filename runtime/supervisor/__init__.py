"""Several worker processes that look like one to an operator: signals, health, metrics, exit code.

`worker.py` calls `supervise`, and holds the other end of it in each process.
"""

from holdfast.runtime.supervisor.lifeline import Lifeline, Ports
from holdfast.runtime.supervisor.supervisor import supervise

__all__ = ["Lifeline", "Ports", "supervise"]
