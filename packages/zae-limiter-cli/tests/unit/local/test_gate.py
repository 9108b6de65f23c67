import http.client
import json
from contextlib import closing
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
from zae_limiter_cli.local.wsgi import call, dynamodb_request

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
