import gzip
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import unquote

import pytest

from support.aggregator.damage import WITH_QUEUE
from support.aggregator.lives import Life
from support.aggregator.streams import record
from zae_limiter import ValidationError
from zae_limiter.schema.audit import audit_item
from zae_limiter.values.audit import AuditEvent
from zae_limiter_aggregator import handler
from zae_limiter_aggregator.handler import on_event


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZAEL_STACK", "demo")


def test_a_batch_that_is_nothing_to_us_asks_for_nothing(stack: None, capsys: pytest.CaptureFixture[str]) -> None:
    records = [record(n, None, {"PK": "ns/ENTITY#a", "SK": "#META"}) for n in range(3)]
    assert on_event({"Records": records}, None) == {"batchItemFailures": []}
    line = json.loads(capsys.readouterr().out)
    assert (line["message"], line["records"], line["snapshots"], line["stack"]) == ("a batch", 3, 0, "demo")


def test_the_end_of_a_window_in_which_nothing_waited_asks_for_nothing_and_logs_nothing(
    stack: None, capsys: pytest.CaptureFixture[str]
) -> None:
    event = {"Records": [], "window": {"start": "2024-01-01T13:50:00Z", "end": "2024-01-01T13:50:30Z"}}
    assert on_event({**event, "state": {}, "isFinalInvokeForWindow": True}, None) == {
        "batchItemFailures": [],
        "state": {},
    }
    assert capsys.readouterr().out == ""


def test_a_batch_of_a_window_is_answered_with_a_state(stack: None) -> None:
    records = [record(n, None, {"PK": "ns/ENTITY#a", "SK": "#META"}) for n in range(3)]
    event = {"Records": records, "window": {}, "state": {}, "isFinalInvokeForWindow": False}
    assert on_event(event, None) == {"batchItemFailures": [], "state": {}}


def test_a_record_that_cannot_be_read_is_told_by_its_number(stack: None, capsys: pytest.CaptureFixture[str]) -> None:
    broken = record(7, None, {"PK": "ns/BUCKET#e#r#0", "SK": "#STATE"})
    assert on_event({"Records": [broken]}, None) == {"batchItemFailures": [{"itemIdentifier": "7"}]}
    error, batch = map(json.loads, capsys.readouterr().out.splitlines())
    assert (error["level"], error["sequence"], batch["failures"]) == ("ERROR", "7", 1)
    assert "rf" in error["problem"]


@pytest.mark.parametrize("event", [{}, None, [], {"Records": None}, {"Records": {}}], ids=str)
def test_an_event_that_is_no_batch_fails_loudly(stack: None, event: Any) -> None:
    with pytest.raises(ValueError, match=r"^the event is not a batch of a stream: it has no list of Records$"):
        on_event(event, None)


@pytest.mark.parametrize("change", [None, "x", {}, {"SequenceNumber": 7}, {"SequenceNumber": None}], ids=str)
def test_a_record_without_a_number_fails_loudly(stack: None, change: Any) -> None:
    for bad in ({"dynamodb": change}, change):
        with pytest.raises(ValueError, match=r"Records\[1\] has no SequenceNumber$"):
            on_event({"Records": [record(1, None, {"PK": "ns/ENTITY#a", "SK": "#META"}), bad]}, None)


def test_an_environment_that_is_wrong_fails_loudly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ZAEL_STACK", raising=False)
    with pytest.raises(ValidationError, match="ZAEL_STACK"):
        on_event({"Records": []}, None)


def test_importing_the_handler_imports_no_aws_library() -> None:
    heavy = {"aioboto3", "aiobotocore", "aiohttp", "boto3", "botocore"}
    program = f"import zae_limiter_aggregator.handler, sys; print(sorted({heavy!r} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


class Bucket(BaseHTTPRequestHandler):
    """S3, as far as PutObject goes."""

    kept: ClassVar[dict[str, bytes]] = {}

    def do_PUT(self) -> None:
        self.kept[unquote(self.path)] = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args: object) -> None:
        """Nothing on stderr."""


@pytest.fixture
def s3(stack: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, bytes]]:
    """What was put into a bucket that the handler finds."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Bucket)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for name, value in {
        "AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{server.server_address[1]}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "NO_PROXY": "127.0.0.1",
        "ZAEL_ARCHIVE_BUCKET": "demo-audit",
    }.items():
        monkeypatch.setenv(name, value)
    Bucket.kept.clear()
    yield Bucket.kept
    server.shutdown()
    server.server_close()


def test_an_audit_event_that_expired_reaches_s3_as_one_object_however_often_it_comes(
    s3: dict[str, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    at = "2024-01-01T10:00:00.000Z"
    event = AuditEvent(f"{at}-1", "$RESOURCE:a/b", "limits_set", None, at, None, None, None)
    removal = record(7, audit_item("ns", event, expires_at=1_700_000_000), None, by_ttl=True)
    for _ in range(2):
        assert on_event({"Records": [removal]}, None) == {"batchItemFailures": []}
    ((path, body),) = s3.items()
    assert path == "/demo-audit/audit/date=2024-01-01/ns/$RESOURCE:a%2Fb/2024-01-01T10:00:00.000Z-1.jsonl.gz"
    assert json.loads(gzip.decompress(body))["entity_id"] == "$RESOURCE:a/b"
    assert [json.loads(line)["archived"] for line in capsys.readouterr().out.splitlines()] == [1, 1]


def test_the_log_names_a_record_that_can_never_be_processed_without_its_key(capsys: pytest.CaptureFixture[str]) -> None:
    life = Life(WITH_QUEUE)
    broken = record(7, None, {"PK": f"{life.repository.namespace_id}/BUCKET#user-4711#r#0", "SK": "#STATE"})
    result = life.take([broken])
    assert "user-4711" in str(life.letters)
    handler._set_up_logs()
    handler._log(result, "demo")
    told = capsys.readouterr().out
    assert json.loads(told.splitlines()[0])["sequence"] == "7"
    assert "user-4711" not in told
