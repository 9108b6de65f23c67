import http.client
from collections.abc import Iterator
from contextlib import closing

import pytest

from zae_limiter_cli.local.gate import BY_A_PAGE
from zae_limiter_cli.local.lambdas.runtime_api import Exited, Invocation, RuntimeApi

NEXT = "/2018-06-01/runtime/invocation/next"


@pytest.fixture
def api() -> Iterator[RuntimeApi]:
    api = RuntimeApi()
    api.calls.put(Invocation("id", b"secret", "arn", 0))
    yield api
    api.close()


def ask(api: RuntimeApi, method: str, headers: dict[str, str]) -> tuple[int, str, str | None]:
    with closing(http.client.HTTPConnection(api.address, timeout=10)) as connection:
        connection.request(method, NEXT, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer.getheader("Access-Control-Allow-Origin")


@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
@pytest.mark.parametrize(
    "headers", [{"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Host": "evil.example"}], ids=str
)
def test_a_web_page_gets_no_call_and_answers_none(api: RuntimeApi, method: str, headers: dict[str, str]) -> None:
    status, body, leave = ask(api, method, headers)
    assert (status, leave) == (403, None)
    assert body.startswith("the local AWS of zae-limiter")
    assert "secret" not in body
    api.events.put(Exited(0))
    assert api.events.get() == Exited(0)  # nothing came before it


def test_a_page_is_told_so(api: RuntimeApi) -> None:
    assert ask(api, "GET", {"Origin": "null"})[1] == f"{BY_A_PAGE}\n"


def test_the_process_of_the_function_gets_the_call(api: RuntimeApi) -> None:
    assert ask(api, "GET", {})[:2] == (200, "secret")
