"""The door of a workflow: what comes from outside is decoded and measured here, and its sender, key and right checked.

`Door` is what the handlers of one workflow share. Only validators of updates may read the deployment, as they do not
run again on replay; a signal has no validator, and is measured by the limits of its run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, Field, ValidationError
from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.model_problems import describe_problem
from holdfast.protocol import guard
from holdfast.protocol.access import (
    THIS_MACHINE,
    AccessRules,
    Capability,
    Person,
    RunAccess,
    describe_refusal,
    may,
)
from holdfast.protocol.answers import AnswerBatch, Closed, Refusal, read_answers
from holdfast.protocol.children import Carried
from holdfast.protocol.guard import BadToken, SignedCommand, Verified
from holdfast.protocol.people import CanonicalName, ProvedGroups, read_user, with_proved
from holdfast.protocol.size_limits import LargeLimit, SizeLimit, check_answers, check_value, read_json
from holdfast.protocol.values import Value, make_digest
from holdfast.protocol.views import RefusedSignal
from holdfast.workflows.history import History
from holdfast.workflows.identity import RunIdentity

Parsed = TypeVar("Parsed", bound=BaseModel)

NOTHING = RawValue(Payload(metadata={"encoding": b"binary/null"}))
"""The argument of a command without one."""
LONGEST_REFUSAL = 200
UNQUOTED = {
    "invalid_answer": "a signal could not be read, or its content does not fit",
    "unknown_question": "a signal names what is no id or address of an open question",
}
# Part of the view, a query result: over 16 KiB it would go to the external storage of payloads.
KEPT_REFUSALS = 20
# Keys of closed questions go over continue-as-new: the server deduplicates updates only within one run.
REMEMBERED = 200


class CommandFields(Value):
    """The fields that every command which steers has beside its own content."""

    by: CanonicalName | None = Field(None, max_length=200)
    key: str | None = Field(None, min_length=1, max_length=200)
    groups: ProvedGroups | None = None
    """The groups that a sign-in has proved."""

    @classmethod
    def read(cls, payload: object) -> CommandFields:
        """Return the fields of a command's argument. Raises `Refusal`."""
        own = {name: payload[name] for name in cls.model_fields if name in payload} if isinstance(payload, dict) else {}
        try:
            return cls.model_validate(own)
        except ValidationError as error:
            raise Refusal("invalid_answer", describe_problem(error)) from None


# Decoding


def read_value(raw: RawValue, limit: SizeLimit | None) -> JSON:
    """Return the JSON value of a payload. Raises `Refusal`. Without a limit the value is not measured."""
    value = decode_payload(raw, limit)
    if limit is not None:
        check_value(value, limit)
    return value


def read_from_workflow(type_: type[Parsed], raw: RawValue) -> Parsed | None:
    """Return the argument of a signal between our workflows; None for what nobody can read: somebody else sent it."""
    try:
        return type_.model_validate(read_value(raw, LargeLimit()))
    except (Refusal, ValidationError):
        return None


def read_batch(raw: RawValue, limit: SizeLimit | None) -> AnswerBatch:
    """Return the answers of a payload. Raises `Refusal`.

    Only the contents count against the limit: they are what a person wrote.
    """
    answers = read_answers(decode_payload(raw, limit))
    if limit is not None:
        check_answers(answers, limit)
    return answers


def decode_payload(raw: RawValue, limit: SizeLimit | None) -> JSON:
    """Return the JSON value of a payload, after a check of its bytes. Raises `Refusal`.

    Bytes come first: walking a value of 200,000 keys takes longer than the 2 seconds after which Temporal fails the
    workflow task, and as the payload is in the history, it would fail for ever.
    """
    encoding = raw.payload.metadata.get("encoding", b"")
    if encoding == b"binary/null":
        return None
    if encoding != b"json/plain":
        name = ascii(encoding.decode(errors="replace"))[:40]
        raise Refusal("invalid_answer", f"the argument is encoded as {name}; send JSON (json/plain)")
    return read_json(raw.payload.data, limit)


def make_update_error(refusal: Refusal) -> ApplicationError:
    """Return the error that an update fails with for a refusal."""
    return ApplicationError(refusal.message, refusal.question, *refusal.problems, type=refusal.code, non_retryable=True)


