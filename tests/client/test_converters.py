"""What the payload converters of the workflows on a worker share: Temporal makes one for each of them."""

from __future__ import annotations

import gc
import weakref

import pytest
from pydantic import BaseModel
from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.converter import (
    CompositePayloadConverter,
    DataConverter,
    DefaultPayloadConverter,
    JSONPlainPayloadConverter,
    PayloadConverter,
)
from temporalio.exceptions import ApplicationError

from holdfast.protocol.agents import ToolSpec
from holdfast.runtime.converters import (
    DATA_CONVERTER,
    HoldfastPayloads,
    add_encryption,
    join_converter,
    read_failure_text,
)
from holdfast.runtime.encryption import KeyRing
from holdfast.runtime.errors import NotReadable


def test_values_of_ours_in_a_list_are_read_as_what_they_are() -> None:
    converter = HoldfastPayloads()
    specs = [ToolSpec(name="read", description="Read.")]
    assert converter.from_payloads(converter.to_payloads([specs]), [list[ToolSpec]]) == [specs]  # type: ignore[list-item]


def test_null_and_bytes_keep_the_encodings_of_temporal() -> None:
    made = HoldfastPayloads().to_payloads([None, b"raw", {"a": 1}])
    assert [payload.metadata["encoding"] for payload in made] == [b"binary/null", b"binary/plain", b"json/plain"]


class OwnPayloads(CompositePayloadConverter):
    """The payload converter of a team."""

    def __init__(self) -> None:
        super().__init__(JSONPlainPayloadConverter())


@pytest.mark.parametrize("own", [DefaultPayloadConverter, OwnPayloads])
def test_a_value_of_another_codec_is_told_as_such(own: type[PayloadConverter]) -> None:
    converter = join_converter(DataConverter(payload_converter_class=own)).payload_converter
    with pytest.raises(NotReadable, match="codec that is not known here: Unknown payload encoding binary/zip"):
        converter.from_payloads([Payload(metadata={"encoding": b"binary/zip"})], [dict])


def test_a_type_of_an_author_goes_with_the_converter_that_has_read_it() -> None:
    """The sandbox makes an author's types anew for each run: shared adapters would keep them for ever."""
    adapted = _read_own_type()
    gc.collect()
    assert adapted() is None


def _read_own_type() -> weakref.ref[type]:
    class Own(BaseModel):
        a: int

    payload = Payload(metadata={"encoding": b"json/plain"}, data=b'{"a": 1}')
    assert HoldfastPayloads().from_payloads([payload], [Own]) == [Own(a=1)]
    return weakref.ref(Own)


async def test_a_failure_that_cannot_be_read_says_why() -> None:
    failure = Failure()
    sealing = add_encryption(DATA_CONVERTER, KeyRing({"k1": "a" * 44}))
    await sealing.encode_failure(ApplicationError("the card is blocked"), failure)
    text = await read_failure_text(add_encryption(DATA_CONVERTER, KeyRing()), failure)
    assert text.startswith("a value is encrypted with the key 'k1', and there is no key here")
