"""Random histories of several processes that lose the table together, against a ledger that knows only admissions.

Lives here: the bound of docs/design/admission.md ("Shares"). Never: how a share is computed.
"""

import os
import random
from typing import NamedTuple

import pytest

from support.core.worlds import Process, World, take, until
from zae_limiter import Limit, RateLimiterUnavailable, RateLimitExceeded
from zae_limiter.operations.errors import OutcomeUnknown, Unreachable

HISTORIES = int(os.environ.get("ZAEL_TEST_HISTORIES", "12"))
RATE, BURST = 5, 150  # tokens a second, tokens
LIMIT = Limit.custom("rps", BURST, refill_amount=RATE, refill_period=1)


class Admission(NamedTuple):
    """Tokens that a process was let have; negative ones came back."""

    at_ms: int
    process: int
    tokens: int
    by_share: bool


class History:
    """Processes whose traffic changes every now and then, on one bucket."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.world = World("async")
        self.processes: list[Process] = []
        self.admissions: list[Admission] = []
        self.weights: list[float] = []

    async def open(self) -> None:
        """Start two to four processes."""
        for _ in range(self.chance.randint(2, 4)):
            self.processes.append(await self.world.process(default_limits=[LIMIT], on_unavailable="share"))
        self.change()

    def change(self) -> None:
        """Let another process be busy, or all of them; one that is not may call nevertheless."""
        self.weights = [self.chance.choice((0.02, 1, 1, 8)) for _ in self.processes]

    async def play(self, seconds: float) -> None:
        """Calls at random for so many seconds."""
        clock = self.world.clock
        end = clock.now_ms() + seconds * 1000
        while clock.now_ms() < end:
            await self.call(*self.chance.choices(range(len(self.processes)), self.weights))
            clock.advance(seconds=self.chance.choice((0, 0.05, 0.3, 1, 2)))
            if self.chance.random() < 0.03:
                self.change()

    async def call(self, number: int) -> None:
        """One acquire, which may use less than it asks for, and may fail in its block."""
        tokens = self.chance.choice((1, 2, 3, 5, 20))
        used = self.chance.randint(0, tokens) if self.chance.random() < 0.3 else tokens
        try:
            async with self.processes[number].limiter.acquire("e", "r", {"rps": tokens}) as lease:
                self.note(number, tokens, by_share=lease.degraded)
                if used < tokens:
                    await lease.settle(rps=used)
                    self.note(number, used - tokens, by_share=lease.degraded)
        except (RateLimitExceeded, RateLimiterUnavailable):
            return

    def note(self, number: int, tokens: int, *, by_share: bool) -> None:
        self.admissions.append(Admission(self.world.clock.now_ms(), number, tokens, by_share))

    async def lose_the_table(self) -> None:
        """All of them at once."""
        for process in self.processes:
            process.wire.break_down(self.chance.choice((Unreachable("away"), OutcomeUnknown("no answer"))))

    async def find_the_table(self) -> None:
        """All of them at once; each pays at once, too, because it ends."""
        for process in self.processes:
            process.wire.repair()
        for process in self.processes:
            await until(lambda process=process: process.repository.get_store_stats().breaker == "closed")  # type: ignore[misc]
            await process.repository.close()

    async def drain(self) -> None:
        """Take all that is left, from another process."""
        self.processes.append(await self.world.process(default_limits=[LIMIT]))
        while True:
            try:
                await take(self.processes[-1].limiter, "e", "r", rps=1)
            except RateLimitExceeded:
                return
            self.note(len(self.processes) - 1, 1, by_share=False)

    def overdraft(self) -> float:
        """The tokens by which an ideal bucket is overdrawn."""
        level, worst, at = float(BURST), 0.0, self.admissions[0].at_ms
        for each in self.admissions:
            level = min(BURST, level + (each.at_ms - at) * RATE / 1000) - each.tokens
            worst, at = max(worst, -level), each.at_ms
        return worst

    def unseen(self, lost_ms: int) -> int:
        """The most that others took between the last look of a process and the loss of the table."""
        before = [each for each in self.admissions if not each.by_share and each.at_ms <= lost_ms]
        most = 0
        for number in {each.process for each in self.admissions if each.by_share}:
            last = max((place for place, each in enumerate(before) if each.process == number), default=0)
            most = max(most, sum(max(0, each.tokens) for each in before[last + 1 :] if each.process != number))
        return most


@pytest.mark.long(keep=3)
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(HISTORIES))
async def test_shares_hold_the_bound_and_are_paid(seed: int) -> None:
    history = History(seed)
    await history.open()
    await history.play(history.chance.uniform(70, 160))
    lost_ms = history.world.clock.now_ms()
    await history.lose_the_table()
    await history.play(history.chance.choice((5, 40, 200)))
    await history.find_the_table()
    await history.drain()
    assert history.overdraft() <= history.unseen(lost_ms) + len(history.processes)  # a token each is rounded
    item = history.world.bucket_of(history.processes[-1].limiter, "e", "r")
    assert item is not None
    assert item["b_rps_tc"] == 1000 * sum(each.tokens for each in history.admissions)


async def test_histories_have_shares() -> None:
    """Else the test above says nothing."""
    history = History(0)
    await history.open()
    await history.play(120)
    await history.lose_the_table()
    await history.play(60)
    assert sum(each.tokens for each in history.admissions if each.by_share) > BURST / 3
