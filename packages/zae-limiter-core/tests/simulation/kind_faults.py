"""Schedules, switches, overflows and weights made wrong.

Lives here: the faults, and the seeds of ``mixed`` that have found them. Never: which of them are to be found (mutants).
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, Final
from unittest.mock import patch

from zae_limiter.flows.acquire import acquire, create_path, disabling, refused
from zae_limiter.flows.acquire.requests import AcquireRequest
from zae_limiter.flows.bucket import write_plans
from zae_limiter.flows.bucket_queue import BucketRequest
from zae_limiter.flows.process import config_cache, queueing
from zae_limiter.flows.process.config_cache import ConfigRecords
from zae_limiter.flows.process.namespace_state import CachedBucket
from zae_limiter.flows.process.waiting_line import WaitingLine
from zae_limiter.flows.records import levels
from zae_limiter.flows.steps import Flow
from zae_limiter.rules.schedules import Carried, carry
from zae_limiter.schema.items import BucketState
from zae_limiter.values import resolution, timetables
from zae_limiter.values.resolution import Config, Level
from zae_limiter.values.switches import NO_SWITCHES, ResolvedSwitches, resolve_switches
from zae_limiter.values.timetables import Timetable
from zae_limiter.values.token_usage import TokenUsage
from zae_limiter.values.weights import LIKE, Weights

from .slot_faults import SLOT_FAULTS

CONFIG_AT, OVERFLOW, PUT = Config.at, refused._overflow, create_path._put
LEVELS, AGREES = ConfigRecords.levels, CachedBucket.agrees_with


def _minted_twice(*args: Any) -> Carried:
    """Whoever reshapes a bucket over a boundary credits its last second once more."""
    minted, ceiling = carry(*args)
    return Carried(minted + 1000, ceiling)


def _former_ceiling(shard_limit: Any, declared: Any, to_ms: int) -> Carried:
    """What overflowed before a boundary is there behind it."""
    minted, _ = carry(shard_limit, declared, to_ms)
    return Carried(minted, timetables.timetable_of(declared).at(to_ms).limit.ceiling_milli)


def _by_the_last_rule(shard_limit: Any, declared: Any, to_ms: int) -> Carried:
    """The time before a boundary counts by the rule behind it."""
    now = shard_limit.moved(shard_limit.anchor_ms, timetables.timetable_of(declared).at(to_ms).limit)
    return Carried(now.minted_since_anchor(to_ms), now.ceiling_milli)


def _twice_on_a_shard(shard_limit: Any, declared: Any, to_ms: int) -> Carried:
    """A shard of several is reshaped over a boundary once more: it has what the pieces minted twice."""
    minted, ceiling = carry(shard_limit, declared, to_ms)
    return Carried(minted * min(2, shard_limit.shards), ceiling)


def _of_the_whole(shard_limit: Any, declared: Any, to_ms: int) -> Carried:
    """A shard has the ceiling of the whole limit behind a boundary."""
    minted, ceiling = carry(shard_limit, declared, to_ms)
    return Carried(minted, ceiling * shard_limit.shards)


def _kept_on_shards(self: CachedBucket, config: Config) -> bool:
    """The other shards keep the values before a boundary, which shard 0 alone gets over."""
    state = self.state
    return AGREES(self, config) or (state is not None and self.id.shard > 0 and state.is_of(config))


def _a_minute_late(self: Config, now_ms: int) -> Config:
    return CONFIG_AT(self, now_ms - 20_000)


def _by_the_claim(*args: Any) -> Any:
    """A cold path's bucket begins with the values of the claim, which a boundary may lie behind."""
    with patch.object(Config, "at", lambda self, _: self):
        return PUT(*args)


def _without_those_of_all(self: ConfigRecords, now_ms: int) -> list[Level]:
    """Switches of a resource and of the system have no reader."""
    found = LEVELS(self, now_ms)
    return [*found[:-2], *(level._replace(switches=NO_SWITCHES) for level in found[-2:])]


def _weakest_first(levels: Iterable[Any]) -> ResolvedSwitches | None:
    """The word of the system holds before that of the entity."""
    return resolve_switches([*levels][::-1])


def _without_cascade(levels: Iterable[Any]) -> ResolvedSwitches | None:
    """Whether an entity cascades is in its own record alone."""
    found = resolve_switches(levels)
    return None if found is None else replace(found, cascade=None)


def _told_nobody(*_: Any) -> Flow[int]:
    """A change of a level tells no bucket."""
    yield from ()
    return 0


def _rounded_down(self: Weights, usage: TokenUsage) -> int:
    """A part of a millitoken counts as none."""
    return math.floor(_exact(self, usage))


def _in_whole_tokens(self: Weights, usage: TokenUsage) -> int:
    """A part of a token counts as one."""
    return 1000 * math.ceil(_exact(self, usage) / 1000)


