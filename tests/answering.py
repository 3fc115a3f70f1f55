"""How the runs of a test answer, changed in the middle of it."""

from holdfast.client.answering import Answering
from holdfast.client.runs import Runs


def answer_by(runs: Runs, answering: Answering) -> None:
    """Make these runs anew, in place: a site and its pages hold them."""
    how = runs.client, runs.task_queue, answering, runs.archive, runs.permissions
    vars(runs).clear()
    Runs.__init__(runs, *how)
