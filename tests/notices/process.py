"""A notifier in a process that can be killed: `python -m tests.notices.process RECORD SECONDS CHANNEL=URL …`."""

from __future__ import annotations

import asyncio
import os
import sys

from holdfast.runtime.config import NOTICE_KINDS
from holdfast.server.notices.channels import AddressBook, Channel, Channels
from holdfast.server.notices.notifier import Notifier
from holdfast.server.notices.transports import Webhook
from holdfast.server.record.store import open_store


async def main(place: str, seconds: str, *named: str) -> None:
    urls = dict(pair.split("=", 1) for pair in named)
    channels = Channels({name: Channel(name, Webhook(url), NOTICE_KINDS) for name, url in urls.items()})
    notifier = Notifier(
        open_store(place), "default", channels, lambda: AddressBook({}, {}), lambda *_: "https://inbox/"
    )
    notifier.lease.seconds, notifier.lease.holder = float(seconds), str(os.getpid())
    await notifier.run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
