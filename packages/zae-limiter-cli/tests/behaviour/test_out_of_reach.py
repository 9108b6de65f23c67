"""Commands without a region, credentials, a profile, an endpoint or a namespace: one line with the way out."""

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.request import Request, urlopen

import pytest

from support.cli.by_hand import refused, run
from support.cli.tables import Table, making

SLOW = 3.2  # seconds; a service's requests have 1 s to connect and 2 s for the answer
REGION = "there is no AWS region: pass --region, or set AWS_REGION"
CREDENTIALS = "Unable to locate credentials: set AWS_PROFILE or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or pass"
COMMANDS = [["system", "show"], ["limits", "status"], ["usage", "list", "--resource", "gpt-4"]]


@pytest.fixture(params=COMMANDS, ids=" ".join)
def command(request: pytest.FixtureRequest, aws: str) -> list[str]:
    """Commands that ask the table, and one that asks a Lambda."""
    found: list[str] = request.param
    return found


def test_without_a_region(command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    assert refused(*command) == REGION


def test_without_credentials(command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert refused(*command).startswith(CREDENTIALS)


def test_with_a_region_or_a_profile_that_does_not_exist(command: list[str]) -> None:
    assert refused(*command, "--profile", "nobody") == (
        "The config profile (nobody) could not be found: `aws configure list-profiles` lists the profiles"
    )
    assert refused(*command, "--region", "nowhere_1").endswith("supported format: check --region and AWS_REGION")


def test_with_an_endpoint_that_does_not_answer(command: list[str]) -> None:
    told = refused(*command, "--endpoint-url", "http://127.0.0.1:1")
    assert "http://127.0.0.1:1" in told
    assert told.endswith(": check --endpoint-url, --region and the network")


def test_the_region_may_be_given_as_aws_region_to_every_command(aws: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    assert run("status").stdout.startswith("FAILED  stack  there is none")
    with making():
        assert run("system", "show").exit_code == 0


@pytest.fixture
def slow(aws: str) -> Iterator[str]:
    """The address of an AWS whose answers take longer than a service would wait."""

    class Late(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            time.sleep(SLOW)
            headers = {name: self.headers[name] for name in ("X-Amz-Target", "Content-Type", "Authorization")}
            with suppress(OSError):  # nobody waits for it any more
                with urlopen(Request(aws, data=body, headers=headers)) as answer:
                    told = answer.read()
                self.send_response(200)
                for name, value in (("Content-Length", str(len(told))), ("Content-Type", "application/x-amz-json-1.0")):
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(told)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class calls it so
            """Keep quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Late)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.mark.slow
def test_a_busy_machine_has_the_seconds_of_timeout(slow: str) -> None:
    with making():
        asked = ("system", "show", "--endpoint-url", slow)
        done = run(*asked)
        assert (done.exit_code, done.stdout) == (0, "The system has no limits in namespace default.\n"), done.stderr
        assert run(*asked, "--timeout", "1").exit_code == 1


@pytest.fixture
def table(aws: str) -> Iterator[Table]:
    with making() as table:
        yield table


def test_a_namespace_that_is_missing_or_deleted(table: Table) -> None:
    known = "`zae-limiter namespace list` lists the namespaces"
    assert refused("system", "show", "-N", "missing") == f"there is no namespace 'missing': {known}"
    namespace_id = table.repository.register_namespace("gone").namespace_id
    table.repository.delete_namespace("gone")
    told = f"the namespace 'gone' was deleted: `zae-limiter namespace recover {namespace_id}` recovers it"
    assert refused("system", "show", "-N", "gone") == told


@pytest.mark.parametrize("transport", ["http", "sdk"])
def test_a_table_that_is_missing(aws: str, transport: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZAEL_TRANSPORT", transport)
    told = "there is no table 'my-app': create it with `zae-limiter deploy --name my-app`"
    assert refused("system", "show") == told


def test_a_file_of_certificates_that_cannot_be_read(aws: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CA_BUNDLE", "missing.pem")
    assert refused("system", "show", "--endpoint-url", "https://127.0.0.1:1").endswith("No such file or directory")
