"""How the weather is told what to be: a process that stands between clients and a store.

Lives here: its start and its end, and the weathers by name. Never: what they do (weather).
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from .weather import Fault

HOME = Path(__file__).parent.parent

FAIR: Sequence[Fault] = ()
SLOW: Sequence[Fault] = (("delay", 0.5, 0.03), ("late", 0.5, 0.03))
FOUL: Sequence[Fault] = (
    *((name, 0.04, 0.0) for name in ("drop", "lose", "cut", "500", "503", "throttle")),
    ("delay", 0.1, 0.05),
    ("late", 0.1, 0.05),
)
WEATHERS: Mapping[str, Sequence[Fault]] = {
    "fair": FAIR,
    "slow": SLOW,
    "foul": FOUL,
    "hung": (("hang", 1.0, 0.0),),
    "silent": (("silent", 1.0, 0.0),),
    "trickling": (("trickle", 1.0, 0.0),),
    "refusing": (("refuse", 1.0, 0.0),),
    "throttling": (("throttle", 1.0, 0.0),),
    "away": (("drop", 1.0, 0.0),),
    "late": (("delay", 1.0, 1.0),),
}


class Sky:
    """A proxy that was started, and the way to tell it what to do."""

    def __init__(self, upstream: str, seed: int = 0) -> None:
        command = [sys.executable, "-m", "lifecycle.weather", upstream, str(seed)]
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

    def turn(self, name: str) -> None:
        """From now on the weather is another."""
        self._tell({"weather": WEATHERS[name]})

    def settle(self) -> None:
        """Wait until nothing is on its way to the store any more."""
        self._tell({"settle": True})

    def _tell(self, order: Mapping[str, object]) -> None:
        assert self._process.stdin
        self._process.stdin.write(f"{json.dumps(order)}\n")
        self._process.stdin.flush()
        self._line()

    def _line(self) -> str:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the proxy ended")
        return line
