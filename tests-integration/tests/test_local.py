"""What lives here: `zae-limiter local` as a user runs it, from a shell, in processes of its own.
What never does: what the stack in it does (test_lambdas).
"""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from support.cli.account import eventually
from support.integration.emulators import FOR_A_SHORT_LIFE, dynamodb_local, dynoxide
from support.integration.fetch import Unavailable, java
from support.integration.last_will import afterwards
from zae_limiter_cli.local.engine_process import can_be_alone
from zae_limiter_cli.local.state_dir import StateDir, state_dirs
from zae_limiter_cli.local.status_client import readers

pytestmark = pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are looked up in /proc")

COMMAND = Path(sys.executable).with_name("zae-limiter")
NAME = "my-local-stack"
OTHER = "my-other-stack"
PYTHON = re.compile(r"In Python, async or not:\n\n(.*)", re.DOTALL)
ASYNC = """
import asyncio
from zae_limiter import RateLimiter, Repository

async def main():
    async with RateLimiter(repository=await Repository.open()) as limiter:
        async with limiter.acquire("key-abc", "gpt-4", {"rpm": 1}) as lease:
            print(lease.consumed)

asyncio.run(main())
"""


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where stacks of this test keep their state; those that it has left up are ended."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with afterwards([str(COMMAND), "local", "down", "--name", NAME]):
        yield tmp_path / "state"
    for state_dir in state_dirs():
        if pid := state_dir.holder():
            os.kill(pid, signal.SIGKILL)


