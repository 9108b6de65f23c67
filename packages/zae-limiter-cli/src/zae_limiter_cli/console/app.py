"""The routes of the console. Endpoints are sync: each runs in a thread, as the repository's requests do."""

import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import isinf
from time import monotonic
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

from jinja2 import Environment, PackageLoader, select_autoescape
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from zae_limiter import ValidationError, ZAELimiterError

from ..errors import CommandError, one_line
from ..live.rows import ORDERS, Place
from ..live.running import CHANGES, SECONDS, command_of, run
from ..rates import amount
from ..skipped import collecting, lines_of, taken
from ..times import duration
from .access import COOKIE, HEADERS, Access, same_origin
from .applies import Applies
from .bills import BYS, By, read_bill
from .figures import by_window, label
from .pages import SPANS, Pages, Span

WIDTH: Final = 100  # columns of a command's output
MOST_TENANTS: Final = 100  # on the page; the file has all
LONGEST_APPLY: Final = 900  # seconds
MOST_APPLIES: Final = 20
SHAPES: Final = ("tree", "list")
VENDORED: Final = "/static/vendor/"
KEPT: Final = {"Cache-Control": "max-age=3600"}  # of a library, which says nothing about anybody
CHANGES_NOTHING: Final = "This console changes nothing."
OPEN: Final = "Open the address that the terminal shows."
USED: Final = f"This address was used, or it is another one. {OPEN}"
BROKEN: Final = "The console has a fault, which its terminal shows. Other pages may work."


