"""The context of the pages and the API: the configuration, the runs and the settings of the server."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from starlette.requests import HTTPConnection

from holdfast.blueprint.people import USER
from holdfast.client.permissions import Permissions, RunAccessCache
from holdfast.client.runs import Runs
from holdfast.protocol.access import AccessRules, Capability, Person
from holdfast.protocol.people import Groups
from holdfast.runtime.config import Config
from holdfast.server.record.record import Record
from holdfast.server.web.delivering import EventDelivery
from holdfast.server.web.dispatches import Dispatches
from holdfast.server.web.identity import Identity, WebScope, identity_of
from holdfast.server.web.live import Live
from holdfast.server.web.questions import OpenQuestionCache
from holdfast.server.web.streams import Streams
from holdfast.server.web.upkeep import Upkeep


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

    @cached_property
    def access_rules(self) -> AccessRules:
        """Return who may do what."""
        return self.config.access_rules()

    @cached_property
    def run_access(self) -> RunAccessCache:
        """Return what the runs say of the access to them."""
        return RunAccessCache()

    def runs_of(self, identity: Identity) -> Runs:
        """Return the runs as this person sees and commands them: what is sent carries their name, groups and proof."""
        runs = self.runs.acting_as(identity.sender)
        return runs.acting_as(identity.sender, self.permissions_of(identity, runs.answering.known_groups))

    def permissions_of(self, identity: Identity, groups: Groups) -> Permissions:
        """Return what a person may do, with the groups that they are in."""
        # A session of a browser has every scope; a token was made for what its scopes say.
        holds_steer = identity.token is not None and "steer" in identity.scopes
        person = Person.of(identity.user, groups, holds_steer=holds_steer)
        if identity.only is not None:  # a deputy is told of the question of somebody who is away, and sees it
            absent = {f"{USER}{name}" for name, who in self.config.people.items() if who.deputy == identity.user}
            person = replace(person, names=person.names | absent)
        return Permissions(person, self.access_rules, self.run_access)


async def permit(connection: HTTPConnection, capability: Capability) -> Runs:
    """Return the runs as the person of a request sees them, where they may do something with the run of its path.

    Raises:
        HTTPException: 401 for nobody; 403 where a token or a link is not for it.
        UnknownRun: They may not see the run, or there is none.
        Refusal: They may not do it.
    """
    scope: WebScope = "steer" if capability in ("steer", "administer") else "read" if capability == "see" else "answer"
    runs = site_of(connection).runs_of(identity_of(connection, scope))
    await runs.require(capability, str(connection.path_params["run"]))
    return runs


def site_of(connection: HTTPConnection) -> Site:
    """Return the site of a request."""
    site: Site = connection.app.state.site
    return site
