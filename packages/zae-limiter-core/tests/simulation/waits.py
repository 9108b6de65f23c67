"""What must be true of callers that wait for tokens.

Lives here: the sleeps of one caller, the order of the callers of a process. Never: balances (oracle).
"""

from collections.abc import Callable, Collection, Sequence
from itertools import combinations

from zae_limiter.flows.acquire.requests import AcquireRequest
from zae_limiter.schema import keys
from zae_limiter.values.refusal import RateLimitExceeded

from .kernel import Future, Kernel, Owner, Violation

A_BIT_MS = 5  # of rounding


class Waits:
    """The sleeps of one caller from its request to the answer; times are the true ones, in microseconds.

    ``sleeps``: how many have ended, ``woken``: by somebody else.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.request: AcquireRequest | None = None
        self._opened: Callable[[], bool] = lambda: False
        self.begun_us = 0
        self.slept_us = 0
        self.woken = 0
        self.sleeps = 0
        self.asleep_us: int | None = None
        self.ended_us: int | None = None
        self.admitted = False

    def begin(self, request: AcquireRequest, opened: Callable[[], bool] = lambda: False) -> None:
        """The caller asks; ``opened``: whether a switch may let it pass its own bucket."""
        self.request, self.begun_us, self._opened = request, self._kernel.now_us, opened

    def sleep(self, duration_us: int, woken: Future) -> None:
        """The caller sleeps, or is woken sooner. Raises ``Violation`` where that is for longer than its budget."""
        assert self.request is not None, "only who asks waits"
        now_us = self._kernel.now_us
        self.asleep_us = now_us if self.asleep_us is None else self.asleep_us
        if self.slept_us + duration_us > self.request.max_wait * 1e6 + 1000 * A_BIT_MS:
            longest_us = self.slept_us + duration_us
            raise Violation(f"a caller sleeps {longest_us / 1e6} s, it was to wait {self.request.max_wait} s")
        woken.when_done(lambda: self._wakes(now_us, duration_us))

    def _wakes(self, since_us: int, duration_us: int) -> None:
        slept_us = self._kernel.now_us - since_us
        self.slept_us += slept_us
        self.woken += slept_us < duration_us
        self.sleeps += 1

    def asks(self, bucket: str) -> bool:
        """Whether it asks in the first place for tokens of this bucket, and may be refused there: who passes an open
        bucket waits for those above alone.
        """
        asks = self.request is not None and keys.pk_bucket("ns", *self.request.asker, 0)[:-2] == bucket
        return asks and not self._opened()

    def end(self) -> None:
        """The caller has its answer, or wants none any more."""
        self.ended_us = self._kernel.now_us

    def admit(self) -> None:
        """The answer is yes."""
        self.admitted = True

    def check_refusal(self, error: RateLimitExceeded, skew_ms: int) -> None:
        """Raises ``Violation`` where the tokens would have come within the budget.

        One that goes on to an overflow may have waited for nothing, and is told when that has some again.
        """
        assert self.request is not None, "only who asks is refused"
        if self.request.on_refused is not None:
            return
        gone_us = max(self.slept_us, self._kernel.now_us - self.begun_us)
        left_s = self.request.max_wait - gone_us / 1e6 - (skew_ms + A_BIT_MS) / 1000
        if error.retry_after_seconds < left_s:
            raise Violation(f"refused for {error.retry_after_seconds} s, while {left_s} s of the budget were left")

    def overtakes(self, other: "Waits") -> bool:
        """Whether this one came when the other one slept, wanted no less of the same, and got it first. One that sleeps
        past its time, because its process was suspended, is passed over.
        """
        if self.request is None or other.request is None or other.asleep_us is None or self.ended_us is None:
            return False
        in_time = self.begun_us <= other.begun_us + other.request.max_wait * 1e6
        came_later = self.begun_us > other.asleep_us and self.request.max_wait > 0 and in_time
        got_it_first = self.admitted and (other.ended_us is None or self.ended_us < other.ended_us)
        return came_later and got_it_first and _wants_no_less(self.request, other.request)


class Bell:
    """The callers of one process that sleep, of whom a slot that comes back is to wake the first one."""

    def __init__(self, kernel: Kernel, owner: Owner) -> None:
        self._kernel = kernel
        self._owner = owner
        self._asleep: dict[Future, tuple[Waits, bool]] = {}

    def sleeps(self, woken: Future, waits: Waits, *, for_slots: bool) -> None:
        """A caller sleeps, and a slot that comes back may wake it, or not."""
        self._asleep[woken] = waits, for_slots
        woken.when_done(lambda: self._asleep.__delitem__(woken))

    def rings(self, bucket: str, within_us: int) -> None:
        """Slots came back to a bucket. Raises ``Violation`` later on where callers sleep, all of them for slots of this
        bucket, and none is woken.
        """
        asleep = [(waits, for_slots) for waits, for_slots in self._asleep.values() if waits.ended_us is None]
        if asleep and all(for_slots and waits.asks(bucket) for waits, for_slots in asleep):
            sleeps = [(waits, waits.sleeps) for waits, _ in asleep]
            self._kernel.later(within_us, lambda: self._check_woken(bucket, sleeps))

    def _check_woken(self, bucket: str, sleeps: Collection[tuple[Waits, int]]) -> None:
        if self._owner.alive and all(waits.ended_us is None and waits.sleeps == sleep for waits, sleep in sleeps):
            raise Violation(f"slots came back to {bucket}, and none of {len(sleeps)} who wait for some was woken")


def _wants_no_less(one: AcquireRequest, other: AcquireRequest) -> bool:
    if (one.asker, one.cascade, one.draws) != (other.asker, other.cascade, other.draws):
        return False
    if one.amounts.keys() != other.amounts.keys():
        return False
    return all(amount >= other.amounts[name] for name, amount in one.amounts.items())


def check_order(waits: Sequence[Waits]) -> None:
    """Judge the callers of one process that waited. Raises ``Violation`` unless the first one is served first."""
    for first, second in combinations(sorted(waits, key=lambda each: each.begun_us), 2):
        if second.overtakes(first):
            raise Violation(
                f"{second.request} came at {second.begun_us} and was served at {second.ended_us}, "
                f"before {first.request}, which slept from {first.asleep_us} to {first.ended_us}"
            )