def _named_kinds_alone(self: Weights, usage: TokenUsage) -> int:
    """A kind without a weight counts as nothing, whatever it is a part of."""
    own = dict(self._millionths)
    return -(-sum(amount * own.get(kind, 0) for kind, amount in usage.by_kind()) // 1000)


def _exact(self: Weights, usage: TokenUsage) -> Fraction:
    own = dict(self._millionths)
    counted = sum(amount * own.get(kind, own.get(LIKE.get(kind, kind), 0)) for kind, amount in usage.by_kind())
    return Fraction(counted, 1000)


@contextmanager
def _both_buckets() -> Iterator[None]:
    """What others of the path gave stays taken when the call goes on to its overflow."""
    overflowing: list[bool] = [False]

    def asked(state: Any, request: AcquireRequest) -> Flow[Any]:
        overflowing[0] = request.on_refused is not None and request.on_refused.overflow is not None
        return (yield from acquire.acquire(state, request))

    def back(requests: Sequence[BucketRequest]) -> Flow[None]:
        return queueing.give_back_all([] if overflowing[0] else requests)

    with patch.object(refused, "acquire", asked), patch.object(acquire, "give_back_all", back):
        yield


def _kept_beside(state: Any, request: AcquireRequest, resource: str, refusal: Any) -> Flow[Any]:
    """The overflow takes twice, and the lease knows of one."""
    yield from OVERFLOW(state, request, resource, refusal)
    return (yield from OVERFLOW(state, request, resource, refusal))


@dataclass
class Faulty:
    """A fault that is made of patches; what was remembered of limits goes before and after it."""

    made: Callable[[], Sequence[AbstractContextManager[Any]]]

    @contextmanager
    def _in_force(self) -> Iterator[None]:
        with ExitStack() as stack:
            for cached in (resolution._rules_of, timetables.timetable_of):
                stack.callback(cached.cache_clear)
                cached.cache_clear()
            for each in self.made():
                stack.enter_context(each)
            yield

    def __call__(self) -> AbstractContextManager[None]:
        return self._in_force()


def _of(*patches: tuple[Any, str, Any]) -> Faulty:
    return Faulty(lambda: [patch.object(*each) for each in patches])


OF_SLOTS: Final[Mapping[str, int]] = {  # the others need holders that stand still: ``test_slot_histories`` has them
    "a slot given back twice": 2,
    "a renewal of slots that counts twice": 30,
    "a drop of more than was seen": 30,
    "a take without a look at the slots": 79,
}

KIND_FAULTS: Final[Mapping[str, tuple[Faulty, int]]] = {
    **{name: (Faulty(partial(SLOT_FAULTS.__getitem__, name)), seed) for name, seed in OF_SLOTS.items()},
    "a boundary of a schedule minted twice": (_of((write_plans, "carry", _minted_twice)), 19),
    "what overflowed before a boundary": (_of((write_plans, "carry", _former_ceiling)), 3),
    "the time before a boundary by the rule behind it": (_of((write_plans, "carry", _by_the_last_rule)), 17),
    "a boundary minted twice on a shard": (_of((write_plans, "carry", _twice_on_a_shard)), 363),
    "a shard with the whole ceiling behind a boundary": (_of((write_plans, "carry", _of_the_whole)), 3),
    "a shard that keeps the values before a boundary": (_of((CachedBucket, "agrees_with", _kept_on_shards)), 3),
    "a schedule that counts before it is declared": (_of((BucketState, "has_schedules_of", lambda *_: True)), 15),
    "a schedule that is late": (_of((Config, "at", _a_minute_late)), 7),
    "a schedule that nobody heeds": (_of((Timetable, "_place", lambda self, _: len(self._schedule))), 3),
    "a cold path by the values before a boundary": (_of((create_path, "_put", _by_the_claim)), 83),
    "a switch of all entities that nobody heeds": (_of((ConfigRecords, "levels", _without_those_of_all)), 26),
    "a switch of the system before the entity's": (_of((config_cache, "resolve_switches", _weakest_first)), 881),
    "a slot that comes back and wakes nobody": (_of((WaitingLine, "sleeping", lambda *_, **__: [])), 1128),
    "a switch that tells no bucket": (_of((levels, "tell_buckets", _told_nobody)), 1704),
    "a disabled entity that is admitted": (
        _of((acquire, "refuse_if_disabled", lambda *_: None), (disabling, "is_disabled", lambda *_: False)),
        1,
    ),
    "a bypass that nobody heeds": (_of((ResolvedSwitches, "bypasses", property(lambda _: False))), 77),
    "a cascade that no switch changes": (_of((config_cache, "resolve_switches", _without_cascade)), 85),
    "an overflow beside which others of the path stay taken": (Faulty(lambda: [_both_buckets()]), 82),
    "an overflow that takes twice": (_of((refused, "_overflow", _kept_beside)), 29),
    "a weight that is rounded down": (_of((Weights, "weigh", _rounded_down)), 49),
    "a weight in whole tokens": (_of((Weights, "weigh", _in_whole_tokens)), 6),
    "a weight of the named kinds alone": (_of((Weights, "weigh", _named_kinds_alone)), 6),
}
