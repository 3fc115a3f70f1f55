"""The context of the pages and the API: the configuration, the runs and the settings of the server."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from starlette.requests import HTTPConnection

from holdfast.client.config import Config
from holdfast.client.record.record import Record
from holdfast.client.runs import Runs
from holdfast.client.serve.delivering import EventDelivery
from holdfast.client.serve.dispatches import Dispatches
from holdfast.client.serve.identity import Identity
from holdfast.client.serve.live import Live
from holdfast.client.serve.questions import OpenQuestionCache
from holdfast.client.serve.streams import Streams
from holdfast.client.serve.upkeep import Upkeep


@dataclass(frozen=True)
class Site:
    """The parts that every request shares. A request finds it as `request.app.state.site`."""

    config: Config
    runs: Runs
    ui_url: str | None = None
    """Temporal's own UI; None if it is not known."""
    address: str = ""
    """The address at which people reach the server, without a slash at its end, for links in messages."""
    record: Record | None = None
    """The record that this server fills; None where none is kept."""

    @cached_property
    def open_questions(self) -> OpenQuestionCache:
        """Return the cache of the open questions."""
        return OpenQuestionCache(self.runs.tree)

    @cached_property
    def delivery(self) -> EventDelivery:
        """Return the delivery of events of other systems."""
        return EventDelivery()

    @cached_property
    def dispatches(self) -> Dispatches:
        """Return what people are sending to questions now."""
        return Dispatches()

    @cached_property
    def streams(self) -> Streams:
        """Return the live streams that are open."""
        return Streams()

    @cached_property
    def live(self) -> Live:
        """Return what browsers look at now."""
        return Live(self.runs, self.record)

    @cached_property
    def upkeep(self) -> Upkeep:
        """Return the state of what works beside the pages."""
        return Upkeep(self.config, self.record)

    def runs_of(self, identity: Identity) -> Runs:
        """Return the runs as this person commands them: what is sent carries their name, groups and proof."""
        return self.runs.acting_as(identity.sender)


def site_of(connection: HTTPConnection) -> Site:
    """Return the site of a request."""
    site: Site = connection.app.state.site
    return site
