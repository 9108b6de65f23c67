"""A bucket as this process sees it at one instant: whether amounts fit, when they will, how its limits stand.

Runs of a queue, callers in a line, refusals, leases, checks, explanations and settlements ask here, so none of them can
come to disagree with another.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from ... import rules, values
from ...operations.values import NOTHING
from ...rules.balances import force_consume, move_anchor, refill_bucket
from ...rules.registry import due_ms, minting_ms
from ...rules.sharding import (
    Amounts,
    Part,
    allocate,
    calculate_balance,
    calculate_servable,
    new_part,
    reshape,
    ripe,
    unseen_parts,
)
from ...runtime.dataclass import replace
from ...runtime.named_tuple import NamedTuple
from ...schema.items import BucketId, BucketState
from ...values.limit_status import LimitStatus
from ...values.limits import MILLI, Limit
from ...values.resolution import Config
from .shifting import all_shifted
from .versions import where_it_holds


class Asked(Protocol):
    """What a call asks of a bucket, for its status: the way to the bucket, and which draw of the call it is."""

    @property
    def bucket(self) -> BucketId: ...

    @property
    def path(self) -> tuple[str, ...]: ...

    @property
    def place(self) -> int: ...

    @property
    def draw(self) -> int: ...


class View(NamedTuple):
    """A bucket under the limits of a call, at ``at_ms``; amounts in millitokens by limit.

    ``mine``: what this process holds of it, for no other. ``before``: what everything before the call leaves of a
    limit, on all shards, where that is known. ``owed``: what writes to come take of a shard. ``reshaped``: by the
    limits of the call, as its write leaves them; else each by the limits that the shards have. ``guesses``: shards that
    were not seen count as full. Otherwise a refusal could say "never" for an amount that fits.
    """

    states: Sequence[BucketState]
    config: Config
    at_ms: int
    mine: Mapping[str, int] = NOTHING
    before: Mapping[str, int] = NOTHING
    owed: Mapping[int, Mapping[str, int]] = MappingProxyType({})
    reshaped: bool = False
    guesses: bool = True

    @classmethod
    def of(cls, states: Iterable[BucketState], config: Config, at_ms: int) -> "View":
        """Return a bucket as the next write of each shard would leave it: the anchor repaired, the values those of
        now.
        """
        return cls(all_shifted([state.repaired(at_ms) for state in states], config, at_ms), config, at_ms)

    def parts(self, name: str) -> list[Part]:
        """Return a limit on each shard; as in a new bucket where a shard lacks it, and if there is no bucket."""
        limit, at_ms = self.config.by_name[name], self.at_ms
        parts = self._as_reshaped(limit) if self.reshaped else self._as_they_are(limit)
        if name in self.before:
            whole, _ = move_anchor(*parts[0], at_ms)
            if whole.shards > 1:
                whole = replace(whole, shard=0, shards=1, fraction=None)
            return [Part(whole, self.before[name])]
        if self.mine.get(name):
            parts[0] = Part(*force_consume(*parts[0], -self.mine[name], at_ms))
        if not self.owed:
            return parts
        owed = [self.owed.get(part.shard_limit.shard, NOTHING).get(name, 0) for part in parts]
        return [Part(*force_consume(*part, amount, at_ms)) for part, amount in zip(parts, owed, strict=True)]

    def _as_they_are(self, limit: Limit) -> list[Part]:
        at_ms = self.at_ms
        parts = [state.part(limit, at_ms) for state in self.states]
        if self.guesses:
            parts += self._unseen(limit)
        if any(part.shard_limit.limit != parts[0].shard_limit.limit for part in parts[1:]):
            # the next write to each shard brings the newest limit; it keeps its tokens, up to the lower ceiling
            limit = where_it_holds(self.config, self.states).by_name[limit.name]
            parts = [Part(*move_anchor(*part, at_ms, limit)) for part in parts]
        return parts or [new_part(limit, at_ms)]

    def _as_reshaped(self, limit: Limit) -> list[Part]:
        """Return the limit on each shard, at most the ceiling of the config."""
        parts = [reshape(state.part(limit, self.at_ms), limit, self.at_ms) for state in self.states]
        return [*parts, *self._unseen(limit)] or [new_part(limit, self.at_ms)]

    def _unseen(self, limit: Limit) -> list[Part]:
        return unseen_parts(limit, self.at_ms, {state.id.shard: state.shard_count for state in self.states})

    def fits(self, amounts: Amounts) -> bool:
        """Return whether the shards together have the amounts; a debt blocks only the shard that carries it."""
        if len(self.states) == 1 and self.states[0].compare(self.config) != "newer":
            return not self.states[0].short_of(amounts, self.at_ms)
        return self.divided(amounts) is not None

    def divided(self, amounts: Amounts, there: Mapping[int, Amounts] | None = None) -> Mapping[int, Amounts] | None:
        """Return the part of the amounts that each shard is to give; ``None`` if they cannot serve all of them
        together. ``there``: what may be taken of each shard, if that is not all it has.
        """
        if there is None:
            there = {
                shard: {name: refill_bucket(*part, self.at_ms) for name, part in parts.items()}
                for shard, parts in self._written(amounts).items()
            }
        for name, amount in amounts.items():
            if amount == 0 and all(headroom[name] < 0 for headroom in there.values()):
                return None
        return allocate(amounts, there)

    def ripe(self, amounts: Amounts, parts: float) -> dict[int, dict[str, int]]:
        """Return what may be taken of each shard by a caller that lets its amounts be divided into so many parts."""
        return {
            shard: {name: ripe(part, amounts[name], parts, self.at_ms) for name, part in found.items()}
            for shard, found in self._written(amounts).items()
        }

    def _written(self, names: Iterable[str]) -> dict[int, dict[str, Part]]:
        """Return the limits on each shard as the next write finds them: newer ones come to a shard with its write, so
        one that is empty by the limits that it has may serve. As in a new bucket, if it lacks them.
        """
        limits, at_ms, found = self.config.by_name, self.at_ms, dict[int, dict[str, Part]]()
        for state in self.states:
            parts = {name: state.part(limits[name], at_ms) for name in names}
            if state.compare(self.config) == "newer":
                parts = {name: reshape(part, limits[name], at_ms) for name, part in parts.items()}
            found[state.id.shard] = parts
        return found

    def available(self, name: str, *, without: int | None = None) -> int:
        """Return what the shards have of a limit together, ``without`` one of them; debts lower it."""
        return calculate_balance([part for part in self.parts(name) if part.shard_limit.shard != without], self.at_ms)

    def is_full(self, name: str) -> bool:
        """Return whether time brings nothing more, as every shard has all of a limit that it can hold."""
        parts = self.parts(name)
        return all(refill_bucket(*part, self.at_ms) >= part.shard_limit.ceiling_milli for part in parts)

    def wait(self, name: str, amount: int) -> float:
        """Return the seconds until the amount is there; 0 if it is. To look for it through a schedule takes time."""
        return rules.schedules.wait_through(self.config.scheduled.get(name), self.parts(name), amount, self.at_ms)

    def spare_seconds(self, name: str, amount: int) -> float:
        """Return the seconds in which time brings what is there beyond the amount."""
        parts = self.parts(name)
        return minting_ms(parts[0].shard_limit.limit, calculate_servable(parts, self.at_ms) - amount) / 1000

    def brings_ms(self, name: str, more: int, seen_ms: int) -> int:
        """Return the milliseconds until time has brought so much more, ``FOREVER_MS`` for never; or until every caller
        that was refused at ``seen_ms`` is to ask again, because what others give back shows then.

        Callers one after the other may ask for more than a bucket ever holds at once, so no ceiling bounds it.
        """
        first, *others = self.parts(name)
        rule = first.shard_limit.rule if others else first.shard_limit.part
        return min(due_ms(rule, more, self.at_ms), max(0, seen_ms + rule.ask_again_ms - self.at_ms))

    def status(self, asked: Asked, name: str, amount: int, wait_seconds: float | None = None) -> LimitStatus:
        """Return the status of a limit for a call; ``wait_seconds`` if they are known, or by something else."""
        parts, declared = self.parts(name), self.config.scheduled.get(name)
        if wait_seconds is None:
            wait_seconds = rules.schedules.wait_through(declared, parts, amount, self.at_ms)
        return status_of(
            asked,
            self._marked(name, parts),
            calculate_balance(parts, self.at_ms),
            amount,
            wait_seconds,
            next_token_seconds=rules.schedules.next_token_through(declared, parts, self.at_ms),
            schedule="" if declared is None else values.timetables.timetable_of(declared).at(self.at_ms).text,
        )

    def _marked(self, name: str, parts: Sequence[Part]) -> Limit:
        """Return a limit as a status has it: by the rule of its balance, with the mark of a shadow limit."""
        limit = self.config.by_name[name] if self.reshaped else parts[0].shard_limit.limit
        return replace(limit, shadow=True) if name in self.config.shadow else limit


def status_of(
    asked: Asked,
    limit: Limit,
    available: int,
    amount: int,
    wait_seconds: float,
    *,
    next_token_seconds: float = math.inf,
    schedule: str = "",
) -> LimitStatus:
    """Return the status of a limit of a call. Every one is made here."""
    return LimitStatus(
        entity_id=asked.bucket.entity_id,
        resource=asked.bucket.resource,
        limit_name=limit.name,
        limit=limit,
        available=available // MILLI,
        requested=amount // MILLI,
        exceeded=wait_seconds > 0,
        retry_after_seconds=wait_seconds,
        next_token_seconds=next_token_seconds,
        path=asked.path or (asked.bucket.entity_id,),
        place=asked.place,
        schedule=schedule,
        draw=asked.draw,
    )
