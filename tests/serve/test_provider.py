"""Sign-in with an OpenID Connect provider that runs here: state, nonce and PKCE are the real ones."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import oidc_provider_mock
import pytest
from temporalio.client import Client

from holdfast.runtime.config.sections import OidcSection
from tests.serve.door import Door

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the provider's own

PERSON = oidc_provider_mock.User(
    sub="7",
    claims={
        "preferred_username": "Ana",
        "email": "ana@example.com",
        "email_verified": True,
        "teams": ["editors", "legal"],
    },
)
NAMELESS = oidc_provider_mock.User(sub="8", claims={"email": "eve@example.com", "email_verified": False})


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    with oidc_provider_mock.run_server_in_thread(user_claims=[PERSON, NAMELESS], require_nonce=True) as server:
        yield f"http://localhost:{server.server_port}"


@pytest.fixture
def door(temporal: Client, tmp_path: Path, issuer: str, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Door]:
    monkeypatch.setenv("OIDC_SECRET", "of the client")

    def make(**settings: Any) -> Door:
        oidc = OidcSection(issuer=issuer, client_id="holdfast", client_secret_env="OIDC_SECRET", **settings)
        return Door(temporal, tmp_path / "state", url="http://localhost:8090", oidc=oidc)

    return make


async def led_back(browser: httpx.AsyncClient, sub: str = "7") -> str:
    """Go to the provider and sign in there; the address to which it leads back."""
    away = await browser.get("/sign-in/provider/?next=/who")
    async with httpx.AsyncClient() as provider:
        back = await provider.post(away.headers["location"], data={"sub": sub})
    return back.headers["location"]


@pytest.mark.slow
async def test_the_claims_name_the_person_and_the_groups(door: Callable[..., Door]) -> None:
    browser = door(groups_claim="teams").browser()
    answer = await browser.get(await led_back(browser))
    assert answer.headers["location"] == "/who"
    seen = (await browser.get("/who")).json()
    assert (seen["user"].casefold(), seen["proof"]) == ("user:ana", "person")
    assert seen["groups"] == ["group:editors", "group:legal"]


async def test_the_request_has_state_nonce_and_challenge(door: Callable[..., Door]) -> None:
    away = await door().browser().get("/sign-in/provider/?next=/who")
    asked = parse_qs(urlsplit(away.headers["location"]).query)
    assert {"state", "nonce", "code_challenge"} <= asked.keys()
    assert asked["code_challenge_method"] == ["S256"]


async def test_another_browser_s_return_is_refused(door: Callable[..., Door]) -> None:
    made = door()
    back = await led_back(made.browser())
    answer = await made.browser().get(back)
    assert (answer.status_code, "holdfast-8090=" in str(answer.headers)) == (403, False)


@pytest.mark.slow
async def test_a_return_counts_once(door: Callable[..., Door]) -> None:
    browser = door().browser()
    back = await led_back(browser)
    codes = [(await browser.get(back)).status_code for _ in range(2)]
    assert codes == [303, 403]


async def test_a_changed_state_is_refused(door: Callable[..., Door]) -> None:
    browser = door().browser()
    back = await led_back(browser)
    assert (await browser.get(back.replace("state=", "state=x"))).status_code == 403


@pytest.mark.filterwarnings('ignore:JWS algorithm "none"')
async def test_a_token_without_a_signature_signs_nobody_in(
    door: Callable[..., Door], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even from a provider that says that it makes such tokens."""
    monkeypatch.setattr("oidc_provider_mock._app._JWS_ALG", "none")
    browser = door().browser()
    assert (await browser.get(await led_back(browser))).status_code == 403


@pytest.mark.slow
async def test_a_missing_claim_is_told(door: Callable[..., Door]) -> None:
    browser = door(user_claim="nick").browser()
    answer = await browser.get(await led_back(browser))
    assert (answer.status_code, "the claim nick (user_claim) names no user" in answer.text) == (403, True)


@pytest.mark.slow
async def test_an_address_that_is_not_verified_names_nobody(door: Callable[..., Door]) -> None:
    browser = door(user_claim="email").browser()
    assert (await browser.get(await led_back(browser, sub="8"))).status_code == 403


async def test_a_provider_that_does_not_answer_is_told(temporal: Client, tmp_path: Path) -> None:
    oidc = OidcSection(issuer="http://localhost:1", client_id="holdfast")
    door = Door(temporal, tmp_path / "state", url="http://localhost:8090", oidc=oidc)
    assert (await door.browser().get("/sign-in/provider/")).status_code == 403


async def test_no_one_time_link_is_made_beside_a_provider(door: Callable[..., Door]) -> None:
    assert 'name="code"' not in (await door().browser().get("/sign-in")).text
