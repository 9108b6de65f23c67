"""A clock of the host that was wrong once: fast for a while, and corrected."""

from contextlib import closing
from pathlib import Path

import pytest

from zae_limiter import Limit, RateLimitExceeded, SyncRateLimiter, SyncRepository
from zae_limiter.engines.sqlite.sync import SyncSQLiteStore
from zae_limiter.operations.values import Get, Key, Put, Update

YEAR = 365 * 86_400
BURST = 10


class Host:
    """The clock of a host, which somebody sets."""

    def __init__(self) -> None:
        self.seconds = 1_700_000_000.0

    def now_ms(self) -> int:
        return int(self.seconds * 1000)


@pytest.fixture
def host() -> Host:
    return Host()


def program(path: Path, host: Host, limit: Limit) -> SyncRateLimiter:
    return SyncRateLimiter(SyncRepository.sqlite(path, clock=host), default_limits=[limit])


def take(limiter: SyncRateLimiter, times: int) -> tuple[int, float]:
    """Return how many calls passed, and the wait that the last refusal told."""
    passed, wait = 0, 0.0
    for _ in range(times):
        try:
            with limiter.acquire("ann", "api", {"n": 1}):
                passed += 1
        except RateLimitExceeded as error:
            wait = error.retry_after_seconds
    return passed, wait


KINDS = {
    "token bucket": (Limit.per_minute("n", BURST), 60),
    "slow": (Limit.per_day("n", BURST), 86_400),
    "calendar": (Limit.per_day("n", BURST, window="calendar"), 86_400),
    "first use": (Limit.quota("n", BURST, window=3600), 3600),
}


@pytest.mark.parametrize(("limit", "refill"), KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("used_before", [True, False])
@pytest.mark.parametrize("fast", [120, 86_400, YEAR])
def test_a_clock_that_was_fast_stops_and_mints_nothing(
    path: Path,
    host: Host,
    limit: Limit,
    refill: int,
    used_before: bool,  # noqa: FBT001
    fast: int,
) -> None:
    with program(path, host, limit) as limiter:
        if used_before:
            assert take(limiter, 1) == (1, 0)
        host.seconds += fast
        passed, _ = take(limiter, BURST + 1)
        assert passed in (BURST - 1, BURST)
        host.seconds -= fast
        for each in (limiter, new := program(path, host, limit)):
            passed, wait = take(each, 1)
            assert (passed, 0 < wait <= refill) == (0, True)
        host.seconds += refill
        assert take(new, BURST + 1)[0] == BURST
        new.close()


def test_slots_taken_by_a_fast_clock_expire_in_time(path: Path, host: Host) -> None:
    limit = Limit.concurrent("n", 2, expires=60)
    with program(path, host, limit) as limiter:
        assert take(limiter, 1) == (1, 0)
        host.seconds += YEAR
        lost = [limiter.acquire("ann", "api", {"n": 1}) for _ in range(2)]
        for each in lost:
            each.__enter__()
        host.seconds -= YEAR
        with program(path, host, limit) as new:
            assert take(new, 1)[0] == 0
            host.seconds += 121
            assert take(new, 2)[0] == 2


def test_a_clock_that_is_behind_and_corrected_does_no_harm(path: Path, host: Host) -> None:
    limit = Limit.per_minute("n", BURST)
    with program(path, host, limit) as limiter:
        assert take(limiter, BURST)[0] == BURST
        host.seconds -= YEAR
        assert take(limiter, 1)[0] == 0
        host.seconds += 60
        assert take(limiter, BURST + 1)[0] == BURST
        host.seconds += YEAR
        assert take(limiter, BURST + 1)[0] == BURST


def busy(store: SyncSQLiteStore, batches: int = 300) -> None:
    for _ in range(batches):
        store.perform(Update(Key("ns/A", "#META"), add={"n": 1}))


def test_a_jump_of_the_clock_removes_nothing_within_a_minute(path: Path, host: Host) -> None:
    expiring = {"PK": "ns/B", "SK": "#AUDIT", "ttl": int(host.seconds) + 90 * 86_400}
    with closing(SyncSQLiteStore(path, clock=host)) as store:
        store.perform(Put(expiring))
        busy(store)
        host.seconds += YEAR
        busy(store)
        host.seconds += 59
        busy(store)
        host.seconds -= YEAR
        busy(store)
        assert store.perform(Get(Key("ns/B", "#AUDIT"))) == expiring
        host.seconds += 90 * 86_400
        busy(store)
        assert store.perform(Get(Key("ns/B", "#AUDIT"))) == expiring  # for a minute, in case it is a jump
        host.seconds += 61
        busy(store)
        assert store.perform(Get(Key("ns/B", "#AUDIT"))) is None


def test_a_file_that_is_seldom_used_is_swept_too(path: Path, host: Host) -> None:
    with closing(SyncSQLiteStore(path, clock=host)) as store:
        store.perform(Put({"PK": "ns/B", "SK": "s", "ttl": int(host.seconds) + 10}))
    for _ in range(3):
        host.seconds += 3600
        with closing(SyncSQLiteStore(path, clock=host)) as store:
            busy(store, 100)
    with closing(SyncSQLiteStore(path, clock=host)) as store:
        assert store.perform(Get(Key("ns/B", "s"))) is None
