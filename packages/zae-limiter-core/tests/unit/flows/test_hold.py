"""Holds of several processes on one bucket, against notes of their blocks and of all admissions that are kept apart."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import accumulate
from random import Random

import pytest

from zae_limiter.flows import hold as module
from zae_limiter.flows.blocks import Draw, Shard, Source
from zae_limiter.flows.hold import Hold, Purpose
from zae_limiter.operations.values import NOTHING
from zae_limiter.rules.balances import ShardLimit
from zae_limiter.values.limits import Limit
from zae_limiter.values.resolution import Config

START = 1_700_000_000_000
STEPS = 120
SOURCE = Source(0, START)


@dataclass
class Note:
    """A block of a process: what is left of those taken at an instant."""

    taken: int
    left: int
    at_ms: int


@dataclass
class Notes:
    """What one process holds, and what it served since the last write that counted."""

    hold: Hold
    blocks: list[Note] = field(default_factory=list)
    uncounted: int = 0


class Table:
    """One bucket, the processes that hold tokens of it, and what was admitted and given back, at which instant."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        refill, period, ahead_ms = rng.choice((1, 7, 40)), rng.choice((1, 2, 60)), rng.choice((100, 1000, 5000))
        minted = -(-refill * ahead_ms // (1000 * period))
        burst = minted * rng.choice((1, 2, 4)) + rng.choice((2, 10, 40))
        limit = Limit.custom("l", burst, refill_amount=refill, refill_period=period, ahead=ahead_ms / 1000)
        self.config, self.life_ms = Config((limit,), START), ahead_ms
        self.limit = ShardLimit(self.config.limits[0], START)
        self.ceiling = self.limit.ceiling_milli
        self.now_ms = START
        self.tokens, self.at_ms = self.ceiling, START
        self.processes = [Notes(Hold(lambda: self.now_ms)) for _ in range(3)]
        self.leased = 0
        self.counted = 0
        self.admitted: list[tuple[int, int]] = [(START, 0)]
        self.returned: list[tuple[int, int]] = [(START, 0)]

    def minted(self, since_ms: int, until_ms: int) -> int:
        return self.limit.minted(until_ms) - self.limit.minted(since_ms)

    @property
    def level(self) -> int:
        return min(self.ceiling, self.tokens + self.minted(self.at_ms, self.now_ms))

    @property
    def potential(self) -> int:
        """What is there, and what may come back."""
        blocks = [block for process in self.processes for block in process.blocks]
        return self.level + sum(max(0, block.left - self.minted(block.at_ms, self.now_ms)) for block in blocks)

    def move(self, amount: int) -> None:
        """A call asks a hold, or a lease gives back; what no hold takes back goes to the table."""
        process = self.rng.choice(self.processes)
        if process.hold.move({"l": amount}, self.now_ms):
            self._take(process, amount)
            process.uncounted += amount
        elif amount < 0:
            self.tokens, self.at_ms = self.level - amount, self.now_ms
            self.counted += amount
        else:
            return
        self._note(amount)

    def write(self, amount: int, purpose: Purpose, fate: str) -> None:
        """A process takes an amount for a call, as far as it is there or is held, and what its hold draws."""
        process, now_ms = self.rng.choice(self.processes), self.now_ms
        held = process.hold.left().get("l", 0)
        amount = min(amount, self.level + held) if purpose == "renew" else 0
        shard = Shard(SOURCE, {"l": self.limit}, {"l": self.level - amount})
        draw = process.hold.draw(self.config, shard, {"l": amount}, 1 if amount else 0, now_ms, purpose)
        if fate == "refused":
            if draw is not None:
                process.hold.put_back(draw)
            return
        self._apply(process, draw, amount, fate)

    def _apply(self, process: Notes, draw: Draw | None, amount: int, fate: str) -> None:
        block, back, spent, paid = (None, 0, 0, 0) if draw is None else _amounts(draw)
        taken = 0 if block is None else block
        self._take(process, paid)
        self.tokens, self.at_ms = self.level - amount - taken + back + paid, self.now_ms
        assert self.tokens >= 0 or self.tokens >= self.level - amount, "a block is taken of what is there"
        self.counted += amount + spent
        process.uncounted -= spent
        if draw is not None:
            ended = [each.taken_ms for each in draw.ended]
            process.blocks = [each for each in process.blocks if each.at_ms not in ended]
        if fate == "applied":
            self._note(amount)
            process.hold.written(draw)
            if taken:
                process.blocks.append(Note(taken, taken, self.now_ms))
        else:  # nobody has the answer: the amount is lost, with the block
            self.counted -= amount

    def _take(self, process: Notes, amount: int) -> None:
        live = [block for block in process.blocks if self.now_ms < block.at_ms + self.life_ms]
        for block in live if amount > 0 else reversed(live):
            part = min(amount, block.left) if amount > 0 else max(amount, block.left - block.taken)
            block.left -= part
            amount -= part
        assert amount == 0, "no live block had that"

    def _note(self, amount: int) -> None:
        self.leased += amount
        (self.admitted if amount > 0 else self.returned).append((self.now_ms, abs(amount)))

    def check_intervals(self) -> None:
        """Admitted in [a, b] less given back in (a - L, b] is at most the ceiling and what was minted in [a - L, b]."""
        for begin, (from_ms, _) in enumerate(self.admitted):
            since_ms = from_ms - self.life_ms
            sums = accumulate(amount for _, amount in self.admitted[begin:])
            for (until_ms, _), admitted in zip(self.admitted[begin:], sums, strict=True):
                back = sum(amount for at_ms, amount in self.returned if since_ms < at_ms <= until_ms)
                assert admitted - back <= self.ceiling + self.minted(since_ms, until_ms) + STEPS  # floors


def _amounts(draw: Draw) -> tuple[int | None, int, int, int]:
    block = None if draw.block is None else draw.block.taken["l"]
    return block, draw.back.get("l", 0), draw.spent.get("l", 0), draw.paid.get("l", 0)


@pytest.fixture
def table(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Table:
    table = Table(Random(request.param))
    monkeypatch.setattr(module, "elapsed_ms", lambda: float(table.now_ms - START))
    return table


@pytest.mark.parametrize("table", range(150), indirect=True)
def test_what_is_there_or_comes_back_is_at_most_the_ceiling(table: Table) -> None:
    rng, life_ms = table.rng, table.life_ms
    for _ in range(STEPS):
        deed = rng.choice(("time", "serve", "serve", "serve", "give", "write", "write"))
        if deed == "time":
            table.now_ms += rng.choice((1, life_ms // 20, life_ms // 8, life_ms, 3 * life_ms))
        elif deed == "serve":
            table.move(1000 * rng.choice((1, 1, 2)))
        elif deed == "give":
            if table.leased >= 1000:
                table.move(-1000)
        else:
            purpose: Purpose = rng.choice(("renew", "renew", "renew", "count", "end"))
            table.write(1000 * rng.choice((1, 2, 5)), purpose, rng.choice(("applied",) * 8 + ("refused", "lost")))
        assert table.potential <= table.ceiling + len(table.processes)
    table.check_intervals()


@pytest.mark.parametrize("table", range(40), indirect=True)
def test_all_that_was_served_is_counted_in_the_end(table: Table) -> None:
    for _ in range(STEPS):
        table.now_ms += table.rng.choice((1, table.life_ms // 10))
        if table.rng.random() < 0.5:
            table.write(1000, "renew", "applied")
        else:
            table.move(1000 if table.leased < 2000 or table.rng.random() < 0.7 else -1000)
    table.now_ms += table.life_ms
    for process in table.processes:
        table.processes = [process]
        table.write(0, "count", "applied")
        assert process.uncounted == 0
        assert not process.hold.is_used
    assert table.counted == table.leased


def test_a_hold_serves_nothing_of_a_limit_that_it_does_not_have() -> None:
    hold = Hold(lambda: START)
    limit = Limit.custom("l", 100, refill_amount=1, refill_period=1, ahead=1.0)
    config, shards = Config((limit,), START), {"l": ShardLimit(Config((limit,), START).limits[0], START)}
    for _ in range(4):
        draw = hold.draw(config, Shard(SOURCE, shards, {"l": 90_000}), {"l": 1000}, 3, START, "renew")
        hold.written(draw)
    assert hold.move({"l": 1000}, START)
    assert not hold.move({"other": -1000}, START)
    assert not hold.move({"other": 0}, START)
    assert hold.move({"l": -1000}, START)


def test_a_limit_that_is_held_and_has_nothing_left_does_not_keep_another_from_its_block() -> None:
    hold = Hold(lambda: START)
    limits = tuple(Limit.custom(name, 100, refill_amount=1, refill_period=1, ahead=1.0) for name in ("a", "b"))
    config = Config(limits, START)
    shards = {limit.name: ShardLimit(limit, START) for limit in config.limits}
    left = {"a": 90_000, "b": 90_000}
    hold.written(hold.draw(config, Shard(SOURCE, shards, left), {"a": 5000, "b": 1000}, 5, START, "renew"))
    left["b"] = 0
    draw = hold.draw(config, Shard(SOURCE, shards, left), {"a": 5000, "b": 0}, 5, START + 10, "renew")
    assert draw is not None
    assert draw.block is not None
    assert draw.block.taken == {"a": 4000, "b": 0}


def test_no_block_is_taken_for_a_part_of_a_token() -> None:
    hold = Hold(lambda: START)
    config = Config((Limit.custom("l", 100, refill_amount=1, refill_period=1, ahead=1.0),), START)
    shard = Shard(SOURCE, {"l": ShardLimit(config.limits[0], START)}, {"l": 90_000})
    hold.written(hold.draw(config, shard, {"l": 5000}, 5, START, "renew"))
    assert hold.left() == {"l": 5000}
    assert hold.draw(config, shard, {"l": 800}, 1, START + 100, "renew") is None  # 5,300 were used lately


@pytest.mark.parametrize(
    ("used", "missing", "paid"),
    [(1000, 14, 1000), (3000, 3000, 3000), (4000, 2500, 2500), (1000, 1200, 1200), (6000, 4000, 3000)],
)
def test_what_the_bucket_lacks_is_paid_with_all_that_the_write_uses_if_that_much_is_held(
    used: int, missing: int, paid: int
) -> None:
    hold = Hold(lambda: START)
    config = Config((Limit.custom("l", 100, refill_amount=1, refill_period=1, ahead=1.0),), START)
    shards = {"l": ShardLimit(config.limits[0], START)}
    hold.written(hold.draw(config, Shard(SOURCE, shards, {"l": 90_000}), {"l": 3000}, 3, START, "renew"))
    assert hold.left() == {"l": 3000}
    draw = hold.draw(config, Shard(SOURCE, shards, {"l": -missing}), {"l": used}, 1, START, "renew")
    assert draw is not None
    assert draw.paid == {"l": paid}
    assert hold.left() == {"l": 3000 - paid}


def test_the_late_answer_of_another_shard_ends_no_block_taken_since() -> None:
    times = [START]
    hold = Hold(lambda: times[-1])
    config = Config((Limit.custom("l", 100, refill_amount=1, refill_period=1, ahead=1.0),), START)
    shards = {"l": ShardLimit(config.limits[0], START)}
    late = hold.draw(config, Shard(Source(1, START), shards, {"l": 0}), {"l": 5000}, 5, START, "renew")
    times.append(START + 1400)
    hold.written(hold.draw(config, Shard(Source(0, START), shards, {"l": 90_000}), {"l": 5000}, 5, times[-1], "renew"))
    assert hold.left() == {"l": 3000}
    hold.written(late)
    assert hold.left() == {"l": 3000}


def test_what_no_limit_can_count_keeps_no_reminder() -> None:
    hold = Hold(lambda: START)
    config = Config((Limit.custom("l", 100, refill_amount=1, refill_period=1, ahead=1.0),), START)
    shards = {"l": ShardLimit(config.limits[0], START)}
    for _ in range(4):
        hold.written(hold.draw(config, Shard(SOURCE, shards, {"l": 90_000}), {"l": 1000}, 3, START, "renew"))
    assert hold.move({"l": 1000}, START)
    assert hold.count((), START) == Draw(None, (), NOTHING, NOTHING, 1, ())
    assert hold.count((), START) is None


@pytest.mark.parametrize(("elapsed", "now", "served"), [(999, -500, True), (1001, -500, False), (500, 1000, False)])
def test_a_block_ends_by_the_clock_and_by_the_time_that_has_passed(
    elapsed: int, now: int, *, served: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "elapsed_ms", lambda: 0.0)
    hold = Hold(lambda: START)
    config = Config((Limit.custom("l", 100, refill_amount=1, refill_period=1, ahead=1.0),), START)
    shards = {"l": ShardLimit(config.limits[0], START)}
    for _ in range(4):
        hold.written(hold.draw(config, Shard(SOURCE, shards, {"l": 90_000}), {"l": 1000}, 3, START, "renew"))
    monkeypatch.setattr(module, "elapsed_ms", lambda: float(elapsed))
    assert hold.move({"l": 1000}, START + now) is served


def test_a_block_lives_as_long_as_the_last_limits_allow_even_if_the_bucket_keeps_its_rule(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "elapsed_ms", lambda: 0.0)
    hold = Hold(lambda: START)
    before = Config((Limit.custom("l", 104, refill_amount=1, refill_period=1, ahead=4.0),), START)
    after = Config((Limit.custom("l", 101, refill_amount=1, refill_period=1, ahead=1.0),), START)
    assert [limit.usable_burst for limit in before.limits] == [limit.usable_burst for limit in after.limits] == [100]
    shard = Shard(SOURCE, {"l": ShardLimit(before.limits[0], START)}, {"l": 90_000})
    hold.written(hold.draw(before, shard, {"l": 5000}, 5, START, "renew"))
    changed = START + 10
    hold.written(hold.draw(after, shard, {"l": 5000}, 5, changed, "renew"))
    assert not hold.move({"l": 1000}, changed)  # of a block that lives four seconds
    settled = changed + 4000
    for _ in range(4):
        hold.written(hold.draw(after, shard, {"l": 5000}, 5, settled, "renew"))
    assert hold.move({"l": 1000}, settled + 999)
    assert not hold.move({"l": 1000}, settled + 1000)


def test_nothing_comes_back_of_a_block_that_was_taken_under_another_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "elapsed_ms", lambda: 0.0)
    hold = Hold(lambda: START)
    piece = f"busy: {datetime.fromtimestamp((START + 60_000) // 1000, UTC):%H:%M}-23:59 UTC 6000/min"
    scheduled = Limit.custom("l", 100, refill_amount=1, refill_period=3600, ahead=1.0, schedule=[piece])
    before = Config((scheduled,), START).at(START)
    after = Config((replace(scheduled, schedule=()),), START)
    assert before.limits == after.limits
    shard = Shard(SOURCE, {"l": ShardLimit(before.limits[0], START)}, {"l": 90_000})
    for config, back in ((before, {"l": 4999}), (after, {})):  # less a part of a millitoken that came since
        hold.written(hold.draw(before, shard, {"l": 5000}, 5, START, "renew"))
        draw = hold.draw(config, shard, {"l": 1000}, 1, START + 120_000 * (config is after) + 1001, "end")
        assert ({} if draw is None else draw.back) == back


def test_what_a_block_paid_of_a_write_that_failed_is_held_no_longer_than_the_block() -> None:
    times = [START]
    hold = Hold(lambda: times[-1])
    config = Config((Limit.custom("l", 100, refill_amount=1, refill_period=1, ahead=1.0),), START)
    full, empty = ({"l": amount} for amount in (90_000, -3000))
    shards = {"l": ShardLimit(config.limits[0], START)}
    hold.written(hold.draw(config, Shard(Source(0, START), shards, full), {"l": 5000}, 5, START, "renew"))
    failing = hold.draw(config, Shard(Source(1, START), shards, empty), {"l": 3000}, 3, START, "renew")
    assert failing is not None
    assert failing.paid == {"l": 3000}
    times.append(START + 1000)
    hold.written(hold.draw(config, Shard(Source(1, START), shards, full), {"l": 5000}, 5, times[-1], "renew"))
    assert hold.move({"l": 4000}, times[-1])
    assert hold.left() == {"l": 1000}
    hold.put_back(failing)
    assert hold.left() == {"l": 1000}
    draw = hold.draw(config, Shard(Source(0, START), shards, full), {"l": 0}, 0, times[-1], "end")
    assert draw is not None
    assert draw.back == {"l": 4000}


@pytest.mark.parametrize("anchor_ms", [START, START + 1])
def test_a_write_that_finds_nothing_to_bring_back_leaves_no_block_that_has_ended(anchor_ms: int) -> None:
    times = [START]
    hold = Hold(lambda: times[-1])
    config = Config((Limit.custom("l", 100, refill_amount=10, refill_period=1, ahead=1.0),), START)
    shards = {"l": ShardLimit(config.limits[0], START)}
    hold.written(hold.draw(config, Shard(SOURCE, shards, {"l": 80_000}), {"l": 5000}, 5, START, "renew"))
    assert hold.left() == {"l": 5000}
    times.append(START + 3000)  # all of it has been minted since
    later = Shard(Source(0, anchor_ms), shards, {"l": 80_000})
    assert hold.draw(config, later, {"l": 1000}, 1, times[-1], "renew") is None
    times.append(START + 6000)
    assert hold.is_left_alone({"l": 1000}, 1, times[-1])
