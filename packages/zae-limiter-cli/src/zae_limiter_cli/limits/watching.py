"""Show how far an apply is, from the checkpoints that the provisioner stores: while this command waits for it, or
another's.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from zae_limiter_manifest import Answer, Request, StateReport

from ..columns import counted
from ..errors import CommandError
from ..terminal import Terminal
from ..times import duration

FIRST_SECONDS: Final = 2.0  # most applies end before
SECONDS_ON_A_TERMINAL: Final = 1.0
SECONDS_BETWEEN_LINES: Final = 10.0

Ask = Callable[[Request], Answer]


def utc_now() -> str:
    """Return the time as the Lambda writes it: ISO 8601, in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def progress_line(namespace: str, state: StateReport) -> str:
    """Return how far the apply is: `tenant-alpha: 1,200 of 5,001 changes, 250/s, 15 s left`."""
    progress = state.progress
    if progress is None:
        said = "the apply has begun"
    else:
        left = progress.seconds_left
        said = f"{progress.done:,} of {counted(progress.total, 'change')}, {progress.rate:,.0f}/s"
        said += f", {duration(left)} left" if left is not None else ""
    return f"{namespace}: {said}{f'; {state.stop} has asked it to stop' if state.stop else ''}"


@dataclass
class ProgressDisplay:
    """One line on a terminal, drawn again; elsewhere a line whenever there is something new, at intervals."""

    terminal: Terminal = field(default_factory=Terminal.of_stderr)
    shown: str = ""

    @property
    def seconds(self) -> float:
        """The seconds between two looks."""
        return SECONDS_ON_A_TERMINAL if self.terminal.live else SECONDS_BETWEEN_LINES

    def show(self, line: str) -> None:
        """Show a line, in place of the one before where lines can be drawn again; on a narrow terminal without the name
        before its colon.
        """
        if line == self.shown:
            return
        if self.terminal.live:
            drawn = self.terminal.line([(line, "dim")])
            if line not in drawn:
                drawn = self.terminal.line([(line.partition(": ")[2], "dim")])
            self.terminal.redraw([drawn], over=1 if self.shown else 0)
        else:
            self.terminal.say(line)
        self.shown = line


@contextmanager
def watched(ask: Ask, namespace: str) -> Iterator[None]:
    """Show the progress of the apply that the block waits for. A look that fails shows nothing, and ends no apply."""
    ended = threading.Event()
    watch = threading.Thread(target=_watch, args=(ask, namespace, ended), daemon=True)
    watch.start()
    try:
        yield
    finally:
        ended.set()  # an answer that is still awaited is dropped


def _watch(ask: Ask, namespace: str, ended: threading.Event) -> None:
    display = ProgressDisplay()
    pause = FIRST_SECONDS
    while not ended.wait(pause):
        try:
            answer = ask(Request("watch", namespace))
        except Exception:  # noqa: BLE001  of a thread beside the apply, whose own error is the one to report
            return
        if ended.is_set() or any(failure.code == "unknown_action" for failure in answer.errors):
            return  # functions of an older release know no progress
        state = answer.state  # none before the apply has registered the namespace
        if state and state.lock and state.progress:
            display.show(progress_line(namespace, state))
        pause = display.seconds


def follow(
    ask: Ask, namespace: str, *, sleep: Callable[[float], None] = time.sleep, now: Callable[[], str] = utc_now
) -> StateReport:
    """Show the progress of the apply under way until the lock is free; return the state then.

    Raises ``CommandError`` if the request is refused, or if the lock has expired, which ``now`` decides.
    """
    display = ProgressDisplay()
    while True:
        state = _state(ask, namespace)
        if state.lock is None:
            return state
        if state.lock.expires_at <= now():
            killed = f"the lock of {state.lock.owner} expired at {state.lock.expires_at}: its apply was killed"
            raise CommandError(f"{namespace}: {killed}; apply again, which makes the rest")
        held = f"; {state.lock.owner} holds the lock until {state.lock.expires_at} at most" if not display.shown else ""
        if held:
            display.terminal.say(f"{namespace}{held.replace(';', ':', 1)}")
        display.show(progress_line(namespace, state))
        sleep(display.seconds)


def _state(ask: Ask, namespace: str) -> StateReport:
    from .asking import as_command_errors
    from .showing import refuse

    with as_command_errors():
        request = Request("watch", namespace)
    answer = ask(request)
    refuse(namespace, answer)
    if answer.state is None:
        raise CommandError(f"{namespace}: the answer contains no state")
    return answer.state
