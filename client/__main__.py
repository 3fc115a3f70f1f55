"""List open questions, answer one, or send a signal: `python -m holdfast.client`, for people who know Temporal.

    python -m holdfast.client questions [RUN]
    python -m holdfast.client answer RUN QUESTION VALUE [--by USER]
    python -m holdfast.client signal WORKFLOW NAME [JSON]

The `holdfast` command does all of this and more; this is what its API comes to.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Iterable

from holdfast.client.answering import Answering
from holdfast.client.failures import EXPECTED, in_our_words
from holdfast.client.open_questions import find_question
from holdfast.client.reading import from_json, parse_content, person
from holdfast.client.runs import Runs
from holdfast.client.signals import Sent
from holdfast.protocol.answers import Answer
from holdfast.protocol.questions import Question
from holdfast.runtime.config import load_config
from holdfast.runtime.connection import connect
from holdfast.runtime.embedded import Startup
from holdfast.runtime.workers import NoWorker, find_last_poll


async def list_questions(runs: Runs, run: str | None) -> None:
    """Print a line for each open question: its run, its id, its address and its message."""
    if run is not None:
        print_questions(await runs.questions(await runs.resolve(run)))
        return
    told = set[str]()
    if await find_last_poll(runs.client, runs.task_queue) is None:
        told.add(str(NoWorker(runs.task_queue)))
    rows, following = await runs.lists.find_waiting()
    while True:
        for row in rows:
            print_questions(row.open or ())
            if row.open is None:
                told.add(str(await runs.tree.silence(row.owner)))
        if following is None:
            break
        rows, following = await runs.lists.find_waiting(cursor=following)
    for silence in sorted(told):
        print(f"some questions cannot be listed: {silence}", file=sys.stderr)


def print_questions(questions: Iterable[Question]) -> None:
    """Print questions; as JSON a message has neither line breaks nor control characters."""
    for question in questions:
        print(question.run, question.id, question.address, json.dumps(question.message), sep="\t")


async def answer(runs: Runs, run: str, name: str, value: str, by: str | None) -> None:
    """Answer a question, and print what became of the answer; the value is read as at a prompt."""
    open_ = await runs.find_questions(run, [name])
    question = find_question(open_.questions, name)
    if question is None:
        raise open_.unknown(name)
    content = parse_content(value, question)
    sent = [Answer(question=question.id, content=content)]
    for receipt in await runs.answer(open_.run, sent, by=person(by), open_questions=open_):
        print(receipt.status)
        if isinstance(receipt, Sent):
            print(f"it counts once a worker takes it: {await runs.tree.silence(receipt.owner)}", file=sys.stderr)


async def send_signal(runs: Runs, workflow: str, name: str, payload: str) -> None:
    """Send a signal to a workflow of a run, such as `pause` or `answer`: nothing tells what becomes of it."""
    polls = await runs.tree.worker_polls(workflow)
    await runs.client.get_workflow_handle(workflow).signal(name, from_json(payload))
    print("sent")
    if not polls:
        print(await runs.tree.silence(workflow), file=sys.stderr)


async def main(options: argparse.Namespace) -> int:
    """Connect and do what the command line says; return the exit code."""
    try:
        config = load_config()
        connection = await connect(config, startup=Startup.NOTHING)
        runs = Runs(connection.client, connection.task_queue, Answering(keys=config.answer_keys()))
        match options.command:
            case "questions":
                await list_questions(runs, options.run)
            case "answer":
                await answer(runs, options.run, options.question, options.value, options.by)
            case _:
                await send_signal(runs, options.workflow, options.name, options.payload)
    except EXPECTED as error:
        print(in_our_words(error), file=sys.stderr)
        return 1
    return 0


def read_options() -> argparse.Namespace:
    """Return what the command line says; exit with 2 if it cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m holdfast.client", description="Questions of runs on Temporal.")
    commands = parser.add_subparsers(dest="command", required=True)
    questions = commands.add_parser("questions", help="list the open questions")
    questions.add_argument("run", nargs="?", help="a run's id, or the beginning of one; default: all runs")
    answer = commands.add_parser("answer", help="answer a question")
    answer.add_argument("run", help="a run's id, or the beginning of one")
    answer.add_argument("question", help="its id, its address, or the name of the step that asks")
    answer.add_argument("value", help="the answer, as at a prompt of holdfast")
    answer.add_argument("--by", metavar="USER", help="who you are; default: HOLDFAST_USER, else your login")
    signal = commands.add_parser("signal", help="send a signal to a workflow")
    signal.add_argument("workflow", help="the workflow's id")
    signal.add_argument("name", help="the signal's name, such as pause or answer")
    signal.add_argument("payload", nargs="?", default="{}", help="its argument as JSON")
    return parser.parse_args()


if __name__ == "__main__":
    code = asyncio.run(main(read_options()))
    sys.stdout.flush()
    os._exit(code)  # a plain exit may abort in the SDK's threads (sdk-python issue 300)
