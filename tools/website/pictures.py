"""Draw the pictures of docs/guides/token-bucket.md from the library's own arithmetic.

python -m website.pictures   (with tools on PYTHONPATH; `just pictures` calls it)
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zae_limiter import Limit
from zae_limiter.limits import MILLI
from zae_limiter.sharding import halve
from zae_limiter.token_bucket import ShardLimit, calculate_available, refill_bucket, try_consume

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
    rule, balance = ShardLimit(LIMIT, 0), LIMIT.ceiling_milli
    outcomes = []
    for second, cost in CALLS:
        before = refill_bucket(rule, balance, second * 1000)
        taken = try_consume(rule, balance, cost * MILLI, second * 1000)
        balance = balance if taken is None else taken
        after = refill_bucket(rule, balance, second * 1000)
        outcomes.append(Call(second, cost, before / MILLI, after / MILLI))
    return outcomes


def levels() -> list[tuple[float, float]]:
    """Return (second, tokens) along the time, with both ends of each fall."""
    points: list[tuple[float, float]] = []
    rule, balance, pending = ShardLimit(LIMIT, 0), LIMIT.ceiling_milli, {call.second: call for call in calls()}
    for second in range(SECONDS + 1):
        points.append((second, refill_bucket(rule, balance, second * 1000) / MILLI))
        if second in pending and pending[second].admitted:
            balance = try_consume(rule, balance, pending[second].cost * MILLI, second * 1000) or 0
            points.append((second, refill_bucket(rule, balance, second * 1000) / MILLI))
    return points


def over_time() -> str:
    """Return the picture of a bucket over time."""

    def at(second: float, tokens: float) -> tuple[float, float]:
        return 50 + second * 4, 230 - tokens * 18

    def shapes() -> Iterator[str]:
        yield line([at(0, 0), *(at(*point) for point in levels()), at(SECONDS, 0)], "level")
        yield line([at(*point) for point in levels()])
        yield line([at(0, LIMIT.burst), at(SECONDS, LIMIT.burst)], "limit")
        yield line([at(0, 0), at(SECONDS, 0)], "axis")
        yield text(*at(SECONDS, LIMIT.burst + 0.4), f"burst: {LIMIT.burst}", "small", anchor="end")
        for tokens in (0, 5, 10):
            yield text(42, at(0, tokens)[1] + 4, str(tokens), "small", anchor="end")
        for second in range(0, SECONDS + 1, 30):
            yield text(at(second, 0)[0], 248, f"{second} s", "small", anchor="middle")
        for call in calls():
            x, y = at(call.second, call.before)
            yield dot(x, y, "yes" if call.admitted else "no")
            yield text(x, y - 9, f"{call.cost}", "small", anchor="middle")
        yield text(
            50, 24, "Tokens in a bucket of 6 a minute, burst 10. Dots are calls, with the tokens that they want."
        )

    return picture("A token bucket over time", 680, 262, shapes())


WAYS: Final = (
    ("admitted", ("takes 1 of 60: one conditional write", "the write says: 59 are left"), "1 round trip, 1 write"),
    (
        "others were faster",
        ("takes 1 of 60: the condition fails", "the new state: 3 left; write again"),
        "2 round trips, 2 writes",
    ),
    ("refused, state known", ("the state of the last second says: 0 left",), "no request"),
)


def ways() -> str:
    """Return the picture of an acquire's way between program, process and table."""

    def shapes() -> Iterator[str]:
        yield text(20, 24, "An acquire's way. Left: your program. Right: the table.")
        for number, (name, steps, cost) in enumerate(WAYS):
            top = 44 + number * 84
            yield text(20, top + 20, name, "yes" if number < len(WAYS) - 1 else "no")
            yield text(20, top + 40, cost, "small")
            yield box(220, top, 120, 62)
            yield text(280, top + 36, "limiter", anchor="middle")
            yield from _steps(top, steps, asks=number < len(WAYS) - 1)

    return picture("The way of an acquire", 680, 304, shapes())


def _steps(top: float, steps: tuple[str, ...], *, asks: bool) -> Iterator[str]:
    if not asks:
        yield text(352, top + 36, steps[0], "small")
        return
    yield box(600, top, 60, 62)
    yield text(630, top + 36, "table", anchor="middle")
    for height, words in zip((top + 22, top + 50), steps, strict=True):
        yield text(470, height - 6, words, "small", anchor="middle")
    yield arrow((344, top + 22), (596, top + 22))
    yield arrow((596, top + 50), (344, top + 50))


WHOLE: Final = Limit.per_minute("rpm", 100)
BALANCE: Final = 72


def shards() -> list[list[tuple[int, int]]]:
    """Return (tokens, ceiling) of each shard before a split, after one, and after the split of both halves."""
    stages = [[(ShardLimit(WHOLE, 0), BALANCE * MILLI)]]
    for _ in range(2):
        stages.append([half for rule, balance in stages[-1] for half in _halves(rule, balance)])
    return [
        [(calculate_available(rule, balance, 0), rule.ceiling_milli // MILLI) for rule, balance in each]
        for each in stages
    ]


def _halves(rule: ShardLimit, balance: int) -> list[tuple[ShardLimit, int]]:
    halves = halve(rule, balance, 0)
    old, new = (ShardLimit(WHOLE, 0, shard, 2 * rule.shards) for shard in (rule.shard, rule.shard + rule.shards))
    return [(old, halves.available - halves.given), (new, halves.given)]


def split() -> str:
    """Return the picture of a bucket that splits, twice."""

    def shapes() -> Iterator[str]:
        yield text(20, 24, "A bucket of 100 with 72 tokens splits, and splits again. The sums stay.")
        for number, stage in enumerate(shards()):
            x, width = 20 + number * 225, 180 / len(stage)
            for place, (tokens, ceiling) in enumerate(stage):
                left = x + place * width
                yield box(left, 150 - ceiling, width - 6, ceiling)
                yield box(left, 150 - tokens, width - 6, tokens, "level")
                yield text(left + width / 2 - 3, 168, str(tokens), anchor="middle")
                yield text(left + width / 2 - 3, 184, f"of {ceiling}", "small", anchor="middle")
            if number:
                yield arrow((x - 40, 120), (x - 12, 120))

    return picture("A bucket splits", 680, 200, shapes())


def pictures() -> dict[str, str]:
    """Return the text of each picture, by its file's name."""
    return {"bucket-over-time.svg": over_time(), "acquire.svg": ways(), "split.svg": split()}


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, drawn in pictures().items():
        (FOLDER / name).write_text(drawn, encoding="utf-8")