@dataclass(frozen=True, slots=True)
class Console:
    """The pages, and who may see and change what."""

    pages: Pages
    applies: Applies
    access: Access
    namespace: str
    allow_changes: bool
    every: float

    def overview(self, request: Request) -> Response:
        """Show the rows, as a tree or as a table, and the health of the stack."""
        now = {"verdict": self.pages.verdict(monotonic()), **self._figures()}
        self.pages.look_how_late(monotonic())
        return self._page("overview.html", request, health=self.pages.health(), **now, **self._rows(request))

    def verdict(self, request: Request) -> Response:
        """Return the verdict alone, which the page asks for as it does for the rows."""
        return self._page("verdict.html", request, verdict=self.pages.verdict(monotonic()), health=self.pages.health())

    def figures(self, request: Request) -> Response:
        """Return the pictures of the start page alone, which it asks for now and then."""
        return self._page("figures.html", request, **self._figures())

    def rows(self, request: Request) -> Response:
        """Return the rows alone, which the page asks for again and again."""
        return self._page("rows.html", request, health=self.pages.health(), **self._rows(request))

    def counted(self, _: Request) -> Response:
        """Return the line of the header alone, which every page asks for now and then."""
        self.pages.look_how_late(monotonic())
        return HTMLResponse(escape(self.pages.late))

    async def here(self, _: Request) -> Response:
        """Say that the session goes on, to a page that stays on a screen."""
        return Response(status_code=204)

    def bucket(self, request: Request) -> Response:
        """Show why an entity is refused on a resource, and what it used."""
        place = _place(request.query_params)
        found = self.pages.why(place, _span(request))
        return self._page("bucket.html", request, place=place, health=self.pages.health(), **found)

    def usage(self, request: Request) -> Response:
        """Show the usage of the namespace."""
        usage = self.pages.usage(_span(request), monotonic())
        windows = [label(when, usage.step) for when in usage.at]
        by, progress = by_window(usage.step), self.pages.progress()
        return self._page("usage.html", request, usage=usage, windows=windows, by=by, progress=progress)

    def changes(self, request: Request) -> Response:
        """Show who changed what, a page at a time, and with the first the applies."""
        before = request.query_params.get("before")
        changes, older = self.pages.changes(before)
        applies, problem = ((), "") if before else self._applies()
        return self._page(
            "changes.html", request, changes=changes, older=older, before=before, applies=applies, problem=problem
        )

    def cost(self, request: Request) -> Response:
        """Show what the limiter costs by tenant."""
        by, month = _by(request), request.query_params.get("month", "")
        bill = read_bill(self.pages.options, by, month, WIDTH)
        return self._page("cost.html", request, bill=bill, by=by, bys=BYS, month=month, most=MOST_TENANTS)

    def cost_csv(self, request: Request) -> Response:
        """Return what the limiter costs by tenant as a file, all tenants."""
        bill = read_bill(self.pages.options, _by(request), request.query_params.get("month", ""), WIDTH)
        if bill.problem:
            return self._page("denied.html", request, status=400, reason=bill.problem)
        headers = {"Content-Disposition": f'attachment; filename="cost-{bill.month}.csv"'}
        return Response(bill.csv(), media_type="text/csv", headers=headers)

    def plan_back(self, request: Request) -> Response:
        """Show what a rollback would change, and ask."""
        if not self.allow_changes:
            return self._page("denied.html", request, status=403, reason=CHANGES_NOTHING)
        back = self.applies.plan_back(_serial(request.query_params))
        return self._page("rollback.html", request, back=back)

    async def roll_back(self, request: Request) -> Response:
        """Run the command that rolls back, bound to the plan that was shown; its deletes need their own consent."""
        from starlette.concurrency import run_in_threadpool

        if (refused := self._refused_change(request)) is not None:
            return refused
        form = await _form(request)
        serial = _serial(form)
        back = await run_in_threadpool(self.applies.plan_back, serial)
        if form.get("hash") != back.hash:
            raise CommandError(f"The plan of a rollback to {serial} is another by now: look at it again.")
        if back.deleted and form.get("deletes") != "yes":
            raise CommandError(f"The plan deletes {back.deleted}: allow that on its page, then apply it.")
        words = ["limits", "rollback", str(serial), f"--expect-hash={back.hash}", "--yes"]
        words += ["--allow-deletes"] if back.deleted else []
        words += [*self.pages.options, *self._author(request)]
        title = f"Rollback to {serial}"
        return await self._run(request, words, title=title, back="changes", seconds=LONGEST_APPLY)

    async def change(self, request: Request) -> Response:
        """Run a command that changes limits, for a form of this console."""
        if (refused := self._refused_change(request)) is not None:
            return refused
        form = await _form(request)
        what = str(form.get("what"))
        if what not in CHANGES:
            raise ValidationError("what", what, f"must be one of {', '.join(sorted(CHANGES))}")
        place = _place(form)
        words = command_of(what, place, [*self.pages.options, *self._author(request)])
        back = f"bucket?{urlencode({'entity': place.entity_id, 'resource': place.resource})}"
        return await self._run(request, words, title=f"{place.entity_id} on {place.resource}", back=back)

    async def ask_in(self, request: Request) -> Response:
        """Show the button that lets this browser in: whatever only looks at the address must not spend its token."""
        token = request.query_params.get("token", "")
        if not self.access.fits(token):
            return self._page("denied.html", request, status=403, reason=USED)
        return self._page("enter.html", request, token=token)

    async def enter(self, request: Request) -> Response:
        """Let the browser in that sends the token, by the button. The body of a stranger is not read."""
        session = self.access.enter(request.query_params.get("token", "")) if same_origin(request.headers) else None
        if session is None:
            return self._page("denied.html", request, status=403, reason=USED)
        answer = RedirectResponse(f"/{session.path}/", status_code=303)
        answer.set_cookie(COOKIE, session.cookie, path=f"/{session.path}/", httponly=True, samesite="strict")
        return answer

    async def leave(self, request: Request) -> Response:
        """End the session."""
        if not same_origin(request.headers):
            return self._page("denied.html", request, status=403, reason=CHANGES_NOTHING)
        self.access.leave()
        answer = self._page("denied.html", request, reason=f"The session ended. {OPEN}")
        answer.delete_cookie(COOKIE, path=f"/{request.path_params['session']}/")
        return answer

    async def nowhere(self, request: Request, _: Exception) -> Response:
        """Answer a request for no page."""
        return self._page("denied.html", request, status=404, reason=f"There is no such page. {OPEN}")

    def guarded(self, endpoint: Callable[[Request], Any], *, idle: bool = False) -> Callable[[Request], Any]:
        """Return the endpoint for those who may come in; errors of core become a page. ``idle``: see `Access.user`."""
        from starlette.concurrency import run_in_threadpool

        async def answer(request: Request) -> Response:
            if self._user(request, idle=idle) is None:
                reason = OPEN
                if self.access.identity_header is not None:
                    reason = f"The proxy sent no {self.access.identity_header}."
                return self._page("denied.html", request, status=403, reason=reason)
            request.state.inside = True
            try:
                with collecting():
                    found: Response | Awaitable[Response] = await run_in_threadpool(endpoint, request)
                    return found if isinstance(found, Response) else await found
            except CommandError as error:
                return self._page("denied.html", request, status=400, reason=str(error), inside=True)
            except ZAELimiterError as error:
                reason = one_line(str(error))
                return self._page("denied.html", request, status=_status(error), reason=reason, inside=True)

        return answer

    def broken(self, request: Request, _: Exception) -> Response:
        """Return the page of a fault of the console itself, which its server logs with a traceback."""
        return self._page("denied.html", request, status=500, reason=BROKEN)

    def _refused_change(self, request: Request) -> Response | None:
        """Return the answer to a change that this console does not make, or that a page of another site asks for."""
        if self.allow_changes and same_origin(request.headers):
            return None
        return self._page("denied.html", request, status=403, reason=CHANGES_NOTHING)

    def _author(self, request: Request) -> list[str]:
        """Return the option that names the author of a change; without a proxy it is the caller's identity."""
        return [] if self.access.identity_header is None else [f"--principal={self._user(request)}"]

    async def _run(
        self, request: Request, words: list[str], *, title: str, back: str, seconds: int = SECONDS
    ) -> Response:
        from starlette.concurrency import run_in_threadpool

        output = await run_in_threadpool(run, words, WIDTH, seconds)
        command = shlex.join(["zae-limiter", *words])
        return self._page("output.html", request, command=command, output=output, title=title, back=back)

    def _applies(self) -> tuple[Sequence[Any], str]:
        """Return the last applies, or why they are not listed."""
        try:
            return self.applies.list_last()[:MOST_APPLIES], ""
        except CommandError as error:  # who may read the table may not ask the planner
            return (), str(error)

    def _figures(self) -> dict[str, Any]:
        return {"minutes": self.pages.minutes(monotonic()), "budgets": self.pages.budgets(monotonic())}

    def _rows(self, request: Request) -> dict[str, Any]:
        order = request.query_params.get("by", "refused")
        order = order if order in ORDERS else "refused"
        only = request.query_params.get("only", "")
        shape = "list" if request.query_params.get("shape") == "list" else "tree"
        look = self.pages.rows if shape == "list" else self.pages.tree
        found = {"rows": look(order, only, monotonic()), "progress": self.pages.progress()}
        skipped = {"unreadable": lines_of(self.pages.unreadable())}
        return {**found, **skipped, "order": order, "only": only, "orders": ORDERS, "shape": shape, "shapes": SHAPES}

    def _user(self, request: Request, *, idle: bool = False) -> str | None:
        return self.access.user(request.headers, request.cookies, request.path_params.get("session", ""), idle=idle)

    def _page(self, name: str, request: Request, *, status: int = 200, **values: Any) -> Response:
        template = TEMPLATES.get_template(name)
        span = request.query_params.get("span", "24h")
        values.setdefault("unreadable", lines_of(taken()))
        values.setdefault("inside", getattr(request.state, "inside", False))
        text = template.render(
            console=self,
            path=request.url.path.rpartition("/")[2] or "./",
            query=request.url.query,
            span=span,
            spans=SPANS,
            isinf=isinf,
            duration=duration,
            **values,
        )
        return HTMLResponse(text, status_code=status)


