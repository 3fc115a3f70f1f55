"""Data converters: ours, and ours joined with one that a client already has. `connect` and the plugin use them."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any, Self

from pydantic import TypeAdapter
from pydantic_core import SchemaSerializer
from pydantic_core.core_schema import any_schema
from temporalio.api.common.v1 import Payload
from temporalio.api.errordetails.v1 import QueryFailedFailure
from temporalio.api.failure.v1 import Failure as ProtoFailure
from temporalio.client import WorkflowQueryFailedError
from temporalio.common import RawValue
from temporalio.contrib.pydantic import PydanticJSONPlainPayloadConverter, ToJsonOptions
from temporalio.converter import (
    CompositePayloadConverter,
    DataConverter,
    DefaultFailureConverterWithEncodedAttributes,
    DefaultPayloadConverter,
    PayloadConverter,
    SerializationContext,
)
from temporalio.exceptions import FailureError
from temporalio.service import RPCError

from holdfast.protocol.values import Value
from holdfast.runtime.encryption import EncryptionCodec, KeyRing
from holdfast.runtime.errors import NotReadable

_JSON = b"json/plain"
"""The encoding that `SparseJson` has in payloads."""


class SparseJson(PydanticJSONPlainPayloadConverter):
    """The converter for JSON by pydantic that omits default fields in values of the protocol.

    A model of an author's own keeps them: a default may be needed on the wire, such as a union's discriminator.

    Temporal makes one for each workflow, and for each payload that it may store outside. They share what depends on no
    workflow. The adapters of authors' types they do not share: the sandbox makes those types anew for each workflow.
    """

    _schema_serializer = SchemaSerializer(any_schema())
    _to_json_options = ToJsonOptions()

    def __init__(self) -> None:
        """Make nothing: what is not shared is made when it is used."""

    @cached_property
    def _type_adapter(self) -> Callable[[Any], TypeAdapter[Any]]:  # type: ignore[override]  # the base class sets it
        return lru_cache(TypeAdapter)

    def to_payload(self, value: object) -> Payload | None:
        """See base class."""
        if not _is_ours(value):
            return super().to_payload(value)
        data = self._schema_serializer.to_json(value, exclude_defaults=True)
        return Payload(metadata={"encoding": self.encoding.encode()}, data=data)

    def from_payload(self, payload: Payload, type_hint: Any = None) -> Any:
        """See base class."""
        if isinstance(type_hint, type) and issubclass(type_hint, Value):
            return type_hint.model_validate_json(payload.data)
        if _mentions_ours(type_hint):
            return _make_adapter(type_hint).validate_json(payload.data)
        return super().from_payload(payload, type_hint)


@lru_cache
def _make_adapter(type_hint: Any) -> TypeAdapter[Any]:
    return TypeAdapter(type_hint)


def _is_ours(value: object) -> bool:
    return isinstance(value, Value) or (isinstance(value, list) and any(isinstance(item, Value) for item in value))


class HoldfastPayloads(CompositePayloadConverter):
    """Temporal's payload converters, with `SparseJson` in place of plain JSON."""

    _usual = {item.encoding.encode(): item for item in DefaultPayloadConverter.default_encoding_payload_converters}

    def __init__(self) -> None:
        """Share all but `SparseJson`, which keeps something of its workflow."""
        self.converters = {**self._usual, _JSON: SparseJson()}

    def with_context(self, context: SerializationContext) -> Self:
        """Return itself: no converter depends on a context."""
        return self

    def from_payloads(self, payloads: Sequence[Payload], type_hints: list[type] | None = None) -> list[Any]:
        """See base class. Raises `NotReadable` for an encoding that is another codec's."""
        with _name_encoding():
            return super().from_payloads(payloads, type_hints)


@contextmanager
def _name_encoding() -> Iterator[None]:
    """Raise `NotReadable` for an encoding that no converter knows: the SDK's raises `KeyError`."""
    try:
        yield
    except KeyError as error:
        raise NotReadable(f"a value was written with a codec that is not known here: {error.args[0]}") from None


