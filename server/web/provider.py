"""Sign in with an OpenID Connect provider: authorization code with PKCE, state and nonce; claims become names."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping
from urllib.parse import urlsplit

import httpx2
from authlib.integrations.base_client.errors import OAuthError  # type: ignore[import-untyped]
from authlib.integrations.starlette_client import OAuth  # type: ignore[import-untyped]
from joserfc.errors import JoseError
from starlette.middleware import Middleware
from starlette.middleware.sessions import SessionMiddleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from holdfast.blueprint.json_values import JSON
from holdfast.client.answering import Sender
from holdfast.protocol.people import read_user
from holdfast.runtime.config import ConfigError
from holdfast.runtime.config.sections import OidcSection
from holdfast.server.web.background import remember_claims
from holdfast.server.web.gate import Gate, read_groups, set_session
from holdfast.server.web.sign_in import SIGN_IN, local_path, sign_in_again
from holdfast.server.web.site import find_site

log = logging.getLogger("holdfast.serve")

PROVIDER = f"{SIGN_IN}/provider"
ATTEMPT_LIFE = 600
"""Seconds that somebody may take at the provider."""
PATIENCE = 10
"""Seconds that the provider gets for an answer."""
DISCOVERY = "/.well-known/openid-configuration"
SIGNATURES = "id_token_signing_alg_values_supported"
"""How a provider says that it signs ID tokens: `none` would sign anybody in, `HS…` is for keys that none publishes."""


class UnusableClaims(ValueError):
    """The provider has signed somebody in whose claims name no user; the message says which."""


class Provider:
    """The provider of a configuration, and the two pages that lead there and back. Raises `ConfigError`."""

    def __init__(self, gate: Gate, settings: OidcSection, url: str) -> None:
        self.gate, self.settings = gate, settings
        self.back = f"{url.rstrip('/')}{PROVIDER}/back"
        secret = _read_secret(settings)
        options = {"scope": " ".join(settings.scopes), "code_challenge_method": "S256", "timeout": PATIENCE}
        self.client = OAuth().register(
            "provider",
            client_id=settings.client_id,
            client_secret=secret,
            server_metadata_url=settings.issuer.rstrip("/") + DISCOVERY,
            # A client without a secret is a public one: the verifier alone proves that it began the sign-in.
            client_kwargs=options | ({} if secret else {"token_endpoint_auth_method": "none"}),
        )

    def pages(self) -> list[BaseRoute]:
        """Return the pages; between them the browser keeps state, nonce and verifier in a signed cookie."""
        is_secure = urlsplit(self.back).scheme == "https"
        attempts = Middleware(
            SessionMiddleware,
            secret_key=self.gate.mac("sign-in"),
            session_cookie="holdfast-sign-in",
            max_age=ATTEMPT_LIFE,
            path=SIGN_IN,
            https_only=is_secure,
        )
        return [Mount(PROVIDER, routes=[Route("/", self.go), Route("/back", self.come_back)], middleware=[attempts])]

    async def go(self, request: Request) -> Response:
        """Lead to the provider."""
        request.session["next"] = local_path(request.query_params.get("next"))
        try:
            answer: Response = await self.client.authorize_redirect(request, self.back)
        except (httpx2.HTTPError, OAuthError, ValueError) as error:
            return self._refuse(request, error)
        return answer

    async def come_back(self, request: Request) -> Response:
        """Take whom the provider has signed in."""
        to = local_path(request.session.pop("next", None))
        try:
            claims = await self._read_claims(request)
            sender = self.read_sender(claims)
        except (OAuthError, JoseError, httpx2.HTTPError, ValueError) as error:
            return self._refuse(request, error)
        await remember_claims(find_site(request), sender, claims)
        answer = RedirectResponse(to, 303)
        set_session(answer, self.gate, request, await asyncio.to_thread(self.gate.sessions.begin, sender))
        return answer

    async def _read_claims(self, request: Request) -> Mapping[str, JSON]:
        """Return the claims of the checked ID token, with what only the provider's user information has."""
        metadata = await self.client.load_server_metadata()
        signed = [name for name in metadata.get(SIGNATURES) or () if name != "none" and not name.startswith("HS")]
        metadata[SIGNATURES] = signed  # the client keeps its metadata, and takes what they list
        token = await self.client.authorize_access_token(request)
        claims: Mapping[str, JSON] | None = token.get("userinfo")
        if claims is None:
            raise UnusableClaims("the provider sent no ID token; scopes must have openid")
        wanted = [self.settings.user_claim, self.settings.groups_claim]
        if all(name is None or name in claims for name in wanted) or "userinfo_endpoint" not in metadata:
            return claims
        more = await self.client.userinfo(token=token)
        # OpenID Connect 5.3.2: what is said of another subject must not be used.
        return {**more, **claims} if more.get("sub") == claims.get("sub") else claims

    def read_sender(self, claims: Mapping[str, JSON]) -> Sender:
        """Return the person that claims name. Raises `UnusableClaims`."""
        name, names = self.settings.user_claim, self.settings.groups_claim
        user = claims.get(name)
        if name == "email" and claims.get("email_verified") is not True:
            raise UnusableClaims("the provider has not verified the e-mail address")
        named_user = read_user(f"user:{user}") if isinstance(user, str) else None
        if named_user is None:
            listed = ", ".join(sorted(claims))
            raise UnusableClaims(f"the claim {name} (user_claim) names no user; the provider sent {listed}")
        groups = claims.get(names) if names is not None else []
        listed_groups = groups if isinstance(groups, list) else [groups]
        return Sender(named_user, read_groups(group for group in listed_groups if isinstance(group, str)), "person")

    def _refuse(self, request: Request, error: Exception) -> Response:
        """Return the sign-in page; what the provider says goes to the log, and what the claims lack to the person."""
        log.warning("the sign-in with %s failed: %s: %s", self.settings.issuer, type(error).__name__, error)
        return sign_in_again(request, str(error) if isinstance(error, UnusableClaims) else None)


def provider_pages(gate: Gate) -> list[BaseRoute]:
    """Return the pages to sign in with the provider; none if there is none. Raises `ConfigError`."""
    oidc, url = gate.settings.oidc, gate.settings.url
    return Provider(gate, oidc, url).pages() if oidc is not None and url is not None else []


def _read_secret(settings: OidcSection) -> str | None:
    name = settings.client_secret_env
    if name is None:
        return None
    if not os.environ.get(name):
        raise ConfigError(f"serve.oidc.client_secret_env: {name} is not set; export {name}=…")
    return os.environ[name]
