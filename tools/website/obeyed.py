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
from zae_limiter.maintenance import SyncMaintenance
from zae_limiter.settings import Options
from zae_limiter.stores import MemoryTable, SyncMemoryStore
from zae_limiter.testing import ManualClock

from .markers import fill

PAGE: Final = Path(__file__).parents[2] / "docs" / "limiter.md"
STEP: Final = 100  # ms between two calls of a process
WARM: Final = (20, 200, 400)  # calls before the change, in turn: limits that were read just now, and long ago
BOUNDS: Final = {0: "next call", 1_000: "1 s", 5_000: "5 s, its `prefetch`", 60_000: "60 s"}  # ms
PREFETCH: Final = 5
BEGIN: Final = 1_700_000_000_000  # epoch ms

MANY: Final = 1_000_000  # the capacity by which all calls of this program pass; by 0 none does

Change = Callable[[SyncRepository, int, int], object]
"""Give an entity this capacity, of which tokens may be prefetched for so many seconds."""


def _limits(capacity: int, prefetch: int) -> list[Limit]:
    return [Limit.per_minute("rpm", capacity, prefetch=prefetch if capacity else 0)]


def _own(repository: SyncRepository, capacity: int, prefetch: int) -> None:
    repository.set_limits("user", _limits(capacity, prefetch), "gpt-4")


def _override(repository: SyncRepository, capacity: int, prefetch: int) -> None:
    until = datetime.fromtimestamp(BEGIN / 1000, UTC) + timedelta(hours=1)
    repository.set_limits("user", _limits(capacity, prefetch), "gpt-4", override_until=until)


def _resource(repository: SyncRepository, capacity: int, prefetch: int) -> None:
    repository.set_resource_defaults("gpt-4", _limits(capacity, prefetch))


def _system(repository: SyncRepository, capacity: int, prefetch: int) -> None:
    repository.set_system_defaults(_limits(capacity, prefetch))


def _tier(repository: SyncRepository, capacity: int, prefetch: int) -> None:
    repository.set_tier_limits("gold", _limits(capacity, prefetch))
    if repository.get_entity("user") is None:
        repository.create_entity("user", tier="gold")


def _assigned(repository: SyncRepository, capacity: int, prefetch: int) -> None:
    tier = f"tier-{capacity}"
    repository.set_tier_limits(tier, _limits(capacity, prefetch))
    if repository.get_entity("user") is None:
        repository.create_entity("user", tier=tier)
    repository.update_entity("user", tier=tier)


def _switch(repository: SyncRepository, capacity: int, prefetch: int) -> None:
    if repository.get_limits("user", "gpt-4") == []:
        _own(repository, MANY, prefetch)
    repository.set_switches("user", disabled=not capacity)


def _resource_switch(repository: SyncRepository, capacity: int, prefetch: int) -> None:
    if repository.get_limits("user", "gpt-4") == []:
        _own(repository, MANY, prefetch)
    repository.set_resource_switches("gpt-4", disabled=not capacity)


def _told(change: Change, resource: str | None, *, for_switches: bool = False) -> Change:
    def changed(repository: SyncRepository, capacity: int, prefetch: int) -> None:
        change(repository, capacity, prefetch)
        SyncMaintenance(repository).invalidate_live_buckets(resource, for_switches=for_switches)

    return changed


CHANGES: Final[Mapping[str, Change]] = {
    "an entity's own limits (`set_limits`, `limits apply`)": _own,
    "an override (`override_until`; the commands `disable --for` and `lift`)": _override,
    "an entity's tier (`update_entity(tier=…)`)": _assigned,
    "an entity's switches (`set_switches`)": _switch,
    "the limits of a tier": _tier,
    "the limits of a resource": _resource,
    'the limits of a resource, then `invalidate_live_buckets("gpt-4")` or `--now`': _told(_resource, "gpt-4"),
    "the limits of the system": _system,
    "the limits of the system, then `invalidate_live_buckets()` or `--now`": _told(_system, None),
    "the switches of a resource": _resource_switch,
    "the switches of a resource, then `invalidate_live_buckets(…, for_switches=True)` or `--now`": _told(
        _resource_switch, "gpt-4", for_switches=True
    ),
}


def latest(change: Change, capacity: int, *, by_another: bool, prefetch: int = 0) -> int:
    """Return how many milliseconds after the change a process obeys it at the latest: this process, or another."""
    return max(_trial(change, capacity, calls, by_another=by_another, prefetch=prefetch) for calls in WARM)


def _trial(change: Change, capacity: int, calls: int, *, by_another: bool, prefetch: int) -> int:
    clock, store = ManualClock(BEGIN), SyncMemoryStore(MemoryTable())
    ours, others = (SyncRepository.over(store, Options(clock=clock)) for _ in range(2))
    asked = SyncRateLimiter(others if by_another else ours)
    passes = capacity > 0
    change(ours, 0 if passes else MANY, prefetch)
    for _ in range(calls):
        if _is_admitted(asked) is passes:
            raise RuntimeError("the limits before the change do not hold")
        clock.advance(ms=STEP)
    begun = clock.now_ms()
    change(ours, capacity, prefetch)
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
        "one that prefetches tokens refuses",
        "one that refused lets pass",
    )
    rows = [f"| what changes | {' | '.join(columns)} |", f"|---{'|---' * len(columns)}|"]
    for name, change in CHANGES.items():
        ours = max(latest(change, capacity, by_another=False) for capacity in (MANY, 0))
        others = latest(change, 0, by_another=True)
        holding = latest(change, 0, by_another=True, prefetch=PREFETCH)
        refusing = latest(change, MANY, by_another=True)
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
