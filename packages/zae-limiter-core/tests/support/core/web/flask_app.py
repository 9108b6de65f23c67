"""Flask: the views of a decorator, and the same for every request."""

from typing import Any

from flask import Flask, Response, abort, request

from support.core.web import limits
from zae_limiter.integrations.flask import RateLimited, current_lease, init_app


def user() -> str:
    return request.headers["x-user"]


limited = RateLimited(lambda: limits.sync_limiter_of(user()), identity=user, resource="api", cost=limits.COST)

app = Flask(__name__)
init_app(app, units=limits.UNITS)


@app.get("/answer")
@limited
def answer() -> dict[str, str]:
    return {"user": user()}


@app.get("/stream")
@limited
def stream() -> Response:
    return Response(limits.sync_parts(current_lease()))


@app.get("/endless")
@limited
def endless() -> Response:
    return Response(limits.sync_endless(current_lease()))


@app.get("/fail")
@limited
def fail() -> str:
    raise limits.Failed


@app.get("/broken")
@limited
def broken() -> tuple[str, int]:
    return "broken", 500


@app.get("/more")
@limited
def more() -> str:
    current_lease().consume(tokens=limits.MORE)
    return "too much"


@app.get("/missing")
@limited
def missing() -> Any:
    abort(404)


@app.get("/balance")
def balance() -> dict[str, int]:
    return limits.sync_present().available(user(), "api")


def whole() -> Flask:
    """An application all of whose requests are limited."""
    app = Flask(__name__)
    init_app(app, units=limits.UNITS)
    app.before_request(
        RateLimited(
            lambda: limits.sync_limiter_of(user()),
            identity=user,
            resource="api",
            cost=lambda: limits.cost_of(request.path),
        ).acquire
    )
    for path, view in app_views().items():
        app.add_url_rule(path, view_func=view)
    return app


def app_views() -> dict[str, Any]:
    names = ("answer", "stream", "endless", "fail", "broken", "more", "balance")
    views = {name: app.view_functions[name] for name in names}
    return {f"/{name}": getattr(view, "__wrapped__", view) for name, view in views.items()}


every = whole()
