"""What was used of limits that are changed, kept beside the items.

Why. A change of a quota keeps what was used: of that a balance shows a part, and what it does not show counts until the
window ends. Whoever changes the quota again must know it, through splits, merges and other changes.

Never: what a rule mints (bucket_items), whether a write did so (oracle).
"""

import math
from typing import NamedTuple

from .bucket_items import LimitState, Rule


class _Hidden(NamedTuple):
    amount: int
    until_ms: float


class Uses:
    """What was used of each limit on each shard, beside what its balance shows."""

    def __init__(self) -> None:
        self._hidden: dict[tuple[str, str], _Hidden] = {}

    def begin(self, pk: str, name: str) -> None:
        """A limit is new to a shard."""
        self._hidden.pop((pk, name), None)

    def changed(self, pk: str, name: str, old: LimitState, new: LimitState, at_ms: int) -> int | None:
        """What a shard has of a limit after a change that keeps what was used; ``None`` for any other change."""
        if not _keeps_use(old.rule, new.rule):
            return None
        balance = min(old.balance(at_ms), old.ceiling)
        used = _nominal(old) - balance + self._of(pk, name, at_ms)
        left = _nominal(new) - used
        tokens = min(new.ceiling, left if left > balance else max(left, min(balance, 0)))
        self.begin(pk, name)
        if tokens > left:
            quota = new.rule if new.rule.is_quota else old.rule
            self._hidden[pk, name] = _Hidden(tokens - left, quota.end_of(at_ms))
        return tokens

    def split(self, pk: str, born: str, name: str) -> None:
        """A shard was split: both halves have a half of it, the old one the odd millitoken."""
        amount, until_ms = self._hidden.pop((pk, name), _Hidden(0, math.inf))
        self._hidden[pk, name] = _Hidden((amount + 1) // 2, until_ms)
        self._hidden[born, name] = _Hidden(amount // 2, until_ms)

    def merge(self, pk: str, gone: str, name: str, at_ms: int) -> None:
        """Two shards merged."""
        both = [self._hidden.pop((each, name), _Hidden(0, 0)) for each in (pk, gone)]
        amount = sum(each.amount for each in both if at_ms < each.until_ms)
        self._hidden[pk, name] = _Hidden(amount, max((each.until_ms for each in both if each.amount), default=0))

    def _of(self, pk: str, name: str, at_ms: int) -> int:
        amount, until_ms = self._hidden.get((pk, name), _Hidden(0, 0))
        return amount if at_ms < until_ms else 0


def _keeps_use(old: Rule, new: Rule) -> bool:
    return (old.is_quota or new.is_quota) and old._replace(begin_ms=0) != new._replace(begin_ms=0)


def _nominal(state: LimitState) -> int:
    return state.initial if state.rule.is_quota else state.ceiling
