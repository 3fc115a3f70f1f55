"""The Python API for runs: start them, read their questions, answer, wait for their results.

`Runs` is used by programs directly and by every command of the CLI. What is asked less often stands in its facets, such
as `runs.control.pause(run)`; see `facets`. Times are in seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from temporalio.client import Client, WorkflowExecutionDescription

from holdfast.blueprint.errors import BlueprintError
from holdfast.blueprint.json_values import JSON
from holdfast.client.answering import Answering, Sender
from holdfast.client.facets.access import AccessControl, send_answers
from holdfast.client.facets.lists import RunLists
from holdfast.client.listing import only_match
from holdfast.client.open_questions import OpenQuestions, QuestionFinder
from holdfast.client.outcomes import await_outcome, has_ended, outcome_so_far, read_state
from holdfast.client.outgoing import read_json
from holdfast.client.permissions import Permissions
from holdfast.client.query_cache import QueryCache
from holdfast.client.question_reader import QuestionReader
from holdfast.client.signals import Sent
from holdfast.client.states import Outcome, RunState
from holdfast.client.tree import Tree, UnknownRun
from holdfast.protocol.answers import Answer, AnswerBatch, Receipt
from holdfast.protocol.names import TASK_QUEUE
from holdfast.protocol.questions import Question
from holdfast.runtime.errors import BadInput, raise_server_errors
from holdfast.runtime.workers import check_hold

if TYPE_CHECKING:
    from holdfast.blueprint.kinds import Blueprint
    from holdfast.blueprint.kinds.document import BlueprintSource
    from holdfast.client.archive import Archive
    from holdfast.client.facets.assignment import QuestionAssignment
    from holdfast.client.facets.control import RunControl
    from holdfast.client.facets.external_events import ExternalEvents
    from holdfast.client.facets.plans import RunPlans
    from holdfast.client.facets.watch import RunWatch
    from holdfast.client.forks import Forked
    from holdfast.client.lookup import Checked, Placed
    from holdfast.client.retries import Retried
    from holdfast.protocol.runs import HistoryLimits, LossPolicy


@raise_server_errors
class Runs:
    """The runs of one deployment. What Temporal refuses or does not answer is a `ServerError`.

    Args:
        client: A connected client; see `holdfast.runtime.connection.connect`.
        task_queue: The queue that the workers of the deployment poll.
        answering: How commands are signed and limited, and which questions are remembered for when no worker runs.
        archive: Where runs are read from that Temporal has deleted, such as the record.
        permissions: What the person may do for whom these are; None: whatever Temporal lets them do.
        reader: What reads open questions, where several share one.
        cache: The results of queries, where several share them.
    """

    def __init__(
        self,
        client: Client,
        task_queue: str = TASK_QUEUE,
        answering: Answering | None = None,
        archive: Archive | None = None,
        permissions: Permissions | None = None,
        reader: QuestionReader | None = None,
        cache: QueryCache | None = None,
    ) -> None:
        self.client, self.task_queue, self.archive = client, task_queue, archive
        self.tree = tree = Tree(client, task_queue, archive, cache)
        self._answering, self.permissions = answering or Answering(), permissions
        self.access = AccessControl(tree, self.answering, permissions)
        self.reader = reader or QuestionReader(tree)
        self._finder = QuestionFinder(tree, self.answering.memory)
        self.lists = RunLists(tree, self.answering, self.access, permissions, self.reader)

    @property
    def answering(self) -> Answering:
        """The way of answering; the facets hold the same one, so that other ways make other `Runs`."""
        return self._answering

    @cached_property
    def control(self) -> RunControl:
        """Commands to a run; see `facets`."""
        from holdfast.client.facets.control import RunControl  # noqa: PLC0415  most commands steer no run

        return RunControl(self.tree, self.answering, self.access)

    @cached_property
    def assignment(self) -> QuestionAssignment:
        """Whom a question waits for; see `facets`."""
        from holdfast.client.facets.assignment import QuestionAssignment  # noqa: PLC0415  few commands change it

        return QuestionAssignment(self.tree, self.answering, self.access)

    @cached_property
    def external_events(self) -> ExternalEvents:
        """Events of other systems; see `facets`."""
        from holdfast.client.facets.external_events import ExternalEvents  # noqa: PLC0415  one command sends them

        return ExternalEvents(self.tree, self.answering, self.reader)

    @cached_property
    def watch(self) -> RunWatch:
        """What a run is, and what happened in it; see `facets`."""
        from holdfast.client.facets.watch import RunWatch  # noqa: PLC0415  it loads all events

        return RunWatch(self.tree, self.answering)

    @cached_property
    def plans(self) -> RunPlans:
        """The plans that steps of a run follow; see `facets`."""
        from holdfast.client.facets.plans import RunPlans  # noqa: PLC0415  it loads the loader and all checks

        return RunPlans(self.tree, self.answering, self.access, self.watch)

    def acting_as(self, sender: Sender, permissions: Permissions | None = None) -> Runs:
        """Return these runs for one person: commands carry their name, their groups and what proves them.

        Args:
            sender: The person.
            permissions: What they may do; None: lists show everything, and a command is checked where it arrives.
        """
        answering = replace(self.answering, sender=sender)
        return self._change(answering=answering, permissions=permissions)

    def with_archive(self, archive: Archive | None) -> Runs:
        """Return these runs with an archive, from which they are read as far as it goes."""
        return self._change(archive=archive)

    def sharing_queries(self) -> Runs:
        """Return these runs for all who look at them through this process: what did not change is queried once."""
        return self._change(reader=None, cache=QueryCache(self.client))

    def _change(self, **changes: object) -> Runs:
        """Return these runs with other arguments of the constructor."""
        given: dict[str, Any] = {
            "answering": self.answering,
            "archive": self.archive,
            "permissions": self.permissions,
            "reader": self.reader,
            "cache": self.tree.cache,
        }
        return Runs(self.client, self.task_queue, **given | changes)

    async def start(
        self,
        blueprint: BlueprintSource,
        input: object = None,
        *,
        run: str | None = None,
        started_by: str | None = None,
        check: bool = False,
        history_limits: HistoryLimits | None = None,
        loss_policy: LossPolicy | None = None,
    ) -> str:
        """Start a run and return its id.

        Args:
            blueprint: The blueprint to run, or a pipeline.
            input: A JSON value that fits the blueprint's `inputs`; or a pydantic model.
            run: The id of the run; by default made of the blueprint's name and a random suffix.
            started_by: The person who starts it, such as `user:ana`.
            check: Ask a worker first for the names that the blueprint uses (see `look_up`). If no worker can be
                asked, the run starts unchecked.
            history_limits: When the workflows of the run continue as new, where the defaults do not suit it.
            loss_policy: When a worker is taken for lost, and its calls go to another one.

        Raises:
            BadInput: The input or the id cannot be used.
            BlueprintError: The check found a missing name.
            RunExists: A run of this id was started before.

        Nothing has been started when it raises, but where the server has not answered: the error says so.
        """
        from holdfast.blueprint.kinds.document import read_blueprint  # noqa: PLC0415  it loads the language
        from holdfast.client.starting import check_start, define_run, new_run_id, start_pipeline  # noqa: PLC0415  so does it
        from holdfast.protocol.runs import PipelineState  # noqa: PLC0415  so does it

        blueprint = read_blueprint(blueprint)
        given = read_json(input, "the input")
        run = new_run_id(blueprint) if run is None else run
        check_start(blueprint, given, run, self.answering.limits.input)
        await check_hold(self.client, self.task_queue)
        local_tools = await self._check_names(blueprint) if check else ()
        definition = define_run(self.client, self.answering, blueprint, run, history_limits, loss_policy, local_tools)
        state = PipelineState(input=given, started_by=self.answering.find_sender(started_by))
        access = self.access.describe_start(blueprint, started_by)
        await start_pipeline(self.client, self.task_queue, definition, state, access)
        return run

    async def _check_names(self, blueprint: Blueprint) -> Sequence[str]:
        """Return the tools that may be called locally. Raises `BlueprintError` for names that a worker misses."""
        checked = await self.look_up(blueprint)
        if checked.problems:
            raise BlueprintError(checked.problems)
        return checked.local

    async def retry(self, run: str, by: str | None = None, *, blueprint: Blueprint | None = None) -> Retried:
        """Go on with a run that has failed, or was ended: what it did is met, and what broke it off is done again.

        The new run is one of its own, with the input, the starter and the access of the other. It calls, pays and asks
        nothing again that had ended; a call whose end is not known, of a tool that may not run twice, asks a person.

        Args:
            run: The id of the run.
            by: The person who asks for it; they must be allowed to steer the run.
            blueprint: A mended blueprint; up to the failure it must do the same.

        Returns:
            The new run. The same retry twice is one run.

        Raises:
            BadInput: The run cannot be retried; the message says why.
            Refusal: The person may not steer it.
            UnknownRun: There is no such run.
            NoWorker: No worker says how the questions of the run ended.

        Nothing has been started when it raises.
        """
        from holdfast.client.retries import RunRetry  # noqa: PLC0415  it loads the language

        await self.access.check_steering(run)
        await check_hold(self.client, self.task_queue)
        return await RunRetry(self.tree, self.answering, run, blueprint, self.answering.find_sender(by)).start()

    async def fork(
        self,
        run: str,
        at: str,
        by: str | None = None,
        *,
        changes: Mapping[str, JSON] | None = None,
        blueprint: Blueprint | None = None,
        id: str | None = None,
    ) -> Forked:
        """Begin a run in the middle of another one, which goes on, or has ended in whatever way.

        What the other run did before the place is met, and in branches and items beside it; from there the new run
        calls, pays and asks.

        Args:
            run: The id of the other run.
            at: The place: the address of a step, an iteration, an item or a branch, its end, or a step's name.
            by: The person who asks for it; they must be allowed to steer the run.
            changes: What is written into the context there, by path; `input`, and what is below it, is the run's input.
            blueprint: A changed blueprint; up to the place it must do the same.
            id: The id of the new run; by default made as for a start.

        Raises:
            Ambiguous: The place stands several times in the run.
            BadInput: No run can begin there; the message says why.
            RunExists: A run of this id was started before.
            Refusal: The person may not steer the run.
            UnknownRun: There is no such run.
            NoWorker: No worker says how the questions of the run ended.

        Nothing has been started when it raises.
        """
        from holdfast.client.forks import ForkRequest, RunFork  # noqa: PLC0415  it loads the language

        await self.access.check_steering(run)
        await check_hold(self.client, self.task_queue)
        request = ForkRequest(at, changes or {}, blueprint, id)
        return await RunFork(self.tree, self.answering, run, request, self.answering.find_sender(by)).start()

    async def look_up(self, blueprint: Blueprint, placed: Placed | None = None, *, connect: bool = False) -> Checked:
        """Ask a worker for the tools, functions, models, MCP servers and groups that the blueprint names.

        This is a snapshot, not a guarantee: a step whose name is missing later still fails.

        Args:
            blueprint: The blueprint whose names are looked up.
            placed: Makes a problem of a path, a code and a message; by default without a position in a file.
            connect: Connect to the MCP servers, too.

        Returns:
            The problems found, or in `unchecked` the reason why no worker could be asked.
        """
        from holdfast.blueprint.requirements import list_requirements  # noqa: PLC0415  it loads the language
        from holdfast.client.worker_lookup import look_up, place_by_path  # noqa: PLC0415  so does it

        placed = placed or place_by_path(blueprint)
        checked = await look_up(self.client, self.task_queue, list_requirements(blueprint), placed, connect=connect)
        return checked.judge(blueprint, placed)

    async def resolve(self, prefix: str) -> str:
        """Return the id of the only run whose id starts with `prefix`. Raises as `find` does."""
        try:
            return (await self.find(prefix)).id
        except UnknownRun:
            matches = [] if self.archive is None else await self.archive.runs_like(prefix)
            if prefix in matches or len(matches) == 1:
                return prefix if prefix in matches else matches[0]
            raise

    async def find(self, prefix: str) -> WorkflowExecutionDescription:
        """Return Temporal's description of the only run whose id starts with `prefix`. Raises as `resolve` does."""
        if not prefix.strip():
            raise BadInput("no run is named: give the id of one, or its beginning; `holdfast runs` lists them")
        with suppress(UnknownRun):
            return await self.tree.describe(prefix)
        return await self.tree.describe(await only_match(self.client, prefix))

    async def state(self, run: str) -> RunState:
        """Return the status and the views of a run.

        The status is `waiting` if a question is open and nothing of the run can go on without an answer.

        Raises:
            UnknownRun: There is no such run.
            NoWorker: No worker answers the query.
        """
        return await read_state(self.tree, self.answering, run)

    async def questions(self, run: str) -> list[Question]:
        """Return the open questions of a run and of its children, sorted by address. Raises as `state` does."""
        return (await self.state(run)).questions

    async def open_questions(self, run: str, names: Sequence[str] = (), *, patient: bool = True) -> OpenQuestions:
        """Return the open questions of a run, for `answer`; if no worker answers, those seen last.

        Args:
            run: The id of the run.
            names: The questions that are to be answered: where all are ids that this client has seen, only the
                workflows that ask them are asked, and only their questions are returned.
            patient: Raise `Busy` if a worker is there and does not answer, instead of taking the questions seen last.

        Raises:
            UnknownRun: There is no such run.
            Busy: A worker is there and does not answer.
        """
        return await self._finder.find(run, names, patient=patient)

    async def find_questions(self, prefix: str, names: Sequence[str] = (), *, patient: bool = True) -> OpenQuestions:
        """Return the open questions of the only run whose id starts with `prefix`; see `open_questions` and `find`."""
        known = await self._finder.find_known(prefix, names)
        return known or await self._finder.walk(await self.find(prefix), patient=patient)

    async def answer(
        self,
        run: str,
        answers: Sequence[Answer],
        *,
        by: str | None = None,
        key: str | None = None,
        comment: str | None = None,
        signal: bool = False,
        owner: str | None = None,
        open_questions: OpenQuestions | None = None,
    ) -> list[Receipt | Sent]:
        """Answer questions of a run. Each workflow accepts or refuses all of the answers that are meant for it.

        Args:
            run: The id of the run.
            answers: The answers; each names its question by id, address, step name or a unique prefix of the id.
            by: The person who answers, such as `user:ana`.
            key: Idempotency key: the same answers under the same key count once. By default a random one.
            comment: A comment stored with the answers.
            signal: Send a signal without waiting for a worker.
            owner: The id of the workflow that asks, for a signal about a question that is not known here.
            open_questions: The open questions, where the run has just been asked for them (see `open_questions`).

        Returns:
            A `Receipt` for each answer; a `Sent` for each if they were sent as a signal, which also happens when no
            worker answers.

        Raises:
            Refusal: An answer was refused; its `code` says why.
            NothingSent: No worker answers, and the answers cannot be sent as a signal.
            UnknownRun: There is no such run.
            Ambiguous: An answer could mean several questions.
        """
        batch = AnswerBatch(answers=list(answers), by=by, key=key, comment=comment)
        names = [answer.question for answer in answers]
        if open_questions is None and not signal:
            open_questions = self._finder.recall(run, names)
        if open_questions is None:
            open_questions = await self.open_questions(run, names, patient=not signal)
        return await send_answers(
            self.tree, self.answering, self.access, open_questions, batch, signal=signal, owner=owner
        )

    async def outcome(self, run: str) -> Outcome:
        """Return the outcome of a run; before its end the status and context. Raises `UnknownRun` or `NoWorker`."""
        if await has_ended(self.tree, run):
            return await await_outcome(self.tree, run)
        return await outcome_so_far(self.tree, await self.state(run))

    async def result(self, run: str) -> Outcome:
        """Wait for the end of a run, without limit, and return its outcome. Raises `UnknownRun`."""
        return await await_outcome(self.tree, run)
