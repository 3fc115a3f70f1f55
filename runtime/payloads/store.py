"""The place of large payloads, as the driver sees it: objects by name. A folder and buckets are such places."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import ClassVar

from holdfast.runtime.errors import ServerUnreachable

Location = Mapping[str, str]
"""What a claim says of the place beside names: enough to find the objects after the setting has changed."""


class PayloadsUnreachable(ServerUnreachable):
    """A payload cannot be stored or read; the message names place, reason and way out."""


class Store(ABC):
    """A place of objects. Names are 64 hexadecimal digits; an object is written once and never changes."""

    name: ClassVar[str]
    """Part of every claim, so it never changes."""

    @property
    def location(self) -> Location:
        """The location that claims of this store hold."""
        return {}

    @property
    def period(self) -> str:
        """The period in which payloads share objects; "" where an object's age begins anew with each use."""
        return ""

    @abstractmethod
    def locate(self, name: str) -> str:
        """Return the place of an object, for people."""

    @abstractmethod
    async def key(self) -> bytes:
        """Return the key by which this store's objects are named, made with the first one.

        Raises `PayloadsUnreachable`.
        """

    @abstractmethod
    async def renew(self, sizes: Mapping[str, int]) -> set[str]:
        """Return the names of the objects that are there, with these sizes; their age begins anew.

        Raises `PayloadsUnreachable`.
        """

    @abstractmethod
    async def write(self, objects: Mapping[str, bytes]) -> None:
        """Write objects, each whole or not at all. Raises `PayloadsUnreachable`."""

    @abstractmethod
    async def read(self, names: Collection[str], location: Location) -> dict[str, bytes]:
        """Return objects by their names. Raises `PayloadsUnreachable` if one is missing."""
