import http.client
import json
import socket
from contextlib import closing, suppress
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from support.cli.account import Account
from zae_limiter_cli.local.credentials import authorization
from zae_limiter_cli.local.gate import BY_A_PAGE, WITHOUT_THE_KEY, Gate, hosts_at
from zae_limiter_cli.local.state_dir import STATUS_PATH
from zae_limiter_cli.local.wsgi import call, dynamodb_request, key_of

Answer = tuple[int, dict[str, str], str]
TARGET = "X-Amz-Target"
# One request for each way through the router, and for what moto has beside AWS.
REQUESTS = {
    "items": ("POST", "/", {TARGET: "DynamoDB_20120810.Scan"}, "dynamodb"),
    "tables": ("POST", "/", {TARGET: "DynamoDB_20120810.CreateTable"}, "dynamodb"),
    "streams": ("POST", "/", {TARGET: "DynamoDBStreams_20120810.ListStreams"}, "dynamodb"),
    "stacks": ("POST", "/?Action=CreateStack", {"Content-Type": "application/x-www-form-urlencoded"}, "cloudformation"),
    "a call of a function": ("POST", "/2015-03-31/functions/any/invocations", {}, "lambda"),
    "functions": ("GET", "/2015-03-31/functions/", {}, "lambda"),
    "buckets": ("GET", "/", {}, "s3"),
    "status": ("GET", STATUS_PATH, {}, "local"),
    "moto's reset": ("POST", "/moto-api/reset", {}, "s3"),
    "moto's page": ("GET", "/moto-api/", {}, "s3"),
    "a form of a page": ("POST", "/", {"Content-Type": "text/plain"}, "sqs"),
    "a question before a request": ("OPTIONS", "/", {"Access-Control-Request-Method": "POST"}, "dynamodb"),
    "an object": ("PUT", "/bucket/key", {}, "s3"),
    "another method": ("PATCH", "/bucket/key", {}, "s3"),
}
every_request = pytest.mark.parametrize("request_name", REQUESTS)


@pytest.fixture(scope="module")
def key(account: Account) -> str:
    found: str = account.aws.connection("any").session.get_credentials().access_key
    return found


def send(account: Account, name: str, key: str | None, **more: str | None) -> Answer:
    """The answer to a request that is signed with a key, with more headers; ``None`` leaves one out."""
    method, path, headers, service = REQUESTS[name]
    netloc = urlsplit(account.aws.url).netloc
    signed = {"Authorization": authorization(key, service=service)} if key else {}
    sent = {"Host": netloc, **headers, **signed, **{each.replace("_", "-"): value for each, value in more.items()}}
    with closing(http.client.HTTPConnection(netloc, timeout=30)) as connection:
        connection.putrequest(method, path, skip_host=True)
        for header, value in sent.items():
            if value is not None:
                connection.putheader(header, value)
        connection.putheader("Content-Length", "2")
        connection.endheaders(b"{}")
        answer = connection.getresponse()
        return answer.status, {each.lower(): value for each, value in answer.getheaders()}, answer.read().decode()


def grants(headers: dict[str, str]) -> list[str]:
    """What allows a web page to read an answer."""
    return [name for name in headers if name.startswith("access-control-")]


@pytest.mark.long(keep=17)
@every_request
@pytest.mark.parametrize(
    "header",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:4588"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-origin"},
    ],
    ids=str,
)
def test_a_web_page_is_refused_whatever_it_asks(
    account: Account, key: str, request_name: str, header: dict[str, str]
) -> None:
    status, headers, body = send(account, request_name, key, **header)
    assert (status, body) == (403, f"{BY_A_PAGE}\n")
    assert grants(headers) == []


@every_request
@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", "localhost:1", "", None])
def test_another_host_is_refused_whatever_is_asked(
    account: Account, key: str, request_name: str, host: str | None
) -> None:
    port = urlsplit(account.aws.url).port
    status, headers, body = send(account, request_name, key, Host=host.format(port=port) if host else host)
    assert status == 403
    assert body.startswith(f"the local AWS of zae-limiter answers at 127.0.0.1:{port} and localhost:{port}")
    assert len(body.splitlines()) == 1
    assert grants(headers) == []


@every_request
@pytest.mark.parametrize("other", [None, "local", "test", "AKIAIOSFODNN7EXAMPLE", "KEY é"])
def test_who_lacks_the_key_is_refused_whatever_is_asked(account: Account, request_name: str, other: str | None) -> None:
    status, headers, body = send(account, request_name, other)
    assert status == 403
    assert WITHOUT_THE_KEY in body.replace(r"\"", '"')
    assert len(body.splitlines()) == 1
    assert grants(headers) == []


