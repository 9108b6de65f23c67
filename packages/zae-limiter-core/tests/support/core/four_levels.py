"""A tree of four levels, used at every level, with a ledger of what each entity was asked itself.

Lives here: how it is made and used. Never: a claim.
"""

from collections import Counter
from dataclasses import dataclass, field
from random import Random

from zae_limiter import Limit, RateLimitExceeded, SyncRateLimiter
from zae_limiter.testing import ManualClock

LIMITS = [Limit.per_minute("tpm", 60_000), Limit.per_minute("rpm", 1_000)]
TREE = {
    "org": None,
    "team-1": "org",
    "team-2": "org",
    "user-1": "team-1",
    "user-2": "team-1",
    "user-3": "team-2",
    "key-1": "user-1",
    "key-2": "user-1",
    "key-3": "user-3",
    "alone": None,
}
RESOURCES = ("gpt-4", "embed")


@dataclass
class Ledger:
    """What each entity was asked itself: tokens by entity and limit, and acquires."""

    tokens: Counter[tuple[str, str]] = field(default_factory=Counter)
    admitted: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)

    def total(self, limit: str) -> int:
        """All tokens of a limit."""
        return sum(amount for (_, name), amount in self.tokens.items() if name == limit)


def make_tree(limiter: SyncRateLimiter, *, prefetch: float = 0.0) -> None:
    """Make the entities, and the limits."""
    limits = [Limit.per_minute(each.name, each.capacity, prefetch=prefetch) for each in LIMITS]
    limiter.set_system_defaults(limits)
    for entity, parent in TREE.items():
        limiter.create_entity(entity, parent_id=parent, cascade=parent is not None)


def use_tree(limiter: SyncRateLimiter, clock: ManualClock, seed: int, *, calls: int = 200) -> Ledger:
    """Call entities of all levels by chance, with corrections and refusals, over some minutes, in two hours."""
    rng, ledger, there = Random(seed), Ledger(), set[tuple[str, str]]()
    for _ in range(calls):
        entity, resource, tokens = rng.choice([*TREE]), rng.choice(RESOURCES), rng.randint(1, 200)
        much = rng.random() < 0.1 and (entity, resource) in there  # a bucket that is not there counts nothing
        amounts = {"tpm": 60_001 if much else tokens, "rpm": 1}
        try:
            with limiter.acquire(entity, resource, amounts) as lease:
                if rng.random() < 0.4:
                    correction = rng.randint(-tokens, 100)
                    lease.adjust(tpm=correction)
                    tokens += correction
        except RateLimitExceeded:
            ledger.refused[entity] += 1
        else:
            there.add((entity, resource))
            ledger.admitted[entity] += 1
            ledger.tokens[entity, "tpm"] += tokens
            ledger.tokens[entity, "rpm"] += 1
        clock.advance(rng.choice((0.1, 2, 10)))  # nothing expires
    return ledger
