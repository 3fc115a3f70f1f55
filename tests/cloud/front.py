"""A gate like Temporal Cloud's before the server of a test: TLS, client certificates, API keys, no operator's service.

It hands each call on as it came, byte for byte. All calls of Temporal are unary.
"""

from __future__ import annotations

import datetime
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

grpc = pytest.importorskip("grpc", reason="the gate needs grpcio, of the extra dev: make test installs it")
ADMINISTRATION = "/temporal.api.operatorservice"


@dataclass
class Front(grpc.GenericRpcHandler):  # type: ignore[misc]
    """What stands before the server, and what it has seen.

    Args:
        key: The API key that it asks for; None: none.
        operator: False: search attributes are not registered through it.
    """

    channel: grpc.aio.Channel
    key: str | None = None
    operator: bool = True
    namespaces: set[str] | None = None

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        """See grpc."""
        metadata = dict(details.invocation_metadata)
        return grpc.unary_unary_rpc_method_handler(self._answering(details.method, metadata))

    def _answering(self, method: str, metadata: dict[str, Any]) -> Callable[..., Awaitable[bytes]]:
        async def answer(request: bytes, context: grpc.aio.ServicerContext) -> bytes:
            if self.key is not None and metadata.get("authorization") != f"Bearer {self.key}":
                await context.abort(grpc.StatusCode.UNAUTHENTICATED, "Request unauthorized.")
            if method.startswith(ADMINISTRATION) and not self.operator:
                await context.abort(grpc.StatusCode.PERMISSION_DENIED, "Request unauthorized.")
            if self.namespaces is not None and (name := metadata.get("temporal-namespace")):
                self.namespaces.add(name)
            try:
                reply: bytes = await self.channel.unary_unary(method)(request, timeout=context.time_remaining())
            except grpc.aio.AioRpcError as error:
                with suppress(ValueError):
                    context.set_trailing_metadata(error.trailing_metadata())
                await context.abort(error.code(), error.details())
            return reply

        return answer


@dataclass(frozen=True)
class Authority:
    """A certificate authority of a test, whose certificates and keys are files."""

    folder: Path
    name: str
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @staticmethod
    def make(folder: Path, name: str = "authority") -> Authority:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _certificate(name, key.public_key(), name, key, is_authority=True)
        _write(folder / f"{name}.pem", certificate)
        return Authority(folder, name, key, certificate)

    @property
    def path(self) -> Path:
        return self.folder / f"{self.name}.pem"

    def issue(self, name: str) -> tuple[Path, Path]:
        """Return the files of a new certificate and of its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _certificate(name, key.public_key(), self.name, self.key)
        paths = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        _write(paths[0], certificate)
        paths[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return paths


def _write(path: Path, certificate: x509.Certificate) -> None:
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def _certificate(
    name: str, public: Any, issuer: str, signer: ec.EllipticCurvePrivateKey, *, is_authority: bool = False
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(signer, hashes.SHA256())
    )