TEMPLATES: Final = Environment(
    loader=PackageLoader("zae_limiter_cli.console"),
    autoescape=select_autoescape(),
    trim_blocks=True,
    lstrip_blocks=True,
)
TEMPLATES.globals["amount"] = amount


def application(console: Console, hosts: Sequence[str]) -> ASGIApp:
    """Return the web application, which answers to these hosts."""
    guarded = console.guarded
    pages = [
        Route("/", guarded(console.overview)),
        Route("/rows", guarded(console.rows, idle=True)),
        Route("/verdict", guarded(console.verdict, idle=True)),
        Route("/figures", guarded(console.figures, idle=True)),
        Route("/counted", guarded(console.counted, idle=True)),
        Route("/here", guarded(console.here, idle=True)),
        Route("/bucket", guarded(console.bucket)),
        Route("/usage", guarded(console.usage)),
        Route("/changes", guarded(console.changes)),
        Route("/cost", guarded(console.cost)),
        Route("/cost.csv", guarded(console.cost_csv)),
        Route("/rollback", guarded(console.plan_back)),
        Route("/rollback", guarded(console.roll_back), methods=["POST"]),
        Route("/change", guarded(console.change), methods=["POST"]),
    ]
    routes: list[BaseRoute] = [Mount("/static", StaticFiles(packages=[("zae_limiter_cli.console", "static")]))]
    if console.access.identity_header is None:
        pages.append(Route("/leave", guarded(console.leave), methods=["POST"]))
        routes += [Route("/enter", console.ask_in), Route("/enter", console.enter, methods=["POST"])]
        routes.append(Mount("/{session}", routes=pages))  # the pages' own addresses are relative
    else:
        routes += pages
    app = Starlette(
        routes=routes,
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))],
        exception_handlers={404: console.nowhere, Exception: console.broken},
    )
    return _with_headers(app)


def _with_headers(app: ASGIApp) -> ASGIApp:
    """Return the application with the headers on every answer, also on those of a host or a path that there is none of,
    and of a fault: so it is around all that Starlette does.
    """

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        async def add(message: Message) -> None:
            if message["type"] == "http.response.start":
                kept = scope["path"].startswith(VENDORED)
                MutableHeaders(scope=message).update({**HEADERS, **KEPT} if kept else HEADERS)
            await send(message)

        await app(scope, receive, add)

    return answer


def _place(values: Any) -> Place:
    from zae_limiter.values.naming import check_identifier, check_resource

    return Place(
        check_identifier("entity", values.get("entity", "")), check_resource("resource", values.get("resource", ""))
    )


async def _form(request: Request) -> dict[str, str]:
    return dict(parse_qsl((await request.body()).decode(errors="replace")))


def _serial(values: Mapping[str, str]) -> int:
    given = values.get("serial", "")
    if not (given.isascii() and given.isdigit() and int(given[:10]) > 0 and len(given) <= 10):
        raise ValidationError("serial", given, "must be the serial of an apply, a whole number of 1 or more")
    return int(given)


def _by(request: Request) -> By:
    given = request.query_params.get("by", BYS[0])
    return next((each for each in BYS if each == given), BYS[0])


def _span(request: Request) -> Span:
    return "30d" if request.query_params.get("span") == "30d" else "24h"


def _status(error: ZAELimiterError) -> int:
    return 400 if isinstance(error, ValidationError) else 503