@every_request
def test_who_has_the_key_is_answered_without_leave_for_web_pages(account: Account, key: str, request_name: str) -> None:
    if request_name == "moto's reset":
        return  # it would empty what other tests have
    status, headers, body = send(account, request_name, key)
    assert status != 403
    assert BY_A_PAGE not in body
    assert grants(headers) == []


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "LocalHost", "[::1]"])
def test_this_machine_s_own_names_are_answered(account: Account, key: str, name: str) -> None:
    status, _, body = send(
        account, "status", key, Host=f"{name}:{urlsplit(account.aws.url).port}", Sec_Fetch_Site="none"
    )
    assert (status, type(json.loads(body))) == (200, list)


def test_at_http_s_own_port_a_host_has_no_port() -> None:
    assert {"localhost", "localhost:80", "127.0.0.1", "[::1]"} < set(hosts_at(80))


@pytest.mark.parametrize(
    ("service", "operation"),
    [
        ("dynamodb", "list_tables"),
        ("dynamodbstreams", "list_streams"),
        ("cloudformation", "list_stacks"),
        ("lambda", "list_functions"),
        ("sqs", "list_queues"),
        ("s3", "list_buckets"),
        ("iam", "list_roles"),
        ("sts", "get_caller_identity"),
    ],
)
def test_an_sdk_with_another_key_says_what_to_do(account: Account, service: str, operation: str) -> None:
    with closing(_client(account, service)) as client, pytest.raises(ClientError) as caught:
        getattr(client, operation)()
    told: dict[str, Any] = caught.value.response["Error"]
    assert (told["Code"], told["Message"]) == ("UnrecognizedClientException", WITHOUT_THE_KEY)


def _client(account: Account, service: str, key: str = "test", **config: str) -> Any:
    return boto3.client(
        service,
        endpoint_url=account.aws.url,
        region_name="us-east-1",
        aws_access_key_id=key,
        aws_secret_access_key="any",
        config=Config(**config),
    )


@pytest.mark.parametrize("signature", ["s3v4", "s3"])
def test_a_presigned_url_has_the_key_in_it(account: Account, key: str, signature: str) -> None:
    buckets = account.client("s3")
    buckets.create_bucket(Bucket=f"presigned-{signature}")
    buckets.put_object(Bucket=f"presigned-{signature}", Key="key", Body=b"content")
    asked = {"Bucket": f"presigned-{signature}", "Key": "key"}
    with closing(_client(account, "s3", key, signature_version=signature)) as client:
        assert urlopen(client.generate_presigned_url("get_object", Params=asked)).read() == b"content"
    with closing(_client(account, "s3", signature_version=signature)) as client:
        status, _, body = _get(client.generate_presigned_url("get_object", Params=asked))
    assert (status, WITHOUT_THE_KEY in body) == (403, True)


def _get(url: str) -> Answer:
    place = urlsplit(url)
    with closing(http.client.HTTPConnection(place.netloc, timeout=30)) as connection:
        connection.request("GET", f"{place.path}?{place.query}")
        answer = connection.getresponse()
        return answer.status, {}, answer.read().decode()


def test_what_is_refused_reaches_no_service() -> None:
    asked: list[str] = []
    gate = Gate(lambda environ, _: asked.append(environ["PATH_INFO"]) or [], 4588, "KEY")  # type: ignore[func-returns-value]
    request = {**dynamodb_request("Scan", {}, region="us-east-1"), "HTTP_HOST": "127.0.0.1:4588"}
    for header in ({"HTTP_ORIGIN": "null"}, {"HTTP_HOST": "evil.example"}, {"HTTP_AUTHORIZATION": authorization("NO")}):
        status, _, _ = call(gate, {**request, **header})
        assert status == 403
    assert asked == []


