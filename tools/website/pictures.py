"""Draw the pictures of the docs from the library's own arithmetic, and the charts from what was measured.

python -m website.pictures   (with tools on PYTHONPATH; `just pictures` and `just bench` call it)
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zae_limiter import Limit
from zae_limiter.rules.balances import ShardLimit, force_consume, refill_bucket
from zae_limiter.rules.sharding import halve
from zae_limiter.values.limits import MILLI

from .charts import charts
from .loop import loop
from .svg import arrow, box, dot, line, picture, text

FOLDER: Final = Path(__file__).parents[2] / "docs" / "assets" / "pictures"

LIMIT: Final = Limit("rpm", capacity=6, burst=10, refill_amount=6, refill_period=60)
CALLS: Final = ((5, 4), (10, 4), (15, 4), (20, 2), (60, 5), (90, 3), (95, 3))  # second, tokens
SECONDS: Final = 150


@dataclass(frozen=True, slots=True)
class Call:
    """A call for tokens, and its outcome: what was there before and after it."""

    second: int
    cost: int
    before: float
    after: float

    @property
    def admitted(self) -> bool:
        """Whether it got its tokens."""
        return self.after < self.before


def calls() -> list[Call]:
    """Return the outcome of each call on the bucket, which begins full."""
    rule, balance = ShardLimit(LIMIT, 0), LIMIT._ceiling_milli
    outcomes = []
    for second, cost in CALLS:
        before = refill_bucket(rule, balance, second * 1000)
        if cost * MILLI <= before:
            rule, balance = force_consume(rule, balance, cost * MILLI, second * 1000)
        after = refill_bucket(rule, balance, second * 1000)
        outcomes.append(Call(second, cost, before / MILLI, after / MILLI))
    return outcomes


def levels() -> list[tuple[float, float]]:
    """Return (second, tokens) along the time, with both ends of each fall."""
    points: list[tuple[float, float]] = []
    rule, balance, pending = ShardLimit(LIMIT, 0), LIMIT._ceiling_milli, {call.second: call for call in calls()}
    for second in range(SECONDS + 1):
        points.append((second, refill_bucket(rule, balance, second * 1000) / MILLI))
        if second in pending and pending[second].admitted:
            rule, balance = force_consume(rule, balance, pending[second].cost * MILLI, second * 1000)
            points.append((second, refill_bucket(rule, balance, second * 1000) / MILLI))
    return points


def over_time() -> str:
    """Return the picture of a bucket over time."""

    def at(second: float, tokens: float) -> tuple[float, float]:
        return 34 + second * 2.5, 240 - tokens * 17

    def shapes() -> Iterator[str]:
        yield line([at(0, 0), *(at(*point) for point in levels()), at(SECONDS, 0)], "level")
        yield line([at(*point) for point in levels()])
        yield line([at(0, LIMIT.burst), at(SECONDS, LIMIT.burst)], "limit")
        yield line([at(0, 0), at(SECONDS, 0)], "axis")
        yield text(*at(SECONDS, LIMIT.burst + 0.4), f"burst: {LIMIT.burst}", "small", anchor="end")
        for tokens in (0, 5, 10):
            yield text(28, at(0, tokens)[1] + 4, str(tokens), "small", anchor="end")
        for second in range(0, SECONDS + 1, 30):
            yield text(at(second, 0)[0], 258, f"{second} s", "small", anchor="middle")
        for call in calls():
            x, y = at(call.second, call.before)
            yield dot(x, y, "yes" if call.admitted else "no")
            yield text(x, y - 9, f"{call.cost}", "small", anchor="middle")
        yield text(20, 24, "A bucket of 6 a minute, burst 10")
        yield text(20, 42, "Dots are calls, with the tokens that they want", "small")

    said = "; ".join(
        f"at {call.second} s a call for {call.cost} of {call.before:g} is {'admitted' if call.admitted else 'refused'}"
        for call in calls()
    )
    return picture("A token bucket over time", 440, 270, shapes(), said)


WAYS: Final = (
    ("admitted", "1 round trip, 1 write", ("take 1, if 1 is there", "done: 59 are left")),
    ("others were faster", "2 round trips, 2 writes", ("take 1, if 1 is there", "no: the item is now like this")),
    ("refused by the last seen state", "no request", ()),
)


def ways() -> str:
    """Return the picture of an acquire's way between process and table."""

    def shapes() -> Iterator[str]:
        for number, (name, cost, steps) in enumerate(WAYS):
            top = 34 + number * 104
            yield text(20, top - 8, name, "yes" if steps else "no")
            yield text(420, top - 8, cost, "small", anchor="end")
            yield from _named_box(20, top, "process")
            if steps:
                yield from _named_box(340, top, "table")
                yield from _asked_and_answered(top, *steps)

    said = "; ".join(f"{name}: {cost}" for name, cost, _ in WAYS)
    return picture("The way of an acquire", 440, 312, shapes(), said)