DATA_CONVERTER = DataConverter(payload_converter_class=HoldfastPayloads)
"""The converter without external storage: every value is kept in Temporal."""


def add_encryption(converter: DataConverter, ring: KeyRing) -> DataConverter:
    """Return a converter that encrypts what it converts, failures too; it decrypts with an empty ring's message."""
    codec = EncryptionCodec(ring)
    if not ring:
        return replace(converter, payload_codec=codec)
    return replace(converter, payload_codec=codec, failure_converter_class=DefaultFailureConverterWithEncodedAttributes)


async def read_failure_text(converter: DataConverter, failure: ProtoFailure) -> str:
    """Return the message of a failure in a history, which may be encrypted; why it cannot be read where it cannot."""
    own = ProtoFailure()
    own.CopyFrom(failure)  # decoding changes it
    try:
        error = await converter.decode_failure(own)
    except NotReadable as unread:
        return str(unread)
    return error.message if isinstance(error, FailureError) else str(error)


async def read_query_failure_text(converter: DataConverter, error: WorkflowQueryFailedError) -> str:
    """Return why a query failed. The SDK gives the message of the failure, which says nothing of an encrypted one."""
    # Only the reply that the SDK was handling when it raised this has the failure itself.
    reply = error.__context__
    status = reply.grpc_status if isinstance(reply, RPCError) else None
    for detail in () if status is None else status.details:
        failed = QueryFailedFailure()
        if detail.Unpack(failed) and failed.HasField("failure"):
            return await read_failure_text(converter, failed.failure)
    return str(error)


class JointPayloads(PayloadConverter):
    """The payload converter of a client, but for values of the protocol, which ours converts.

    A subclass names the client's own: Temporal makes converters without arguments, in the sandbox too.
    """

    own: type[PayloadConverter]

    def __init__(self) -> None:
        self._own, self._ours = self.own(), HoldfastPayloads()

    def to_payloads(self, values: Sequence[Any]) -> list[Payload]:
        """See base class."""
        return [payload for value in values for payload in self._choose(_is_ours(value), value).to_payloads([value])]

    def from_payloads(self, payloads: Sequence[Payload], type_hints: list[type] | None = None) -> list[Any]:
        """See base class. Raises `NotReadable` for an encoding that its own converter does not know either."""
        hints = [*(type_hints or []), *[None] * len(payloads)][: len(payloads)]
        with _name_encoding():
            return [self._read(payload, hint) for payload, hint in zip(payloads, hints, strict=True)]

    def _read(self, payload: Payload, hint: type | None) -> Any:
        if hint is RawValue:
            return RawValue(payload)
        [value] = self._choose(_mentions_ours(hint)).from_payloads([payload], None if hint is None else [hint])
        return value

    def _choose(self, ours: bool, value: object = None) -> PayloadConverter:
        return self._ours if ours or isinstance(value, RawValue) else self._own


def _mentions_ours(hint: object) -> bool:
    """Return whether a type is one of the protocol's values, or is made of some."""
    if isinstance(hint, type) and issubclass(hint, Value):
        return True
    return any(map(_mentions_ours, typing.get_args(hint)))


def join_converter(converter: DataConverter) -> DataConverter:
    """Return a client's converter, its codec and storage untouched, that converts our values as well."""
    own = converter.payload_converter_class
    if takes_ours(converter):
        return converter
    if own is DefaultPayloadConverter:
        return replace(converter, payload_converter_class=HoldfastPayloads)
    return replace(converter, payload_converter_class=type("JointPayloads", (JointPayloads,), {"own": own}))


def takes_ours(converter: DataConverter) -> bool:
    """Return whether a converter converts values of the protocol as our workflows expect them."""
    return issubclass(converter.payload_converter_class, HoldfastPayloads | JointPayloads)
