"""The control of a fault proxy, and the networks that it can imitate.

Lives here: the start and the end of the proxy, and ``NETWORKS``: the faults of each network between a process and its
store, by name. Never: what a fault does (fault_proxy).
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from .fault_proxy import Fault

HOME = Path(__file__).parent.parent

HEALTHY: Sequence[Fault] = ()
SLOW: Sequence[Fault] = (("delay", 0.5, 0.03), ("late", 0.5, 0.03))
FAULTY: Sequence[Fault] = (
    *((name, 0.04, 0.0) for name in ("drop", "lose", "cut", "500", "503", "throttle")),
    ("delay", 0.1, 0.05),
    ("late", 0.1, 0.05),
)
NETWORKS: Mapping[str, Sequence[Fault]] = {
    "healthy": HEALTHY,
    "slow": SLOW,
    "faulty": FAULTY,
    "hung": (("hang", 1.0, 0.0),),
    "silent": (("silent", 1.0, 0.0),),
    "trickling": (("trickle", 1.0, 0.0),),
    "refusing": (("refuse", 1.0, 0.0),),
    "throttling": (("throttle", 1.0, 0.0),),
    "dropping": (("drop", 1.0, 0.0),),
    "late": (("delay", 1.0, 1.0),),
}


class ProxyControl:
    """A fault proxy that runs, and its commands."""

    def __init__(self, upstream: str, seed: int = 0) -> None:
        command = [sys.executable, "-m", "lifecycle.fault_proxy", upstream, str(seed)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=HOME)
        self.url = f"http://127.0.0.1:{int(self._line())}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()

    def use(self, name: str) -> None:
        """Imitate this network from now on."""
        self._send({"faults": NETWORKS[name]})

    def settle(self) -> None:
        """Wait until no request to the store is in flight."""
        self._send({"settle": True})

    def _send(self, command: Mapping[str, object]) -> None:
        assert self._process.stdin
        self._process.stdin.write(f"{json.dumps(command)}\n")
        self._process.stdin.flush()
        self._line()

    def _line(self) -> str:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the proxy ended")
        return line