def _named_box(x: float, y: float, name: str) -> Iterator[str]:
    yield box(x, y, 80, 60)
    yield text(x + 40, y + 35, name, anchor="middle")


def _asked_and_answered(top: float, asked: str, answered: str) -> Iterator[str]:
    yield text(220, top + 14, asked, "small", anchor="middle")
    yield arrow((104, top + 20), (336, top + 20))
    yield text(220, top + 42, answered, "small", anchor="middle")
    yield arrow((336, top + 48), (104, top + 48))


WHOLE: Final = Limit.per_minute("rpm", 100)
BALANCE: Final = 72


def shards() -> list[list[tuple[int, int]]]:
    """Return (tokens, ceiling) of each shard before a split, after one, and after the split of both halves."""
    stages = [[(ShardLimit(WHOLE, 0), BALANCE * MILLI)]]
    for _ in range(2):
        stages.append([half for rule, balance in stages[-1] for half in _halves(rule, balance)])
    return [
        [(refill_bucket(rule, balance, 0) // MILLI, rule.ceiling_milli // MILLI) for rule, balance in each]
        for each in stages
    ]


def _halves(rule: ShardLimit, balance: int) -> list[tuple[ShardLimit, int]]:
    halves = halve(rule, balance, 0)
    old, new = (ShardLimit(WHOLE, 0, shard, 2 * rule.shards) for shard in (rule.shard, rule.shard + rule.shards))
    return [(old, halves.available - halves.moved), (new, halves.moved)]


def split() -> str:
    """Return the picture of a bucket that splits, twice."""

    def shapes() -> Iterator[str]:
        yield text(20, 24, f"{BALANCE} tokens of {WHOLE.capacity}, split twice: the sums stay")
        for number, stage in enumerate(shards()):
            x, width = 20 + number * 145, 110 / len(stage)
            for place, (tokens, ceiling) in enumerate(stage):
                left = x + place * width
                yield box(left, 150 - ceiling, width - 4, ceiling)
                yield box(left, 150 - tokens, width - 4, tokens, "level")
                yield text(left + width / 2 - 2, 168, str(tokens), anchor="middle")
            yield text(x + 53, 186, f"of {stage[0][1]}" + (" each" if number else ""), "small", anchor="middle")
            if number:
                yield arrow((x - 32, 120), (x - 6, 120))

    said = "; then ".join(f"{len(stage)} of {stage[0][1]}, {stage[0][0]} tokens each" for stage in shards())
    return picture("A bucket splits", 440, 200, shapes(), said)


def pictures() -> dict[str, str]:
    """Return the text of each picture, by its file's name."""
    drawn = {"bucket-over-time.svg": over_time(), "acquire.svg": ways(), "split.svg": split(), "loop.svg": loop()}
    return drawn | charts()


def draw() -> None:
    """Write all pictures into the docs."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, drawn in pictures().items():
        (FOLDER / name).write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    draw()
