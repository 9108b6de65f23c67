"""Every integration, served by a real server to a real client: the same claims of each."""

import importlib.util
import json
import re
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import NamedTuple
from uuid import uuid4

import pytest

from support.core.web.serving import Served, serving

pytestmark = pytest.mark.slow


class App(NamedTuple):
    """An application: what serves it, what it needs, and its module."""

    server: str
    framework: str | None
    application: str
    django: str = ""

    def missing(self) -> str | None:
        """The name of a package that is not installed."""
        needed = filter(None, (self.server, self.framework))
        return next((name for name in needed if importlib.util.find_spec(name) is None), None)

    def serve(self) -> AbstractContextManager[Served]:
        return serving(self.server, f"support.core.web.{self.application}", ZAEL_TEST_DJANGO=self.django)


APPS = {
    "asgi": App("uvicorn", None, "plain_app:app"),
    "starlette": App("uvicorn", "starlette", "starlette_app:app"),
    "fastapi": App("uvicorn", "fastapi", "fastapi_app:app"),
    "litestar": App("uvicorn", "litestar", "litestar_app:app"),
    "quart": App("uvicorn", "quart", "quart_app:app"),
    "flask": App("gunicorn", "flask", "flask_app:app"),
    "flask-every": App("gunicorn", "flask", "flask_app:every"),
    "django-wsgi": App("gunicorn", "django", "django_app:app", "sync"),
    "django-asgi": App("uvicorn", "django", "django_app:app", "async"),
    "django-threads": App("uvicorn", "django", "django_app:app", "sync on asgi"),
}
ALL = [name for name in APPS if name != "django-threads"]  # it turns a stream without an end into a list
WHOLE = {"requests": 5, "tokens": 1000}
TAKEN = {"requests": 4, "tokens": 900}


HERE = [name for name in ALL if not APPS[name].missing()]
if not HERE:
    pytest.skip("a server is not installed: `just test-frameworks newest` has it", allow_module_level=True)


@pytest.fixture(scope="module", params=HERE)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def served(name: str) -> Iterator[Served]:
    app = APPS[name]
    skip_without(app)
    with app.serve() as served:
        yield served


def skip_without(app: App) -> None:
    if missing := app.missing():
        pytest.skip(f"{missing} is not installed: `just test-frameworks newest` has it")


@pytest.mark.parametrize("app", APPS.values(), ids=APPS)
def test_the_framework_and_its_server_are_installed(app: App) -> None:
    skip_without(app)


@pytest.fixture
def user() -> str:
    return f"user-{uuid4().hex}"


@pytest.mark.parametrize("name", ["asgi"], indirect=True)
def test_a_lifespan_passes_through(served: Served, user: str) -> None:
    assert served.balance(user)["lifespan"] == 1


def left(served: Served, user: str) -> dict[str, int]:
    found = served.balance(user)
    return {name: found[name] for name in WHOLE}


def settles(served: Served, user: str, *wanted: dict[str, int]) -> None:
    """The balance becomes one of these, once the server has noticed that the client left."""
    end = time.monotonic() + 20
    while (found := left(served, user)) not in wanted and time.monotonic() < end:
        time.sleep(0.05)
    assert found in wanted


@pytest.mark.long(keep=2)
def test_an_answer_has_the_fields_of_the_draft(served: Served, user: str) -> None:
    answer = served.get("/answer", user)
    assert (answer.status, json.loads(answer.body)) == (200, {"user": user}) or answer.body
    assert answer.headers["ratelimit-policy"] == '"requests";q=5;w=86400, "tokens";q=1000;qu="tokens";w=86400'
    assert re.fullmatch(r'"requests";r=4;t=172\d\d, "tokens";r=900;t=87', answer.headers["ratelimit"])
    assert "retry-after" not in answer.headers
    assert left(served, user) == TAKEN


def test_a_refusal_is_a_problem_document(served: Served, user: str) -> None:
    for _ in range(5):
        assert served.get("/answer", user).status == 200
    answer = served.get("/answer", user)
    document = json.loads(answer.body)
    assert answer.status == document["status"] == 429
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["content-length"] == str(len(answer.body))
    assert answer.headers["retry-after"] == str(document["retry-after"])
    assert 17200 < document["retry-after"] <= 17280
    assert answer.headers["ratelimit"] == f'"requests";r=0;t={document["retry-after"]}'
    assert document["violated-policies"] == ["requests"]
    assert document["instance"] == "/answer"
    assert user not in answer.body.decode()


def test_an_outage_is_a_problem_document(served: Served) -> None:
    answer = served.get("/answer", "away")
    assert (answer.status, answer.headers["content-type"]) == (503, "application/problem+json")
    assert answer.headers["retry-after"] == "1"
    assert json.loads(answer.body)["status"] == 503
    assert b"connection refused" not in answer.body


def test_a_stream_has_the_fields_and_settles_after_its_last_byte(served: Served, user: str) -> None:
    answer = served.get("/stream", user)
    assert (answer.status, answer.body) == (200, b"one two three ")
    assert re.fullmatch(r'"requests";r=4;t=172\d\d, "tokens";r=900;t=87', answer.headers["ratelimit"])
    settles(served, user, {"requests": 4, "tokens": 970})


def test_a_client_that_leaves_a_stream_has_used_what_was_settled(served: Served, user: str) -> None:
    served.leave("/endless", user, after=20_000)
    settles(served, user, {"requests": 4, "tokens": 993})


@pytest.mark.parametrize("path", ["/fail", "/broken"])
def test_a_server_error_keeps(served: Served, user: str, path: str) -> None:
    assert served.get(path, user).status == 500
    settles(served, user, TAKEN)


def test_an_error_of_the_client_keeps(served: Served, user: str) -> None:
    assert served.get("/missing", user).status == 404
    assert left(served, user) == TAKEN


def test_a_refusal_inside_the_application_is_answered_too(served: Served, user: str, name: str) -> None:
    answer = served.get("/more", user)
    if name in OWN_ERRORS:
        assert answer.status == 500
    else:
        assert (answer.status, json.loads(answer.body)["violated-policies"]) == (429, ["tokens"])
    settles(served, user, TAKEN)


OWN_ERRORS = {"litestar", "quart"}  # these turn every exception into an answer, before middleware of plain ASGI sees it


def test_what_costs_nothing_has_no_fields(served: Served, user: str) -> None:
    answer = served.get("/balance", user)
    assert answer.status == 200
    assert not {"ratelimit", "ratelimit-policy"} & set(answer.headers)


@pytest.mark.parametrize("name", ["asgi", "starlette", "fastapi", "django-asgi"], indirect=True)  # which see it
def test_a_client_that_leaves_before_the_answer_has_used_what_its_request_took(served: Served, user: str) -> None:
    with served.asking("/gone", user):
        settles(served, user, TAKEN)
    time.sleep(0.3)  # the server has seen it
    settles(served, user, TAKEN)


@pytest.mark.long(keep=2)
@pytest.mark.parametrize("name", ["asgi", "starlette", "fastapi", "django-asgi", "django-threads"], indirect=True)
def test_work_is_charged_though_its_client_left_before_the_answer(served: Served, user: str) -> None:
    settled = {"requests": 4, "tokens": 993}
    assert left(served, user) == WHOLE  # its server has made its limiter, once
    with served.asking("/late", user):
        settles(served, user, {"requests": 4, "tokens": 899}, settled)  # at work; done, if the machine is busy
    settles(served, user, settled)