def test_no_cookie_is_a_key_and_none_is_set() -> None:
    """A browser sends the cookies of 127.0.0.1 to every port of it, also to that of another user."""

    def application(_: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [("Set-Cookie", "session=1"), ("Content-Type", "text/plain")])
        return [b"answered"]

    gate = Gate(application, 4588, "KEY")
    request = {**dynamodb_request("Scan", {}, region="us-east-1"), "HTTP_HOST": "127.0.0.1:4588"}
    status, headers, _ = call(gate, {**request, "HTTP_AUTHORIZATION": authorization("KEY")})
    assert (status, headers) == (200, [("Content-Type", "text/plain")])
    for cookie in ("KEY", f"Authorization={authorization('KEY')}", "X-Amz-Credential=KEY/20200101/us-east-1/s3/x"):
        assert call(gate, {**request, "HTTP_AUTHORIZATION": "", "HTTP_COOKIE": cookie})[0] == 403


def connected(account: Account) -> socket.socket:
    place = urlsplit(account.aws.url)
    return socket.create_connection((str(place.hostname), place.port or 0), timeout=60)


def head(account: Account, *lines: str) -> bytes:
    host = f"Host: {urlsplit(account.aws.url).netloc}"
    return "\r\n".join(["PUT /bucket/key HTTP/1.1", host, *lines, "", ""]).encode()


def whole_answer(connection: socket.socket) -> bytes:
    """What a server says until it hangs up."""
    return b"".join(iter(lambda: connection.recv(65_536), b""))


LONG_BODIES = ["Content-Length: 400000000", "Transfer-Encoding: chunked"]


@pytest.mark.parametrize("body", LONG_BODIES)
@pytest.mark.parametrize("refused", ["Origin: http://evil.example", "Host: evil.example", "Authorization: none"])
def test_a_request_is_refused_by_its_head_alone(account: Account, refused: str, body: str) -> None:
    with connected(account) as connection:
        connection.sendall(head(account, refused, body, "Expect: 100-continue"))
        answer = whole_answer(connection)
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert b"\r\nConnection: close\r\n" in answer


@pytest.mark.parametrize("body", LONG_BODIES)
def test_a_refused_body_is_not_read(account: Account, body: str) -> None:
    megabyte, sent = bytes(1_000_000), 0
    with connected(account) as connection, suppress(OSError):
        connection.sendall(head(account, "Origin: http://evil.example", body))
        for _ in range(100):
            connection.sendall(megabyte)
            sent += 1
    assert sent < 40  # what the system takes for a server that reads nothing


def test_a_request_that_is_let_in_is_told_to_go_on_once(account: Account, key: str) -> None:
    signed = f"Authorization: {authorization(key, service='s3')}"
    with connected(account) as connection:
        connection.sendall(head(account, signed, "Content-Length: 2", "Expect: 100-continue"))
        assert connection.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"{}")
        assert whole_answer(connection).startswith(b"HTTP/1.1 404 ")  # there is no such bucket


@pytest.mark.parametrize(
    "headers", [["X: " + "x" * 70_000], [f"X-{number}: {'x' * 10_000}" for number in range(9)]], ids=["one", "many"]
)
def test_a_head_has_a_bound(account: Account, key: str, headers: list[str]) -> None:
    with connected(account) as connection:
        connection.sendall(head(account, f"Authorization: {authorization(key)}", *headers))
        assert whole_answer(connection).startswith(b"HTTP/1.1 431 ")


def test_a_target_that_is_no_url_is_refused(account: Account) -> None:
    with connected(account) as connection:
        connection.sendall(b"GET http://[ HTTP/1.1\r\n\r\n")
        assert whole_answer(connection).startswith(b"HTTP/1.1 400 ")


def test_who_sends_no_head_is_not_waited_for_long(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zae_limiter_cli.local.door.HEAD_SECONDS", 0.1)
    with connected(account) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: ")
        assert whole_answer(connection) == b""


@pytest.mark.parametrize(
    "header",
    [
        "AWS4-HMAC-SHA256 Credential=KEY/20200101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0",
        "AWS4-HMAC-SHA256 SignedHeaders=host,Credential=KEY/20200101/us-east-1/s3/aws4_request,Signature=0",
        "AWS4-ECDSA-P256-SHA256 Credential=KEY/20200101/s3/aws4_request, SignedHeaders=host, Signature=0",
        "AWS KEY:signature",
    ],
)
def test_the_key_is_found_in_every_form_of_the_header(header: str) -> None:
    assert key_of({"HTTP_AUTHORIZATION": header}) == "KEY"


@pytest.mark.parametrize("header", ["", "KEY", "AWS4-X", "AWS4-X" + " " * 60_000, "Basic Credential=KEY/", "AWS"])
def test_other_headers_have_no_key(header: str) -> None:
    assert key_of({"HTTP_AUTHORIZATION": header}) == ""
