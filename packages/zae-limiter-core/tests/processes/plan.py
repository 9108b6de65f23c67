"""The plan of a history, drawn from its seed.

Lives here: chances and amounts, and the conditions of a network by name. Never: what happens because of them
(asynchronous, threaded).
"""

from dataclasses import dataclass
from random import Random
from typing import Any, Literal

from zae_limiter import Limit, Options

from .server import NetworkConditions

NEVER_SPLIT = 2**63  # writes a second that no shard has
HEALTHY = NetworkConditions()
FAULTY = NetworkConditions(slow=0.05, throttled=0.05, refused=0.02, lost_before=0.03, lost_after=0.03)
VERY_FAULTY = NetworkConditions(slow=0.2, throttled=0.1, refused=0.05, lost_before=0.1, lost_after=0.1)
SLOW = NetworkConditions(typical_us=20_000, slow=0.2)
HUNG = NetworkConditions(slow=0.1, hung=0.2)
DEAD = NetworkConditions(hung=1.0)

PARENT, CASCADING = "project", "key"
ENTITIES = (CASCADING, CASCADING, PARENT, "solo")
HAS_BUDGET = "acquire_timeout" in Options.__dataclass_fields__

Ending = Literal["rest", "close", "close cut", "shutdown", "abandoned"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One kind of history.

    ``immediate`` stores answer without a pause. ``cuts`` is how often a caller is cut off, ``cuts_library`` whether
    that may hit the library's own tasks; ``abandoned`` loops are closed though tasks still wait in them.
    """

    callers: int
    loopers: int
    entities: tuple[str, ...]
    network: NetworkConditions
    limit: Limit
    ending: Ending
    immediate: bool = False
    warm: bool = False
    span_us: int = 50_000
    cuts: int = 0
    cuts_library: bool = False
    allowing: float = 0.0
    budget: float | None = None
    config_cache_ttl: float = 60
    rejection_staleness: float = 1.0
    split_above: int = NEVER_SPLIT

    def options(self, **others: Any) -> Options:
        """What the repository is opened with."""
        budget: dict[str, Any] = {"acquire_timeout": self.budget} if HAS_BUDGET else {}
        return Options(
            config_cache_ttl=self.config_cache_ttl,
            rejection_staleness=self.rejection_staleness,
            split_above=self.split_above,
            **budget,
            **others,
        )


def draw(
    rng: Random, *, endings: tuple[Ending, ...] = ("rest", "rest", "close", "close cut", "shutdown", "abandoned")
) -> Plan:
    """A plan; every kind of trouble is in about half of them."""
    networks = (HEALTHY, HEALTHY, SLOW, FAULTY, VERY_FAULTY) + ((HUNG, DEAD) if HAS_BUDGET else ())
    ending = rng.choice(endings)
    return Plan(
        callers=rng.randint(2, 14),
        loopers=rng.randint(1, 4) if ending.startswith("close") else 0,
        entities=tuple(rng.sample(ENTITIES, rng.randint(1, 4))),
        network=rng.choice(networks),
        limit=_limit(rng),
        ending=ending,
        immediate=rng.random() < 0.1,
        warm=rng.random() < 0.5,
        span_us=rng.choice((0, 5_000, 50_000, 2_000_000)),
        cuts=rng.choice((0, 0, 1, 3, 8)),
        cuts_library=rng.random() < 0.4,
        allowing=rng.choice((0.0, 0.5)),
        budget=rng.choice((0.3, 1.0, 5.0, 5.0, None) if HAS_BUDGET else (None,)),
        config_cache_ttl=rng.choice((0, 0.3, 60, 60)),
        rejection_staleness=rng.choice((0, 0.1, 1.0)),
        split_above=rng.choice((NEVER_SPLIT,) * 5 + (1,)),
    )


def _limit(rng: Random) -> Limit:
    capacity = rng.choice((3, 10, 40))
    return Limit.custom(
        "rpm", capacity, burst=capacity * rng.choice((1, 2)), refill_amount=capacity, refill_period=rng.choice((1, 60))
    )
