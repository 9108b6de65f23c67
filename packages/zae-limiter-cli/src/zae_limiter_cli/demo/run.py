"""The demo from start to end: the scenario, the burst, the summary."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol

from zae_limiter import RateLimiter, Repository
from zae_limiter_manifest import LimitsManifest

from ..terminal import Part, Terminal
from .backends import Backend
from .burst import LONGEST_WAIT_SECONDS, Burst
from .events import CallBoard, Event
from .line_display import LineDisplay
from .scenario import CALLERS, PROJECT, EffectiveLimits, find_effective_limits, make_entities, resource_of
from .summary import summarize
from .table_display import TableDisplay
from .wording import limits_in_words

_TICK_SECONDS: Final = 0.1


class Display(Protocol):
    """The place where events are shown."""

    def note(self, event: Event) -> None:
        """Take an event."""

    def tick(self, now: float) -> None:
        """Show the new events."""


async def play(backend: Backend, manifest: LimitsManifest, terminal: Terminal) -> None:
    """Run the demo after the manifest was applied. Raises what core raises if the table fails."""
    resource = resource_of(manifest)
    async with await Repository.over(backend.store, backend.options) as repository:
        anew = await make_entities(repository)
        effective_limits = await find_effective_limits(repository, resource)
        _introduce(terminal, effective_limits, resource)
        if not anew:
            terminal.say("       An earlier run used the same buckets: they refill within a minute.")
        backend.meter.reset()
        board = await _burst(RateLimiter(repository=repository), resource, effective_limits, terminal)
    summarize(terminal, board, backend.meter)


def say_applied(terminal: Terminal, file: str, answer: Mapping[str, Any]) -> None:
    """Print what the provisioner changed."""
    done = [f"{answer[action]} {action}" for action in ("created", "updated") if answer[action]]
    changes = ", ".join(done) or "no changes"
    terminal.say(f"\n{terminal.paint('Limits', 'bold')}  {file} applied to namespace {answer['namespace']}: {changes}")


def _introduce(terminal: Terminal, effective_limits: Sequence[EffectiveLimits], resource: str) -> None:
    names = max(len(each.entity_id) for each in effective_limits)
    levels = max(len(_level(each, resource)) for each in effective_limits)
    for each in effective_limits:
        level, words = _level(each, resource), limits_in_words(each.limits)
        parts: list[Part] = [(f"  {each.entity_id:<{names}}  ", "bold"), (f"{level:<{levels}}  ", "dim"), (words, "")]
        terminal.say(terminal.line(parts))
    children = " and ".join(caller.entity_id for caller in CALLERS if caller.parent_id)
    terminal.say(f"  {children} are keys of {PROJECT}: each of their calls consumes from both.\n")
    calls, burst = sum(caller.calls for caller in CALLERS), terminal.paint("Burst", "bold")
    terminal.say(f"{burst}  {calls} calls of {resource} at once. Each call takes its tokens first; without")
    terminal.say(f"       enough, it waits as long as the limiter says, but {LONGEST_WAIT_SECONDS} s at most.")


def _level(effective: EffectiveLimits, resource: str) -> str:
    levels = {
        "entity": "its own",
        "entity_default": "its own, for all",
        "resource": f"{resource}'s",
        "system": "system's",
    }
    return levels[effective.level or "system"]


async def _burst(
    limiter: RateLimiter, resource: str, effective_limits: Sequence[EffectiveLimits], terminal: Terminal
) -> CallBoard:
    board = CallBoard(
        Event(caller.entity_id, number, "calling") for caller in CALLERS for number in range(caller.calls)
    )
    width = max(len(caller) for caller in board.callers)
    display: Display = TableDisplay(terminal, board) if terminal.live else LineDisplay(terminal, width)

    def report(event: Event) -> None:
        board.note(event)
        display.note(event)

    burst = Burst.of(limiter, resource, effective_limits, report)
    async with _ticking(display, burst, terminal):
        await burst.run()
    return board


@asynccontextmanager
async def _ticking(display: Display, burst: Burst, terminal: Terminal) -> AsyncIterator[None]:
    async def tick() -> None:
        while True:
            display.tick(burst.now)
            await asyncio.sleep(_TICK_SECONDS)

    terminal.show_cursor(shown=False)
    ticking = asyncio.create_task(tick())
    try:
        yield
    finally:
        ticking.cancel()
        display.tick(burst.now)
        terminal.show_cursor(shown=True)
