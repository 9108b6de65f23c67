"""What lives here: LocalStack as a process of this session, where no container engine is: fetched once, then started.
What never does: what the process does otherwise than a container (the start scripts in `tests-integration/localstack`).
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import zae_limiter_cli
from zae_limiter_cli.local.children import start_command
from zae_limiter_cli.loopback import free_port

from ..emulators import dynamodb_local_home
from ..fetch import Unavailable, cache, java, move, run, uv
from ..last_will import afterwards
from .health import RECIPE, RELEASED, SETTINGS, START_SCRIPTS, VERSION, wait_until_healthy

PYTHONS: Final = ("3.13", "3.12")  # LocalStack needs 3.12 or newer; these have run it
WANTED: Final = (f"localstack-core[runtime]=={VERSION}", "awslambdaric")
INIT: Final = Path("etc/localstack/init")


@contextmanager
def as_process(port: int = 0) -> Iterator[str]:
    """The URL of a LocalStack that is healthy; it ends on leaving, and with a session that is killed."""
    python, port = _environment() / "bin" / "python", port or free_port()
    directory = tempfile.mkdtemp(prefix="zael-localstack-")
    with afterwards(["rm", "-rf", directory]):
        root, url = Path(directory), f"http://127.0.0.1:{port}"
        (root / INIT.parent).mkdir(parents=True)
        (root / INIT).symlink_to(RECIPE)
        log = root / "localstack.log"
        with log.open("wb") as output:
            command = [str(python), "-m", "localstack.runtime.main"]
            child = start_command(command, output=output.fileno(), environment=_variables(root, port))
        try:
            wait_until_healthy(url, START_SCRIPTS, lambda: _log_of(child.process, log))
            yield url
        finally:
            child.end()


def _variables(root: Path, port: int) -> dict[str, str]:
    inherited = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    return {
        **inherited,
        **SETTINGS,
        "FILESYSTEM_ROOT": str(root),
        "GATEWAY_LISTEN": f"127.0.0.1:{port}",
        "OVERRIDE_IN_DOCKER": "0",
        "PYTHONPATH": str(Path(zae_limiter_cli.__file__).parents[1]),
        "ZAEL_DYNAMODB_LOCAL": str(dynamodb_local_home()),
        "ZAEL_JAVA": java(),
    }


def _log_of(process: subprocess.Popen[bytes], log: Path) -> str | None:
    """What a process that has ended has written; ``None`` while it runs."""
    return None if process.poll() is None else log.read_text(encoding="utf-8", errors="replace")[-2000:]


def _environment() -> Path:
    """A virtual environment that has LocalStack, from the cache or else from the package index."""
    version, python = _python()
    home = cache() / f"localstack-{VERSION}-python{version}"
    if not home.exists():
        with tempfile.TemporaryDirectory(dir=cache()) as scratch:
            made = Path(scratch) / "venv"
            run([uv(), "venv", "--python", python, str(made)], timeout=60)
            install = [uv(), "pip", "install", "--python", str(made), "--exclude-newer", RELEASED]
            run([*install, *WANTED], timeout=600)
            move(made, home)
    return home


def _python() -> tuple[str, str]:
    """The version and the path of an interpreter that can run LocalStack."""
    tool = Path(__file__).parents[4] / "tools" / "pythons.py"
    lines = run([sys.executable, str(tool)], timeout=120).splitlines()
    found = dict(line.split(" ", 1) for line in lines)
    for version in PYTHONS:
        if version in found:
            return version, found[version]
    raise Unavailable(
        f"LocalStack as a process needs Python {' or '.join(PYTHONS)}; found: {', '.join(found) or 'none'}"
    )