def _hide_content(refusal: Refusal) -> str:
    """Return a refusal's message for the view, where everybody sees it: short, and without what was sent."""
    if (text := UNQUOTED.get(refusal.code)) is not None:
        return f"{text}; send it with `holdfast answer`, which says what is wrong"
    return refusal.message if len(refusal.message) <= LONGEST_REFUSAL else f"{refusal.message[:LONGEST_REFUSAL]}…"


# Who sends


def digest_of_command(command: str, payload: object) -> str:
    """Return a digest that tells two commands under one key apart; their tokens do not count."""
    content = (
        {name: value for name, value in payload.items() if name != "token"} if isinstance(payload, dict) else payload
    )
    return make_digest(command, content)


def check_may_answer(verified: Verified | None) -> None:
    """Refuse an answer under a key whose scope is other commands."""
    if verified is not None and "answer" not in verified.key.scope:
        raise Refusal("not_allowed", f"key {verified.key.id!r} is not for answers; its scope says what it is for")


class RunGuard:
    """Refuses commands of people who may not send them to a run. For validators only, as it reads the deployment.

    Args:
        run: What the run says of the access to it.
    """

    def __init__(self, run: RunAccess) -> None:
        self.run = run

    def check_steering(self, fields: CommandFields, verified: Verified | None) -> None:
        """Refuse a command that steers; `verified` is what its token proves, None without one."""
        user = read_user(fields.by)
        if verified is not None:
            is_starter = verified.proof == "person" and user is not None and user == self.run.started_by
            if "steer" not in verified.key.scope and not is_starter:
                raise Refusal(
                    "not_allowed", f"key {verified.key.id!r} is not for steering; its scope says what it is for"
                )
            if fields.key is None:
                raise Refusal("not_allowed", "a command with a token needs a `key`, so that it counts once")
        self._check("steer", fields.by, fields.groups, verified)

    def check_answering(self, by: str | None, groups: Sequence[str] | None, verified: Verified | None) -> None:
        """Refuse somebody who may not answer the questions without assignees."""
        self._check("answer", by, groups, verified)

    def supervises(self, by: str | None, groups: Sequence[str] | None, verified: Verified | None) -> bool:
        """Return whether this user started the run, or is named for steering it, by the blueprint or the deployment."""
        person, rules = _make_person(by, groups), _find_rules(verified)
        if self.run.started_by in person.names or not person.names.isdisjoint(self.run.written.names_having("steer")):
            return True
        return rules.enforced and may(person, "steer", self.run, rules)

    def _check(
        self, capability: Capability, by: str | None, groups: Sequence[str] | None, verified: Verified | None
    ) -> None:
        """Refuse a person who may not."""
        if may(_make_person(by, groups), capability, self.run, _find_rules(verified)):
            return
        raise Refusal("not_allowed", describe_refusal(capability, by, self.run.written))


def _find_rules(verified: Verified | None) -> AccessRules:
    """Return the rules that count for a sender; the holder of a key that proves nobody is whoever they say."""
    proves = verified is not None and verified.proof not in ("client", "service")
    return guard.DEPLOYMENT.access if proves else THIS_MACHINE


def _make_person(by: str | None, groups: Sequence[str] | None) -> Person:
    return Person.of(by, with_proved(guard.DEPLOYMENT.groups, by, groups))


# What was taken before


class Receipts:
    """The questions that were closed last, and the keys of commands, so that what is sent again counts once."""

    def __init__(self, closed: Sequence[Closed]) -> None:
        self.closed = list(closed[-REMEMBERED:])

    def add(self, closed: Closed) -> Closed:
        """Remember what was closed or taken; of many the oldest is forgotten."""
        self.closed.append(closed)
        del self.closed[:-REMEMBERED]
        return closed

    def find(self, key: str | None, digest: str, kind: str = "command") -> list[Closed]:
        """Return what came under a key before; other content under it is a conflict, a `Refusal`."""
        before = [closed for closed in self.closed if key and closed.key == key]
        # Clients put the digest into the update's id, too: under the key alone the server would give other content the
        # first result in silence.
        if before and before[0].digest != digest:
            raise Refusal("key_conflict", f"key {key!r} was used for another {kind}; use a new key")
        return before

    def add_command(self, key: str | None, digest: str, by: str | None) -> None:
        """Remember the key of a command other than an answer, if it has one."""
        if key is not None:
            self.add(Closed("", "taken", workflow.now(), by, key, digest))