def zael(*words: str, code: int = 0) -> str:
    """What our command says."""
    done = subprocess.run([str(COMMAND), *words], check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def up(*options: str) -> str:
    return zael("local", "up", "--name", NAME, "--port", "0", "--detach", *options)


def in_shell(lines: str, python: str = "") -> str:
    """What a shell prints that knows nothing but what `local env` printed."""
    bare = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "ZAEL_"))}
    path = f"{COMMAND.parent}{os.pathsep}{bare['PATH']}"
    script = f'set -e\neval "$({COMMAND} local env)"\n{lines}'
    done = subprocess.run(
        ["sh", "-c", script],
        env={**bare, "PATH": path},
        input=python,
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def family(pid: int) -> list[int]:
    """A process and all that come from it."""
    parents = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(status.parent.name)] = int(status.read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
    found = [pid]
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    return found


def open_to_others(pids: list[int]) -> list[str]:
    """The addresses beyond loopback, as Linux writes them, at which one of these processes listens on this machine."""
    theirs = {str(link.readlink()) for pid in pids for link in Path(f"/proc/{pid}/fd").iterdir() if link.is_symlink()}
    rows = [row.split() for table in ("tcp", "tcp6") for row in Path(f"/proc/net/{table}").read_text().splitlines()]
    listening = [row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in theirs]
    return [address for address in listening if not re.fullmatch(r"[0-9A-F]{6}7F:[0-9A-F]{4}", address)]


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.usefixtures("state")
def test_up_gives_a_stack_that_shells_and_python_find_by_what_it_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nowhere")  # nothing of the user's AWS counts, nor the way to the world
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    told = up("--data-plane", "moto")
    snippet = PYTHON.findall(told)[0]
    *rows, advice = in_shell("zae-limiter status").splitlines()
    assert advice == "Stack and release match."
    assert {row.split()[1] for row in rows if row.split()[0] != "ok"} <= {"alarms"}  # which the local AWS has not
    assert len(rows) >= 6

    in_shell(f"{sys.executable} -", "\n".join(line[2:] for line in snippet.splitlines()))
    assert in_shell(f"{sys.executable} -", ASYNC) == "{'rpm': 1}\n"

    assert "No changes" in in_shell("zae-limiter deploy --yes")
    assert eventually(lambda: delivered() >= 2)
    assert eventually(lambda: "REPORT RequestId" in zael("local", "logs", "aggregator"))
    assert (stream()["function"], stream()["records"], stream()["given_up"]) == (f"{NAME}-aggregator", 2, 0)
    assert "runs already" in zael("local", "up", "--name", NAME, "--port", "0", code=1)

    processes = family(StateDir(NAME).holder() or 0)
    assert len(processes) >= 2  # the aggregator's is among them
    assert zael("local", "down") == f"{NAME} is down\n"
    assert eventually(lambda: all(gone(pid) for pid in processes))
    assert "no local stack runs" in zael("local", "down", code=1)


@pytest.mark.usefixtures("state")
def test_a_rehearsal_breaks_a_part_and_puts_it_back() -> None:
    up("--data-plane", "moto")
    for scene, (runbook, broken, right) in SCENES.items():
        with subprocess.Popen(
            [str(COMMAND), "local", "rehearse", scene, "--seconds", "600", "--rate", "5"],
            stdout=subprocess.PIPE,
            text=True,
        ) as running:
            try:
                assert running.stdout is not None
                head = [running.stdout.readline() for _ in range(3)]
                assert f"/runbooks/{runbook}.md" in head[2]
                assert eventually(partial(shows, scene, broken))
                if scene == "table-throttles":
                    assert eventually(lambda: throttled_writes() > 0)
            finally:
                running.send_signal(signal.SIGINT)
        assert eventually(partial(shows, scene, right))
    assert throttled_writes() == 0


# What a failure is known by, and what is there again after it.
SCENES = {
    "stream-stops": ("aggregator-iterator-age", "Disabled", "Enabled"),
    "aggregator-fails": ("aggregator-errors", "soon", "3600"),
    "table-throttles": ("table-throttles", "", ""),
}


def shows(scene: str, word: str) -> bool:
    """Whether AWS's description of the part that a scene breaks has a word."""
    asks = {
        "stream-stops": "c.list_event_source_mappings()['EventSourceMappings'][0]['State']",
        "aggregator-fails": f"c.get_function_configuration(FunctionName='{NAME}-aggregator')['Environment']",
        "table-throttles": "''",
    }
    return word in in_shell(f"{sys.executable} -", f"import boto3\nc = boto3.client('lambda')\nprint({asks[scene]})")


def throttled_writes() -> int:
    """How many of ten writes at once are throttled."""
    return int(in_shell(f"{sys.executable} -", TEN_WRITES))


TEN_WRITES = f"""
import boto3
from botocore.config import Config
client = boto3.client("dynamodb", config=Config(retries={{"total_max_attempts": 1}}))
throttled = 0
for _ in range(10):
    try:
        client.update_item(TableName="{NAME}", Key={{"PK": {{"S": "probe"}}, "SK": {{"S": "probe"}}}})
    except client.exceptions.ClientError as error:
        throttled += error.response["Error"]["Code"] == "ThrottlingException"
print(throttled)
"""


def delivered() -> int:
    """How many records the stack's only stream reader has delivered, without a process of its own for each look."""
    running = StateDir(NAME).running()
    assert running is not None
    (reader,) = readers(running)
    return int(reader["records"])


def stream() -> dict[str, Any]:
    """What the stack's only stream reader has done."""
    (reader,) = json.loads(zael("local", "status", "--output", "json"))["streams"]
    found: dict[str, Any] = reader
    return found


@pytest.mark.long
@pytest.mark.usefixtures("state")
def test_a_crash_leaves_nothing_and_the_next_up_begins_anew() -> None:
    up("--data-plane", "moto")
    in_shell(
        f"aws() {{ {sys.executable} - ; }}; aws",
        f"import boto3; boto3.client('lambda').invoke(FunctionName='{NAME}-limits-provisioner', Payload=b'{{}}')",
    )
    processes = family(StateDir(NAME).holder() or 0)
    assert len(processes) >= 2
    os.kill(processes[0], signal.SIGKILL)
    assert eventually(lambda: all(gone(pid) for pid in processes))
    assert "is not up" in zael("local", "status", "--name", NAME, code=1)
    assert zael("local", "down", "--name", NAME) == f"{NAME} had crashed: nothing of it is left\n"


@pytest.mark.long
@pytest.mark.usefixtures("state")
def test_a_second_stack_takes_a_free_port_and_is_told_from_the_first_by_its_name() -> None:
    told = [zael("local", "up", "--name", name, "--data-plane", "moto", "--detach") for name in (NAME, OTHER)]
    first, second = (state_dir.running() for state_dir in (StateDir(NAME), StateDir(OTHER)))
    assert first is not None
    assert second is not None
    assert f"Port 4588 is in use, so {OTHER} took {second.endpoint_url.rpartition(':')[2]}.\n" in told[1]
    for running in (first, second):
        assert f"AWS_ENDPOINT_URL={running.endpoint_url}\n" in zael("local", "env", "--name", running.name)
    assert f"several local stacks run: {NAME}, {OTHER}; choose one with --name" in zael("local", "env", code=1)
    assert f"{NAME} is up at {first.endpoint_url}, " in zael("local", "status", "--name", NAME)
    assert zael("local", "down", "--name", NAME) == f"{NAME} is down\n"
    assert f"AWS_ENDPOINT_URL={second.endpoint_url}\n" in zael("local", "env")
    assert zael("local", "down") == f"{OTHER} is down\n"


def _dynoxide() -> Mapping[str, str]:
    return {"ZAEL_DYNOXIDE": dynoxide()(0)[0]}


def _dynamodb_local() -> Mapping[str, str]:
    command = dynamodb_local()(0)
    return {
        "ZAEL_DYNAMODB_LOCAL": str(Path(command[command.index("-jar") + 1]).parent),
        "JAVA_HOME": _java_home(),
        "JAVA_TOOL_OPTIONS": " ".join(FOR_A_SHORT_LIFE),
    }


def _java_home() -> str:
    return str(Path(java()).resolve().parents[1])


@pytest.mark.long
@pytest.mark.skipif(not can_be_alone(), reason="this system gives no process a network of its own")
@pytest.mark.parametrize(
    ("plane", "found"),
    [("dynoxide", _dynoxide), pytest.param("dynamodb-local", _dynamodb_local, marks=pytest.mark.long)],
    ids=["dynoxide", "dynamodb-local"],
)
@pytest.mark.usefixtures("state")
def test_data_is_kept_and_what_was_counted_is_not_counted_again(
    plane: str, found: Callable[[], Mapping[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        for name, value in found().items():
            monkeypatch.setenv(name, value)
    except Unavailable as reason:
        pytest.skip(f"{plane}: {reason}")
    data = str(tmp_path / "data")
    usage = (
        "from zae_limiter import SyncRepository\n"
        "with SyncRepository.open() as repository:\n"
        "    (page,) = repository.get_usage_snapshots(entity_id='key-abc').snapshots\n"
        "    print(page.consumed, page.total_events)"
    )
    acquire = (
        "from zae_limiter import Limit, SyncRateLimiter, SyncRepository\n"
        "with SyncRateLimiter(repository=SyncRepository.open()) as limiter:\n"
        "    limiter.set_resource_defaults('gpt-4', [Limit.per_minute('rpm', 100)])\n"
        "    with limiter.acquire('key-abc', 'gpt-4', {'rpm': 1}): pass"
    )
    for times in (1, 2):
        up("--data-plane", plane, "--data", data)
        in_shell(f"{sys.executable} -", acquire)
        assert eventually(lambda: delivered() >= 1)
        assert f"{NAME}-aggregator: 1 record in" in zael("local", "status")
        assert open_to_others(family(StateDir(NAME).holder() or 0)) == []
        assert in_shell(f"{sys.executable} -", usage) == f"{{'rpm': {times}}} {times}\n"
        zael("local", "down")
