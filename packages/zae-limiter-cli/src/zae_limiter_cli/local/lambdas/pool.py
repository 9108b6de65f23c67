"""The processes of all functions: a call gets an idle one of the same function, or a new one."""

import hashlib
import shutil
import threading
import zipfile
from collections import defaultdict
from io import BytesIO
from pathlib import Path
from typing import Final

from ..credentials import Credentials
from .environment import Call, Environment
from .function import Function
from .log import FunctionLog
from .outcome import Outcome

MOST_AT_ONCE: Final = 10  # calls of a function that reserves no concurrency


class Throttled(Exception):
    """The function runs as many calls as it may."""


class Pool:
    """Runs functions: code is unpacked into one directory, logs are written to another."""

    def __init__(self, *, code: Path, logs: Path, endpoint_url: str, credentials: Credentials) -> None:
        self._code = code
        self._logs = logs
        self._endpoint_url = endpoint_url
        self._credentials = credentials
        self._lock = threading.Lock()
        self._busy: defaultdict[str, list[Environment]] = defaultdict(list)
        self._idle: defaultdict[str, list[Environment]] = defaultdict(list)
        self._log_of: dict[str, FunctionLog] = {}

    def run(self, function: Function, code: bytes, call: Call) -> tuple[Outcome, bytes]:
        """Run a call; return its outcome, and the tail of its log. Raises ``Throttled``."""
        environment = self._take(function, code)
        try:
            return environment.run(call)
        finally:
            self._give_back(environment)

    def close(self) -> None:
        """End every process, even one that works."""
        with self._lock:
            busy, idle = [[one for some in places.values() for one in some] for places in (self._busy, self._idle)]
            self._idle.clear()
        for environment in busy:
            environment.kill()
        for environment in idle:
            environment.close()

    def _take(self, function: Function, code: bytes) -> Environment:
        with self._lock:
            busy, idle = self._busy[function.arn], self._idle[function.arn]
            if len(busy) >= (MOST_AT_ONCE if function.concurrency is None else function.concurrency):
                raise Throttled
            for old in [one for one in idle if one.function != function]:
                idle.remove(old)
                old.close()
            environment = idle.pop() if idle else self._start(function, code)
            busy.append(environment)
            return environment

    def _give_back(self, environment: Environment) -> None:
        arn = environment.function.arn
        with self._lock:
            self._busy[arn].remove(environment)
            if environment.usable:
                self._idle[arn].append(environment)

    def _start(self, function: Function, code: bytes) -> Environment:
        log = self._log_of.setdefault(function.name, FunctionLog(self._logs / f"{function.name}.log"))
        return Environment(
            function, self._unpack(code), endpoint_url=self._endpoint_url, credentials=self._credentials, log=log
        )

    def _unpack(self, code: bytes) -> Path:
        task = self._code / hashlib.sha256(code).hexdigest()[:16]
        if not task.exists():
            scratch = task.with_suffix(".new")
            shutil.rmtree(scratch, ignore_errors=True)
            with zipfile.ZipFile(BytesIO(code)) as archive:
                archive.extractall(scratch)
            scratch.rename(task)
        return task
