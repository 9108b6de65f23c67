"""The routes of the console. Endpoints are sync: each runs in a thread, as the repository's requests do."""

import shlex
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from math import isinf
from time import monotonic
from typing import Any, Final
from urllib.parse import parse_qsl

from jinja2 import Environment, PackageLoader, select_autoescape
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from zae_limiter import ValidationError, ZAELimiterError

from ..errors import one_line
from ..live.rows import ORDERS, Place
from ..live.running import CHANGES, command_of, run
from .access import COOKIE, HEADERS, Access, same_origin
from .pages import SPANS, Pages, Span

WIDTH: Final = 100  # columns of a command's output
DAY: Final = 24  # hours


@dataclass(frozen=True, slots=True)
class Console:
    """The pages, and who may see and change what."""

    pages: Pages
    access: Access
    namespace: str
    allow_changes: bool
    every: float

    def overview(self, request: Request) -> Response:
        """Show the table, and the health of the stack."""
        return self._page("overview.html", request, health=self.pages.health(), **self._rows(request))

    def rows(self, request: Request) -> Response:
        """Return the table alone, which the page asks for again and again."""
        return self._page("rows.html", request, health=self.pages.health(), **self._rows(request))

    def bucket(self, request: Request) -> Response:
        """Show why an entity is refused on a resource, and what it used."""
        place = _place(request.query_params)
        span = _span(request)
        charts = self.pages.charts(place.entity_id, place.resource, span)
        return self._page("bucket.html", request, place=place, charts=charts, **self.pages.why(place))

    def usage(self, request: Request) -> Response:
        """Show the usage of the namespace."""
        return self._page("usage.html", request, charts=self.pages.charts(None, None, _span(request)))

    def changes(self, request: Request) -> Response:
        """Show who changed what."""
        return self._page("changes.html", request, changes=self.pages.changes(DAY))

    async def change(self, request: Request) -> Response:
        """Run a command that changes limits, for a form of this console."""
        from starlette.concurrency import run_in_threadpool

        if not self.allow_changes or not same_origin(request.headers):
            return self._page("denied.html", request, status=403, reason="This console changes nothing.")
        form = dict(parse_qsl((await request.body()).decode(errors="replace")))
        what = str(form.get("what"))
        if what not in CHANGES:
            raise ValidationError("what", what, f"must be one of {', '.join(sorted(CHANGES))}")
        author = [] if self.access.identity_header is None else ["--principal", str(self._user(request))]
        words = command_of(what, _place(form), [*self.pages.options, *author])
        output = await run_in_threadpool(run, words, WIDTH)
        command = shlex.join(["zae-limiter", *words])
        return self._page("output.html", request, command=command, output=output, place=_place(form))

    def enter(self, request: Request) -> Response:
        """Let the browser in that brings the token."""
        session = self.access.enter(request.query_params.get("token", ""))
        if session is None:
            reason = "This address was used, or it is not the one that the terminal shows: start the console again."
            return self._page("denied.html", request, status=403, reason=reason)
        answer = RedirectResponse("/", status_code=303)
        answer.set_cookie(COOKIE, session, httponly=True, samesite="strict")
        return answer

    def guarded(self, endpoint: Callable[[Request], Any]) -> Callable[[Request], Any]:
        """Return the endpoint for those who may come in; errors of core become a page."""
        from starlette.concurrency import run_in_threadpool

        async def answer(request: Request) -> Response:
            if self._user(request) is None:
                reason = "Open the address that the terminal shows."
                if self.access.identity_header is not None:
                    reason = f"The proxy sent no {self.access.identity_header}."
                return self._page("denied.html", request, status=403, reason=reason)
            try:
                found: Response | Awaitable[Response] = await run_in_threadpool(endpoint, request)
                return found if isinstance(found, Response) else await found
            except ZAELimiterError as error:
                return self._page("denied.html", request, status=_status(error), reason=one_line(str(error)))

        return answer

    def _rows(self, request: Request) -> dict[str, Any]:
        order = request.query_params.get("by", "refused")
        order = order if order in ORDERS else "refused"
        only = request.query_params.get("only", "")
        rows = self.pages.rows(order, only, monotonic())
        return {"rows": rows, "order": order, "only": only, "orders": ORDERS}

    def _user(self, request: Request) -> str | None:
        return self.access.user(request.headers, request.cookies)

    def _page(self, name: str, request: Request, *, status: int = 200, **values: Any) -> Response:
        template = TEMPLATES.get_template(name)
        span = request.query_params.get("span", "24h")
        text = template.render(
            console=self, path=request.url.path, query=request.url.query, span=span, spans=SPANS, isinf=isinf, **values
        )
        return HTMLResponse(text, status_code=status)


TEMPLATES: Final = Environment(
    loader=PackageLoader("zae_limiter_cli.console"),
    autoescape=select_autoescape(),
    trim_blocks=True,
    lstrip_blocks=True,
)


def application(console: Console, hosts: Sequence[str]) -> Starlette:
    """Return the web application, which answers to these hosts."""
    guarded = console.guarded
    routes = [
        Route("/", guarded(console.overview)),
        Route("/rows", guarded(console.rows)),
        Route("/bucket", guarded(console.bucket)),
        Route("/usage", guarded(console.usage)),
        Route("/changes", guarded(console.changes)),
        Route("/change", guarded(console.change), methods=["POST"]),
        Route("/enter", console.enter),
        Mount("/static", StaticFiles(packages=[("zae_limiter_cli.console", "static")])),
    ]
    app = Starlette(routes=routes, middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))])
    return _with_headers(app)


def _with_headers(app: Starlette) -> Starlette:
    from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint

    async def add(request: Request, following: RequestResponseEndpoint) -> Response:
        answer = await following(request)
        answer.headers.update(HEADERS)
        return answer

    app.add_middleware(BaseHTTPMiddleware, dispatch=add)
    return app


def _place(values: Any) -> Place:
    from zae_limiter.values.naming import check_identifier, check_resource

    return Place(
        check_identifier("entity", values.get("entity", "")), check_resource("resource", values.get("resource", ""))
    )


def _span(request: Request) -> Span:
    return "30d" if request.query_params.get("span") == "30d" else "24h"


def _status(error: ZAELimiterError) -> int:
    return 400 if isinstance(error, ValidationError) else 503
