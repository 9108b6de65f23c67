"""Write the table of docs/limiter.md that says when processes obey a change, by making each change.

python -m website.obeyed   (with tools on PYTHONPATH; `just pictures` calls it)

Two processes share a table in memory and a clock that stands still between calls. Each calls ten times a second, before
a change and after it. A cell is the time from the change to the first call that obeys it, the later of two directions:
calls are refused from then on, and calls that were refused pass from then on.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from zae_limiter import Limit, RateLimitExceeded, SyncRateLimiter, SyncRepository
from zae_limiter.settings import Options
from zae_limiter.stores import MemoryTable, SyncMemoryStore
from zae_limiter.testing import ManualClock

from .markers import fill

PAGE: Final = Path(__file__).parents[2] / "docs" / "limiter.md"
STEP: Final = 100  # ms between two calls of a process
WARM: Final = (20, 200, 400)  # calls before the change, in turn: limits that were read just now, and long ago
BOUNDS: Final = {0: "next call", 1_000: "1 s", 5_000: "5 s, its `ahead`", 60_000: "60 s"}  # ms
AHEAD: Final = 5
BEGIN: Final = 1_700_000_000_000  # epoch ms

Change = Callable[[SyncRepository, bool, int], object]
"""Let all calls of an entity pass, or none. The last argument: for how many seconds tokens are held ahead."""


def _limits(passes: bool, ahead: int) -> list[Limit]:  # noqa: FBT001 - the direction of a change
    return [Limit.per_minute("rpm", 1_000_000, ahead=ahead) if passes else Limit.per_minute("rpm", 0)]


def _with_limits(ahead: int, repository: SyncRepository) -> None:
    repository.set_limits("user", _limits(True, ahead), "gpt-4")


def _own(repository: SyncRepository, passes: bool, ahead: int) -> None:  # noqa: FBT001
    repository.set_limits("user", _limits(passes, ahead), "gpt-4")


def _override(repository: SyncRepository, passes: bool, ahead: int) -> None:  # noqa: FBT001
    until = datetime.fromtimestamp(BEGIN / 1000, UTC) + timedelta(hours=1)
    repository.set_limits("user", _limits(passes, ahead), "gpt-4", override_until=until)


def _resource(repository: SyncRepository, passes: bool, ahead: int) -> None:  # noqa: FBT001
    repository.set_resource_defaults("gpt-4", _limits(passes, ahead))


def _system(repository: SyncRepository, passes: bool, ahead: int) -> None:  # noqa: FBT001
    repository.set_system_defaults(_limits(passes, ahead))


def _plan(repository: SyncRepository, passes: bool, ahead: int) -> None:  # noqa: FBT001
    repository.set_plan_limits("gold", _limits(passes, ahead))
    if repository.get_entity("user") is None:
        repository.create_entity("user", plan="gold")


def _assigned(repository: SyncRepository, passes: bool, ahead: int) -> None:  # noqa: FBT001
    for plan in (True, False):
        repository.set_plan_limits(str(plan).lower(), _limits(plan, ahead))
    if repository.get_entity("user") is None:
        repository.create_entity("user", plan=str(passes).lower())
    repository.update_entity("user", plan=str(passes).lower())


def _switch(repository: SyncRepository, passes: bool, ahead: int) -> None:  # noqa: FBT001
    if repository.get_limits("user", "gpt-4") == []:
        _with_limits(ahead, repository)
    repository.set_switches("user", disabled=not passes)


def _resource_switch(repository: SyncRepository, passes: bool, ahead: int) -> None:  # noqa: FBT001
    if repository.get_limits("user", "gpt-4") == []:
        _with_limits(ahead, repository)
    repository.set_resource_switches("gpt-4", disabled=not passes)


def _told(change: Change, resource: str | None, *, for_switches: bool = False) -> Change:
    def changed(repository: SyncRepository, passes: bool, ahead: int) -> None:  # noqa: FBT001
        change(repository, passes, ahead)
        repository.tell_live_buckets(resource, for_switches=for_switches)

    return changed


CHANGES: Final[Mapping[str, Change]] = {
    "an entity's own limits (`set_limits`, `limits apply`)": _own,
    "an override (`override_until`; the commands `block` and `lift`)": _override,
    "an entity's plan (`update_entity(plan=…)`)": _assigned,
    "an entity's switches (`set_switches`)": _switch,
    "the limits of a plan": _plan,
    "the limits of a resource": _resource,
    'the limits of a resource, then `tell_live_buckets("gpt-4")` or `--now`': _told(_resource, "gpt-4"),
    "the limits of the system": _system,
    "the limits of the system, then `tell_live_buckets()` or `--now`": _told(_system, None),
    "the switches of a resource": _resource_switch,
    "the switches of a resource, then `tell_live_buckets(…, for_switches=True)` or `--now`": _told(
        _resource_switch, "gpt-4", for_switches=True
    ),
}


def latest(change: Change, passes: bool, *, by_another: bool, ahead: int = 0) -> int:  # noqa: FBT001
    """Return how many milliseconds after the change a process obeys it at the latest: this process, or another."""
    return max(_trial(change, passes, by_another, ahead, calls) for calls in WARM)


def _trial(change: Change, passes: bool, by_another: bool, ahead: int, calls: int) -> int:  # noqa: FBT001
    clock, store = ManualClock(BEGIN), SyncMemoryStore(MemoryTable())
    ours, others = (SyncRepository.over(store, Options(clock=clock)) for _ in range(2))
    asked = SyncRateLimiter(others if by_another else ours)
    change(ours, not passes, ahead)
    for _ in range(calls):
        if _is_admitted(asked) is passes:
            raise RuntimeError("the limits before the change do not hold")
        clock.advance(ms=STEP)
    begun = clock.now_ms()
    change(ours, passes, ahead)
    while _is_admitted(asked) is not passes:
        if clock.now_ms() > begun + max(BOUNDS):
            raise RuntimeError(f"not obeyed within {max(BOUNDS)} ms")
        clock.advance(ms=STEP)
    return clock.now_ms() - begun


def _is_admitted(limiter: SyncRateLimiter) -> bool:
    try:
        with limiter.acquire("user", "gpt-4", {"rpm": 1}):
            return True
    except RateLimitExceeded:
        return False


def table() -> str:
    """Return a row for each change: within which bound a process refuses by it, and lets pass by it."""
    columns = (
        "this process",
        "another process refuses",
        "one that holds tokens ahead refuses",
        "one that refused lets pass",
    )
    rows = [f"| what changes | {' | '.join(columns)} |", f"|---{'|---' * len(columns)}|"]
    for name, change in CHANGES.items():
        ours = max(latest(change, passes, by_another=False) for passes in (True, False))
        others = latest(change, False, by_another=True)
        holding = latest(change, False, by_another=True, ahead=AHEAD)
        refusing = latest(change, True, by_another=True)
        rows.append(f"| {name} | {' | '.join(_bound(each) for each in (ours, others, holding, refusing))} |")
    return "\n".join(rows)


def _bound(took: int) -> str:
    own = took if took >= STEP else 0  # less than a step is what the change itself took
    return next(text for bound, text in BOUNDS.items() if own <= bound)


def filled(page: str) -> str:
    """Return the page with today's table."""
    return fill(page, "obeyed", table())


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