class Door:
    """The checks that the handlers of one workflow share, what they have taken, and the signals that they refused."""

    def __init__(self, identity: RunIdentity, history: History, state: Carried) -> None:
        self.identity, self.history = identity, history
        self.access = RunGuard(
            RunAccess(blueprint=identity.blueprint, started_by=identity.started_by, written=identity.access)
        )
        self.receipts = Receipts(state.closed)
        self.refused = list(state.refused)

    @property
    def next_state(self) -> dict[str, Any]:
        """The fields of the state that the next history begins with."""
        return {"closed": self.receipts.closed, "refused": self.refused}

    @property
    def takes_signals(self) -> bool:
        """Return whether commands may come by signal: not where the sender matters, as a signal has no validator."""
        return not self.identity.guarded and not self.identity.access.checks_commands

    def check_signal(self) -> None:
        """Refuse a steering signal in a run that checks its senders. Raises `Refusal`."""
        if not self.takes_signals:
            steer = self.identity.access.steer or []
            reason = "is guarded" if self.identity.guarded else f"is steered by {', '.join(steer)}"
            raise Refusal("not_allowed", f"this run {reason} and takes commands by update only: use holdfast")

    def refuse_signal(self, refusal: Refusal, **fields: str | None) -> None:
        """List a refused signal in the view with the reason, without its content.

        Args:
            refusal: Why.
            fields: Fields of `RefusedSignal` that are known: `question`, `key`, `by`.
        """
        signal = RefusedSignal(at=workflow.now(), code=refusal.code, message=_hide_content(refusal))
        self.refused = [*self.refused, signal.model_copy(update=fields)][-KEPT_REFUSALS:]

    def was_taken(self, command: str, payload: object) -> bool:
        """Return whether a command was taken before, under its key. Raises `Refusal`."""
        return bool(self.receipts.find(CommandFields.read(payload).key, digest_of_command(command, payload)))

    def remember(self, command: str, payload: object) -> None:
        """Remember the key of an accepted command."""
        fields = CommandFields.read(payload)
        self.receipts.add_command(fields.key, digest_of_command(command, payload), fields.by)

    # For validators only, as they read the deployment

    def check_steering(self, command: str, payload: object) -> bool:
        """Refuse a command from a person who may not steer; return whether its key was used for it before.

        Raises `Refusal`.
        """
        fields = CommandFields.read(payload)
        self.access.check_steering(fields, self.check_token(command, payload))
        return bool(self.receipts.find(fields.key, digest_of_command(command, payload)))

    def check_token(self, command: str, payload: object) -> Verified | None:
        """Return what the token of a command proves; None without one, where none is needed. Raises `Refusal`.

        A token is checked wherever there is one: the handler takes its word, and cannot know whether keys were
        configured.
        """
        fields = payload if isinstance(payload, dict) else {}
        token, deployment = fields.get("token"), guard.DEPLOYMENT
        verified = None
        if token is not None or deployment.keys:
            sent = SignedCommand(self.identity.run, workflow.info().workflow_id, command, fields)
            try:
                verified = guard.check_token(deployment.valid_keys, token, sent)
            except BadToken as error:
                raise Refusal("bad_token", str(error)) from None
        if fields.get("groups") is not None and (verified is None or verified.key.proves != "person"):
            raise Refusal(
                "not_allowed", "groups are accepted only with a token of a key that proves persons; leave them out"
            )
        return verified

    def check_busy(self) -> None:
        """Refuse an update that can wait, to keep the remaining ones for answers, pause and resume."""
        if self.history.updates >= guard.DEPLOYMENT.busy_from:
            text = (
                f"{self.history.updates:,} updates are in this history, and the remaining ones are reserved for answers"
            )
            raise Refusal("busy", f"{text}; answer what is open, or try again once the run has moved on")
