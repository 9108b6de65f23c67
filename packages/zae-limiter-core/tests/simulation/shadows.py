"""What shadow limits do in a history: the amounts that a write only counts, and what they would have refused.

Lives here: batches that count or prefetch, noted beside their writes; whether tokens were there, or short. Never: a
check of a write (oracle).
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from fractions import Fraction
from typing import Any
from unittest.mock import patch

from zae_limiter.flows.bucket.batch import Batch
from zae_limiter.flows.bucket.write_plans import WritePlan
from zae_limiter.flows.bucket_queue import BucketRequest
from zae_limiter.flows.process.write_tokens import WriteTokens
from zae_limiter.operations.values import NOTHING, Operation, Put, Transact, Update
from zae_limiter.values.resolution import Config

from .application import Application
from .bucket_items import LimitState
from .schedules import Planned

Amounts = Mapping[str, int]


class Noted:
    """The batches of writes that count or prefetch; an operation is told by its identity."""

    def __init__(self) -> None:
        self._batches: dict[int, tuple[Any, Batch]] = {}
        self._configs: dict[int, Config | None] = {}
        self._plans: dict[int, tuple[Any, Planned]] = {}
        self._carried: dict[int, tuple[Any, list[BucketRequest]]] = {}

    def carried(self, operation: Operation[Any]) -> Sequence[BucketRequest] | None:
        """The requests that a write serves, if it was planned for a batch."""
        return self._carried[id(operation)][1] if id(operation) in self._carried else None

    def of(self, operation: Operation[Any]) -> dict[str, Batch]:
        """The batch of an operation that counts or prefetch, by the shard that it writes."""
        return {pk: self._batches[id(write)][1] for pk, write in _writes(operation) if id(write) in self._batches}

    def plans_of(self, operation: Operation[Any]) -> dict[str, Planned]:
        """How an operation was planned, by the shard that it writes."""
        return {pk: self._plans[id(write)][1] for pk, write in _writes(operation) if id(write) in self._plans}

    def config_of(self, batch: Batch) -> Config | None:
        """The config of the run that a batch is of; its requests may have none."""
        return self._configs[id(batch)]

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Note the batch of each write that is planned meanwhile."""
        with ExitStack() as stack:
            stack.enter_context(patch.object(WritePlan, "write", self._noted(WritePlan.write)))
            for name in ("sign", "sign_new"):
                stack.enter_context(patch.object(WriteTokens, name, self._signed(getattr(WriteTokens, name))))
            yield

    def _signed(self, sign: Callable[..., Any]) -> Callable[..., Any]:
        """What is known of a write is known of it with its token, too."""

        def signed(tokens: Any, write: Any, *args: Any) -> Any:
            operation = sign(tokens, write, *args)
            every: list[dict[int, tuple[Any, Any]]] = [self._plans, self._batches, self._carried]
            for noted in every:
                if id(write) in noted:
                    noted[id(operation)] = operation, noted[id(write)][1]
            return operation

        return signed

    def _noted(self, write: Callable[..., Any]) -> Callable[..., Any]:
        def noted(plan: Any, batch: Batch) -> Any:
            operation = write(plan, batch)
            self._plans[id(operation)] = operation, Planned.by(plan)
            self._carried[id(operation)] = operation, list(batch.carried)
            if batch.counts.amounts or batch.prefetch_write is not None:
                self._batches[id(operation)] = operation, batch
                self._configs[id(batch)] = plan.config
            return operation

        return noted


def token_of(operation: Operation[Any]) -> int | None:
    """The token by which a write may be sent again."""
    values = operation.item if isinstance(operation, Put) else getattr(operation, "set", NOTHING)
    return next((value for name, value in values.items() if re.fullmatch(r"w\d", name)), None)


def _writes(operation: Operation[Any]) -> Iterator[tuple[str, Put | Update]]:
    """The items that an operation writes, by their key."""
    for write in operation.writes if isinstance(operation, Transact) else (operation,):
        if isinstance(write, Put):
            yield write.item["PK"], write
        elif isinstance(write, Update):
            yield write.key.pk, write


def was_short(
    writes: Sequence[Application],
    limit: str,
    wanted: int,
    since_ms: int,
    until_ms: int,
    *,
    behind_ms: int,
    debts: bool,
) -> bool:
    """Whether at some instant the bucket held less, as seen by a process that is ``behind_ms`` behind.

    With ``debts``, a debt of one shard lowers what the others hold.
    """
    shards: dict[int, tuple[int, LimitState, int]] = {}

    def falls_short(at_ms: int) -> bool:
        there = _held(shards, at_ms - behind_ms)
        if wanted == 0 and not debts:  # a debt blocks the shard that carries it
            return all(balance < 0 for balance in there)
        return wanted > sum(there if debts else (max(Fraction(0), balance) for balance in there))

    short = not shards
    for write in writes:
        change = write.changes.get(limit)
        if change is None or write.applied_ms > until_ms:
            continue
        if change.new and write.shard == 0:
            shards.clear()
        if write.merged is not None:
            shards.pop(int(write.merged.rpartition("#")[2]), None)
        shards[write.shard] = change.state.balance(write.instant_ms), change.state, write.applied_ms
        falls = falls_short(max(write.applied_ms, since_ms))
        short = falls if write.applied_ms < since_ms else short or falls
    return short or not shards  # of a bucket that was never there, nothing is known


def least_known(writes: Sequence[Application], limit: str, mine: Application) -> int:
    """The least that the sender may have counted on all shards together, of what was there before its write.

    It saw them at different times: each since its last answer of that shard, so that the sum was there at no instant.
    """
    states: dict[str, list[LimitState]] = {}
    for write in writes:
        if limit not in write.changes:
            continue
        if write is mine.knew.get(write.pk):
            states.pop(write.pk, None)
        states.setdefault(write.pk, []).append(write.changes[limit].state)
    at_ms = mine.decided_ms
    return sum(min(min(each.ceiling_at(at_ms), each.balance(at_ms)) for each in seen) for seen in states.values())


def was_there(writes: Sequence[Application], limit: str, wanted: int, mine: Application) -> bool:
    """Whether a state of the bucket's one shard, since the sender's write before, allows a write if nothing follows.

    A write that changes a quota has beside it what the change itself brings, or takes.
    """
    first = 0 if mine.follows is None else writes.index(mine.follows)
    known = writes[first : writes.index(mine)]
    later = [*known[1:], mine]
    if mine.follows is None or any(limit not in write.changes for write in (*known, mine)):
        return True
    if any(write.changes[limit].new for write in later):
        return True  # where it was absent, it is full
    at_ms, states = max(mine.decided_ms, mine.instant_ms), [write.changes[limit].state for write in known]
    gained = mine.changes[limit].gained
    return any(_most(state, at_ms) + gained >= wanted for state in states)


def _most(state: LimitState, at_ms: int) -> int:
    """What the state allows then: by its schedule, or, under another config, by the values that it has."""
    own = state._replace(rule=state.rule._replace(times=()))
    return max(min(each.ceiling_at(at_ms), each.balance(at_ms)) for each in (state, own))


def _held(shards: Mapping[int, tuple[int, LimitState, int]], at_ms: int) -> list[Fraction]:
    return [
        Fraction(min(state.ceiling_at(at_ms), state.balance(at_ms)))
        if state.rule.times or not state.rule.is_even
        else min(Fraction(state.ceiling), left + state.part.minted(written_ms, at_ms))
        for left, state, written_ms in shards.values()
    ]
