"""Start a local stack that outlives its command."""

import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Final

from ..errors import CommandError
from .state_dir import Running, StateDir

TIMEOUT_SECONDS: Final = 60.0
POLL_SECONDS: Final = 0.05


def start(state_dir: StateDir, arguments: Sequence[str]) -> Running:
    """Run `local up` with these arguments in the background, until it is ready. Raises ``CommandError``."""
    state_dir.make()
    log = state_dir.directory / "up.log"
    # -P: a struct.py in the user's folder is not a part of us
    command = [sys.executable, "-P", "-c", "from zae_limiter_cli.main import main; main()", "local", "up", *arguments]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        running = state_dir.running()
        if running is not None and running.pid == process.pid:
            return running
        if process.poll() is not None:
            raise CommandError(_last_words(log.read_text(encoding="utf-8", errors="replace")))
        time.sleep(POLL_SECONDS)
    process.terminate()
    raise CommandError(f"{state_dir.name} is not ready after {TIMEOUT_SECONDS:.0f} s; its log is {log}")


def _last_words(said: str) -> str:
    lines = said.strip().splitlines() or ["it ended without a word"]
    return lines[-1].removeprefix("Error: ")
