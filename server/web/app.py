"""The application: routes of pages and API, the sign-in before them, errors as they expect them."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import Request
from starlette.responses import Response

from holdfast.server.web.api import API
from holdfast.server.web.codec import CODEC_ROUTES, CodecOrigin
from holdfast.server.web.gate import Gate
from holdfast.server.web.hooks import HOOK_ROUTES, load_hooks
from holdfast.server.web.metrics import HEALTH, METRICS, Metrics
from holdfast.server.web.pages import PAGES
from holdfast.server.web.pages.errors import error_page, fault_page
from holdfast.server.web.pages.templating import find_text_folders
from holdfast.server.web.problems import EXPECTED_ERRORS, WebProblem, make_problem
from holdfast.server.web.provider import provider_pages
from holdfast.server.web.security import HEADERS, Addresses, Csrf, Deadline, Patience, SecurityHeaders
from holdfast.server.web.sign_in import LINK_PAGES, PROGRAMS, SIGN_IN_PAGES, SignIn
from holdfast.server.web.site import Site


async def _handle_refusal(request: Request, error: Exception) -> Response:
    """Answer what does not pass the door: a program with a problem document, a person with a page."""
    if request.url.path.startswith(PROGRAMS):
        return make_problem(error).response()
    return await error_page(request, error)


async def _handle_fault(request: Request, error: Exception) -> Response:
    """Answer where a fault of ours is met. The server logs the error: it is raised again behind this."""
    if request.url.path.startswith(PROGRAMS):
        response: Response = WebProblem(500, "fault", "the server has a fault; its log says more").response()
    else:
        response = await fault_page(request, error)
    response.headers.update(HEADERS)  # it is made outside of what adds them
    return response


def create_app(
    site: Site, gate: Gate | None = None, patience: Patience | None = None, *, strict: bool = True
) -> Starlette:
    """Return the ASGI application for a site. Raises `ConfigError` for hooks or texts with problems.

    Args:
        site: The site.
        gate: Who may enter; by default the gate of the site's configuration.
        patience: How long a request may take.
    """
    gate = gate or Gate.of(site.config, None if site.record is None else site.record.store)
    app = Starlette(
        routes=[
            *HEALTH,
            *METRICS,
            *CODEC_ROUTES,
            *API,
            *HOOK_ROUTES,
            *SIGN_IN_PAGES,
            *provider_pages(gate),
            *LINK_PAGES,
            *PAGES,
        ],
        exception_handlers={**dict.fromkeys(EXPECTED_ERRORS, _handle_refusal), Exception: _handle_fault},
        middleware=[
            # The first is the outermost. This one answers what browsers ask without cookies, which the sign-in refuses.
            Middleware(CodecOrigin, config=site.config),
            Middleware(SecurityHeaders, gate=gate),
            # Those of the four below, which Starlette's own handling of the routes' exceptions is inside of.
            Middleware(ExceptionMiddleware, handlers=dict.fromkeys(EXPECTED_ERRORS, _handle_refusal)),
            Middleware(Addresses, gate=gate),
            Middleware(SignIn, gate=gate),
            Middleware(Csrf, gate=gate),
            Middleware(Deadline, patience=patience or Patience()),
        ],
    )
    app.state.hooks = load_hooks(site.config, strict=strict)
    app.state.text_folders = find_text_folders(site.config)
    app.state.site, app.state.gate, app.state.metrics = site, gate, Metrics(site)
    return app
