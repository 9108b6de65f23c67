"""Deliberate faults of tokens held ahead.

Lives here: holds that spend late, twice, or for nobody. Never: which of them are to be found (mutants).
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from zae_limiter.flows import hold, steps
from zae_limiter.flows.acquire import ahead
from zae_limiter.flows.blocks import Block, Draw, Shard, Source
from zae_limiter.flows.bucket import drawing
from zae_limiter.flows.hold import Hold
from zae_limiter.flows.process import queueing
from zae_limiter.rules.balances import ShardLimit
from zae_limiter.values import resolution
from zae_limiter.values.limits import Limit

from . import driver

MOVE, DRAW, WRITTEN, BEGIN_AGAIN, LOOK_AT_BLOCKS = (
    Hold.move,
    Hold.draw,
    Hold.written,
    Hold._begin_again,
    Hold._look_at_blocks,
)
WANTED, GRANT_AHEAD = Hold._wanted, ahead.grant_ahead


def _never_void(self: Hold, now_ms: int) -> None:
    """No block ends."""
    self._tell_blocks()
    self._look_at_blocks()


def _void_for_writes_alone(self: Hold) -> None:
    """Who is served does not look whether a block has ended: the next write does."""
    LOOK_AT_BLOCKS(self)
    self._until = self._until_ms = self._look_ms = 10**15


def _kept_over_a_fork(self: Hold) -> None:
    """A child process goes on with what its parent holds."""
    if not hasattr(self, "_lock"):
        BEGIN_AGAIN(self)
    self._generation = vars(hold)["forks"].generation


def _added_twice(self: Hold, draw: Draw | None) -> None:
    WRITTEN(self, draw)
    if draw is not None and draw.block is not None:
        self._tell_blocks()
        self._blocks.append(draw.block)
        self._look_at_blocks()


def _all_that_is_left(ended: tuple[Block, ...], limits: Mapping[str, ShardLimit], now_ms: int) -> dict[str, int]:
    """What comes back is not less by what was minted since."""
    back: dict[str, int] = {}
    for block in ended:
        for name, left in block.left.items():
            if left and name in limits:
                back[name] = back.get(name, 0) + left
    return back


def _under_any_anchor(number: int, anchor_ms: int) -> Source:
    """A block comes back although the bucket was made anew, filled, or had other values since."""
    return Source(number, 0)


def _ended_for_ever(self: Hold, *args: Any, **named: Any) -> Draw | None:
    """What has come back comes back again with the next write."""
    draw = DRAW(self, *args, **named)
    if draw is not None:
        self._ended.extend(draw.ended)
    return draw


def _counted_twice(self: Hold, *args: Any, **named: Any) -> Draw | None:
    draw = DRAW(self, *args, **named)
    return draw and draw._replace(spent={name: 2 * amount for name, amount in draw.spent.items()})


def _acquires_forgotten(self: Hold, *args: Any, **named: Any) -> Draw | None:
    draw = DRAW(self, *args, **named)
    return draw and draw._replace(events=0)


def _kept_under_other_limits(self: Hold, config: Any, *args: Any, **named: Any) -> Draw | None:
    """What was taken under other limits serves who asks under the new ones."""
    kept = [] if config.limits == self.limits else [*self._blocks]
    draw = DRAW(self, config, *args, **named)
    self._blocks += kept
    self._look_at_blocks()
    return draw


def _to_the_last_token(self: Hold, config: Any, shard: Shard, now_ms: int) -> dict[str, int] | None:
    """A block leaves nothing for others."""
    life_ms = {name: round(1000 * seconds) for name, seconds in config.ahead.items()}
    more = {
        name: limit.minted(now_ms + life_ms.get(name, 0)) - limit.minted(now_ms) + 1
        for name, limit in shard.limits.items()
    }
    left = {name: amount + more.get(name, 0) for name, amount in shard.left.items()}
    return WANTED(self, config, shard._replace(left=left), now_ms)


def _takes_all_back(self: Hold, amounts: Mapping[str, int], now_ms: int, *, events: int = 1) -> bool:
    """A hold takes back more than it had taken."""
    if MOVE(self, amounts, now_ms, events=events):
        return True
    if not self._left or not amounts.keys() <= self._left.keys() or max(amounts.values()) > 0:
        return False
    for name, amount in amounts.items():
        self._left[name] -= amount
    self._events += events
    return True


def _takes_nothing_back(self: Hold, amounts: Mapping[str, int], now_ms: int, *, events: int = 1) -> bool:
    return min(amounts.values()) < 0 or MOVE(self, amounts, now_ms, events=events)


def _without_compensation(*args: Any) -> Any:
    """What the child gave stays taken when the parent has nothing."""
    with patch.object(Hold, "move", _takes_nothing_back):
        return GRANT_AHEAD(*args)


@dataclass
class Faulty:
    """A fault that is made of patches; what was remembered of rules goes before and after it."""

    patches: Callable[[], list[Any]]

    @contextmanager
    def _made(self) -> Iterator[None]:
        with ExitStack() as stack:
            stack.callback(resolution._rules_of.cache_clear)
            resolution._rules_of.cache_clear()
            for each in self.patches():
                stack.enter_context(each)
            yield

    def __call__(self) -> AbstractContextManager[None]:
        return self._made()


def _of(*patches: tuple[Any, str, Any]) -> Faulty:
    return Faulty(lambda: [patch.object(*each) for each in patches])


HOLDING_FAULTS: Mapping[str, tuple[Faulty, int, str]] = {
    "a block that is spent late": (_of((Hold, "_look", _never_void)), 109, "ahead"),
    "a suspended process that spends on waking": (_of((Hold, "_look_at_blocks", _void_for_writes_alone)), 202, "ahead"),
    "a child that spends what its parent holds": (_of((Hold, "_begin_again", _kept_over_a_fork)), 2, "ahead"),
    "tokens held ahead under the whole burst": (
        _of((Limit, "usable_burst", property(lambda self: self.burst))),
        50,
        "surges",
    ),
    "a renewal that counts twice": (_of((Hold, "written", _added_twice)), 2, "ahead"),
    "a block that comes back whole": (_of((hold, "come_back", _all_that_is_left)), 12, "ahead"),
    "a block that comes back under another anchor": (_of((drawing, "Source", _under_any_anchor)), 44, "ahead"),
    "a block that comes back twice": (_of((Hold, "draw", _ended_for_ever)), 45, "ahead"),
    "a block that leaves nothing for others": (_of((Hold, "_wanted", _to_the_last_token)), 4, "surges"),
    "a hold that takes back more than it took": (_of((Hold, "move", _takes_all_back)), 12, "ahead"),
    "what was spent, counted twice": (_of((Hold, "draw", _counted_twice)), 13, "ahead"),
    "acquires from a hold that nobody counts": (_of((Hold, "draw", _acquires_forgotten)), 13, "ahead"),
    "what was spent, forgotten with a lost race": (_of((Hold, "put_back", lambda *_: None)), 15, "ahead"),
    "what was spent, counted by nobody at the end": (_of((Hold, "reminder", lambda _: None)), 21, "ahead"),
    "a block that outlives its limits": (_of((Hold, "draw", _kept_under_other_limits)), 75, "ahead"),
    "a child served by a hold whose parent is not": (_of((driver, "grant_ahead", _without_compensation)), 321, "ahead"),
    "a caller who is cut off and keeps what was held": (
        _of((queueing, "Settled", lambda _: steps.Settled(()))),
        276,
        "ahead",
    ),
}
