"""Receivers of notices on this machine: a web server that keeps what it gets, and a mail server."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import email
import email.policy
import json
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Got:
    """A request that a web server got."""

    path: str
    headers: dict[str, str]
    body: bytes
    port: int = 0
    """Of the client: the same for requests of one connection."""

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class WebServer:
    """A web server: replies with the statuses of `replies` in order, then with 200."""

    url: str
    got: list[Got] = field(default_factory=list)
    replies: list[int] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b"ok"
    own_date: str | None = None
    """The time by the server's clock; None: the true one."""
    hold: threading.Event = field(default_factory=threading.Event)
    """Cleared, it keeps every reply back."""

    def __post_init__(self) -> None:
        self.hold.set()


@contextmanager
def web_server() -> Iterator[WebServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True  # a client may keep its connection
    server.state = WebServer(f"http://127.0.0.1:{server.server_port}")  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server.state  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        state: WebServer = self.server.state  # type: ignore[attr-defined]
        body = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        state.got.append(Got(self.path, headers, body, self.client_address[1]))
        state.hold.wait()
        self.send_response(state.replies.pop(0) if state.replies else 200)
        for name, value in state.headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(state.body)))
        with contextlib.suppress(OSError):  # the client may have been killed
            self.end_headers()
            self.wfile.write(state.body)

    def date_time_string(self, timestamp: float | None = None) -> str:
        state: WebServer = self.server.state  # type: ignore[attr-defined]
        return state.own_date or super().date_time_string(timestamp)  # type: ignore[arg-type]

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@dataclass
class Mailbox:
    """What a mail server got."""

    port: int = 0
    mails: list[tuple[list[str], EmailMessage]] = field(default_factory=list)
    """Recipients of the envelope, and the mail."""


@asynccontextmanager
async def mail_server() -> AsyncIterator[Mailbox]:
    box = Mailbox()
    server = await asyncio.start_server(lambda reader, writer: _serve_mail(box, reader, writer), "127.0.0.1", 0)
    box.port = server.sockets[0].getsockname()[1]
    async with server:
        yield box


async def _serve_mail(box: Mailbox, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """As much of SMTP (RFC 5321) as a client needs."""
    writer.write(b"220 test\r\n")
    to: list[str] = []
    while line := (await reader.readline()).decode().strip():
        verb = line.upper()
        if verb.startswith("RCPT TO:"):
            to.append(line[8:].partition(" ")[0].strip("<>"))
        if verb == "DATA":
            writer.write(b"354 go on\r\n")
            text = (await reader.readuntil(b"\r\n.\r\n")).removesuffix(b".\r\n").replace(b"\r\n..", b"\r\n.")
            box.mails.append((to, email.message_from_bytes(text, policy=email.policy.default)))  # type: ignore[arg-type]
            to = []
        writer.write(b"221 bye\r\n" if verb == "QUIT" else b"250 ok\r\n")
        if verb == "QUIT":
            break
    writer.close()


def by_openssl(secret: str, content: bytes) -> str:
    """The signature as OpenSSL makes it."""
    key = base64.b64decode(secret.removeprefix("whsec_")).hex()
    command = ["openssl", "dgst", "-sha256", "-mac", "HMAC", "-macopt", f"hexkey:{key}", "-binary"]
    return (
        "v1,"
        + base64.b64encode(subprocess.run(command, input=content, capture_output=True, check=True).stdout).decode()
    )
