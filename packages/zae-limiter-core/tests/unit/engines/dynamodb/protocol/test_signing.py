"""Signatures, against botocore's."""

import time
from datetime import UTC, datetime

import botocore.auth
import botocore.awsrequest
import botocore.credentials
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from zae_limiter.engines.dynamodb.protocol.requests import Credentials, RequestWriter

KEYS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=130)
TOKENS = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1)  # which some file ends with a space
OPERATIONS = ("GetItem", "UpdateItem", "TransactWriteItems")
URLS = (
    "https://dynamodb.eu-west-1.amazonaws.com",
    "https://dynamodb.cn-north-1.amazonaws.com.cn:443/",
    "http://localhost:8000",
    "http://[::1]:4566",
    "http://127.0.0.1:80/a/b-c_d.e~f/",
    "http://127.0.0.1:8000/a",
)
VALUES = st.recursive(st.text() | st.integers(-(2**53), 2**53) | st.booleans(), st.lists, max_leaves=5)


def signed_by_botocore(url: str, region: str, sent: "Sent", credentials: Credentials, seconds: int) -> str:
    """The Authorization header that botocore gives the same request."""
    of_botocore = botocore.credentials.Credentials(*credentials)
    auth = botocore.auth.SigV4Auth(of_botocore, "dynamodb", region)
    headers = {name: sent.headers[name] for name in ("Content-Type", "X-Amz-Target")}
    request = botocore.awsrequest.AWSRequest("POST", url, headers=headers, data=sent.body)
    request.context["timestamp"] = datetime.fromtimestamp(seconds, UTC).strftime("%Y%m%dT%H%M%SZ")
    auth._modify_request_before_signing(request)
    to_sign = auth.string_to_sign(request, auth.canonical_request(request))
    auth._inject_signature_to_request(request, auth.signature(to_sign, request))
    header: str = request.headers["Authorization"]
    return header


class Sent:
    """The parts of a request in bytes."""

    def __init__(self, data: bytes) -> None:
        head, _, self.body = data.partition(b"\r\n\r\n")
        self.first_line, *lines = head.decode("latin-1").split("\r\n")
        self.headers = dict(line.split(": ", 1) for line in lines)


@given(
    url=st.sampled_from(URLS),
    region=st.sampled_from(("eu-west-1", "us-gov-west-1", "local")),
    name=st.sampled_from(OPERATIONS),
    request=st.dictionaries(st.text(), VALUES),
    access_key=KEYS,
    secret_key=KEYS,
    token=st.none() | TOKENS,
    seconds=st.integers(0, 2**32),
)
@example(URLS[0], "eu-west-1", "GetItem", {}, "AK", "SK", "token==", 0)
@example(URLS[0], "eu-west-1", "GetItem", {}, "AK", "SK", " a  token ", 0)
def test_the_signature_is_that_of_botocore(
    url: str,
    region: str,
    name: str,
    request: dict[str, object],
    access_key: str,
    secret_key: str,
    token: str | None,
    seconds: int,
) -> None:
    credentials = Credentials(access_key, secret_key, token)
    sent = Sent(RequestWriter(url, region=region, user_agent="test").write(name, request, credentials, seconds))
    assert sent.headers["Authorization"] == signed_by_botocore(url, region, sent, credentials, seconds)
    assert sent.headers.get("X-Amz-Security-Token") == token
    assert sent.headers["Content-Length"] == str(len(sent.body))


def test_a_key_is_made_again_on_the_next_day() -> None:
    writer = RequestWriter(URLS[0], region="eu-west-1", user_agent="test")
    credentials = Credentials("AK", "SK")
    midnight = 20_000 * 24 * 3600
    for seconds in (midnight - 1, midnight, midnight - 1):
        sent = Sent(writer.write("GetItem", {}, credentials, seconds + 0.9))
        assert sent.headers["Authorization"] == signed_by_botocore(URLS[0], "eu-west-1", sent, credentials, seconds)


def test_secrets_are_not_printed() -> None:
    assert "secret" not in repr(Credentials("AK", "secret", "secret"))


def test_the_scheme_of_a_url_may_be_in_upper_case() -> None:
    writer = RequestWriter("HTTPS://Host", region="eu-west-1", user_agent="test")
    assert (writer.tls, writer.port) == (True, 443)


@pytest.mark.parametrize("url", URLS)
def test_the_host_header_names_a_port_that_is_not_the_usual_one(url: str) -> None:
    sent = Sent(
        RequestWriter(url, region="eu-west-1", user_agent="test").write("GetItem", {}, Credentials("a", "b"), 0)
    )
    hosts = ["dynamodb.eu-west-1.amazonaws.com", "dynamodb.cn-north-1.amazonaws.com.cn", "localhost:8000", "[::1]:4566"]
    assert sent.headers["Host"] == dict(zip(URLS, [*hosts, "127.0.0.1", "127.0.0.1:8000"], strict=True))[url]


def test_the_year_of_the_date_does_not_depend_on_the_time_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Pacific/Auckland")
    time.tzset()
    try:
        writer = RequestWriter(URLS[0], region="eu-west-1", user_agent="test")
        assert Sent(writer.write("GetItem", {}, Credentials("a", "b"), 1)).headers["X-Amz-Date"] == "19700101T000001Z"
    finally:
        monkeypatch.undo()
        time.tzset()
