import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from app import LIMITS, create_app
from zae_limiter import SyncRateLimiter
from zae_limiter.testing import ManualClock


@pytest.fixture
def client(sync_limiter: SyncRateLimiter) -> FlaskClient:
    sync_limiter.set_system_defaults(LIMITS)
    return create_app(sync_limiter).test_client()


def ask(client: FlaskClient, customer: str = "ann") -> TestResponse:
    return client.get("/answer", headers={"X-API-Key": f"key-of-{customer}"}, buffered=True)


def test_an_answer_says_what_is_left(client: FlaskClient) -> None:
    answer = ask(client)
    assert answer.json == {"answer": 42}
    assert answer.headers["RateLimit"] == '"rpm";r=9;t=6'


def test_the_eleventh_request_of_a_customer_is_refused(client: FlaskClient) -> None:
    assert [ask(client).status_code for _ in range(10)] == [200] * 10
    refusal = ask(client)
    assert (refusal.status_code, refusal.headers["Retry-After"]) == (429, "6")
    assert refusal.json["violated-policies"] == ["rpm"]
    assert ask(client, "bob").status_code == 200


def test_a_refused_customer_may_ask_again_when_retry_after_says(client: FlaskClient, manual_clock: ManualClock) -> None:
    while (answer := ask(client)).status_code == 200:
        pass
    manual_clock.advance(seconds=int(answer.headers["Retry-After"]))
    assert ask(client).status_code == 200


def test_a_request_without_a_key_takes_nothing(client: FlaskClient, sync_limiter: SyncRateLimiter) -> None:
    assert client.get("/answer").status_code == 401
    assert sync_limiter.available("ann", "answers") == {"rpm": 10}


def test_health_is_never_refused(client: FlaskClient) -> None:
    assert {client.get("/health").status_code for _ in range(20)} == {200}
