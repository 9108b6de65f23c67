"""One process of a function, which takes one call after another."""

import sys
import threading
import time
import uuid
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from queue import Empty
from typing import Final

from ..children import start_python
from ..credentials import Credentials
from .function import Function
from .log import CallLog, FunctionLog, Output, Report
from .outcome import Ending, Outcome, TimedOut
from .runtime_api import Answered, Event, Exited, Invocation, Ready, RuntimeApi

INIT_SECONDS: Final = 10.0  # Lambda's own limit; what is not loaded by then goes on in the first call's time


@dataclass(frozen=True, slots=True)
class Call:
    """What a caller of a function passes; ``alias`` is the alias or the version that it named."""

    payload: bytes
    request_id: str
    client_context: str | None = None
    alias: str | None = None

    def arn(self, function: Function) -> str:
        """Return the ARN by which the function is invoked."""
        return ":".join([*function.arn.split(":")[:7], self.alias]) if self.alias else function.arn


class Environment:
    """A process of a function; once it is not ``usable`` it is gone."""

    def __init__(
        self, function: Function, task: Path, *, endpoint_url: str, credentials: Credentials, log: FunctionLog
    ) -> None:
        self.function = function
        self.usable = True
        self._fresh = True
        self._init_ms: float | None = None  # for the next report
        self._file = log
        self._log = CallLog(log)
        self._output = Output(self._note)
        self._api = RuntimeApi(credentials.access_key_id)
        variables = function.environment(
            task=task,
            runtime_api=self._api.address,
            endpoint_url=endpoint_url,
            credentials=credentials,
            log_stream=_log_stream(function),
        )
        self._begun = time.monotonic()
        self._child = start_python(
            "lambdas.worker:main", [str(task), loop(), *sys.path], output=self._output.fd, environment=variables
        )
        threading.Thread(target=self._watch, daemon=True).start()

    def run(self, call: Call) -> tuple[Outcome, bytes]:
        """Run a call; return its outcome, and the tail of its log."""
        self._log = CallLog(self._file)
        failure = self._init() if self._fresh else None
        self._log.write(f"START RequestId: {call.request_id} Version: {self.function.version}")
        begun = time.monotonic()
        ending = failure or self._answer(call)
        duration_ms, used_mb = (time.monotonic() - begun) * 1000, _used_mb(self._child.process.pid)
        self.usable = isinstance(ending, Answered)
        if not self.usable:
            self.kill()
        self._output.catch_up()
        outcome = Outcome.of(ending, request_id=call.request_id, timeout_seconds=self.function.timeout_seconds)
        figures = Report(duration_ms, self.function.memory_mb, used_mb, self._init_ms)
        self._init_ms = None
        for line in (*outcome.said, f"END RequestId: {call.request_id}", figures.line(call.request_id, outcome.status)):
            self._log.write(line)
        if not self.usable:
            self.close()
        return outcome, self._log.tail()

    def kill(self) -> None:
        """End the process in the middle of a call; the caller that waits for it gets an error."""
        self._child.end()

    def close(self) -> None:
        """End the process between calls, and remove what was created for it."""
        self._child.end()
        self._api.close()
        self._output.close()

    def _init(self) -> Ending | None:
        """Wait until the handler is loaded, but no longer than Lambda does; return what went wrong if it cannot be.

        https://docs.aws.amazon.com/lambda/latest/dg/lambda-runtime-environment.html#runtimes-lifecycle-ib
        """
        event = self._next(self._begun + INIT_SECONDS)
        init_ms = (time.monotonic() - self._begun) * 1000
        self._fresh = False
        if isinstance(event, TimedOut):
            self._log.write(f"INIT_REPORT Init Duration: {init_ms:.2f} ms\tPhase: init\tStatus: timeout")
            return None
        self._init_ms = init_ms
        return None if isinstance(event, Ready) else event

    def _answer(self, call: Call) -> Ending:
        function, seconds = self.function, self.function.timeout_seconds
        deadline_ms = int(time.time() * 1000) + seconds * 1000
        self._api.calls.put(
            Invocation(call.request_id, call.payload, call.arn(function), deadline_ms, call.client_context)
        )
        deadline = time.monotonic() + seconds
        while isinstance(event := self._next(deadline), Ready):
            pass  # it asked for this call, or after the last one
        return event

    def _next(self, deadline: float) -> Event | TimedOut:
        try:
            return self._api.events.get(timeout=max(0, deadline - time.monotonic()))
        except Empty:
            return TimedOut()

    def _note(self, line: str) -> None:
        """Log a line of the process, whichever call it is at."""
        self._log.write(line)

    def _watch(self) -> None:
        self._api.events.put(Exited(self._child.process.wait()))


def loop() -> str:
    """Return the module that runs in the process: AWS's runtime client, or our own loop where it has no wheel."""
    return "awslambdaric" if find_spec("awslambdaric") else "own"


def _log_stream(function: Function) -> str:
    return f"{time.strftime('%Y/%m/%d', time.gmtime())}/[{function.version}]{uuid.uuid4().hex}"


def _used_mb(pid: int) -> int | None:
    """Return the most memory that a process has had, if this system knows."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        return None
    peak = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(peak[0]) // 1024 if peak else None
