"""The fast path writes what the rules would have written, or steps aside: the same histories with it and without."""

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from support.core.reminders import forget_reminders
from support.core.wires import WRITES, SyncWireStore, Wire
from zae_limiter import Limit, Options, RateLimitExceeded, SyncRateLimiter, SyncRepository, ValidationError
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.flows.bucket import fast_path, group_commit
from zae_limiter.flows.process.write_tokens import WriteTokens
from zae_limiter.operations.values import Operation, Put, Update
from zae_limiter.schema.attributes import WRITE_TOKENS
from zae_limiter.sync.guarded_store import THREAD_NAME
from zae_limiter.testing import ManualClock

RPM = Limit.per_minute("rpm", 60)
TPM = Limit.custom("tpm", 7, burst=11, refill_amount=3, refill_period=13)
BUDGET = Limit.total("usd", 90, expires=3 * 86_400)


class Call(NamedTuple):
    """An acquire of one of two processes, so long after the one before; what it corrects, and whether it fails."""

    amounts: dict[str, int]
    process: int = 0
    after_ms: int = 0
    corrected: dict[str, int] = {}  # noqa: RUF012 - nobody changes it
    fails: bool = False


class Setting(NamedTuple):
    """``fast_ms``: the clock of the second process; ``lossy``: its writes have tokens."""

    multiplier: int = 7
    own: bool = False
    total: bool = False
    fast_ms: int = 0
    lossy: bool = False


def some(least: int) -> st.SearchStrategy[dict[str, int]]:
    """Amounts anywhere, and often where a rule changes."""
    rpm, tpm = (
        st.sampled_from([least, 0, 1, 2, top - 1, top, top + 1]) | st.integers(least, 2 * top) for top in (60, 11)
    )
    return st.fixed_dictionaries({}, optional={"rpm": rpm, "tpm": tpm})


CALLS = st.builds(
    Call,
    amounts=some(0).filter(bool),
    process=st.sampled_from([0, 0, 0, 1]),
    after_ms=st.sampled_from([0, 1, 700, 5_000, 61_000]) | st.integers(0, 130_000),
    corrected=st.just({}) | some(-20),
    fails=st.sampled_from([False, False, True]),
)
SETTINGS = st.builds(
    Setting,
    multiplier=st.sampled_from([0, 1, 7]),
    own=st.booleans(),
    total=st.booleans(),
    fast_ms=st.sampled_from([0, 0, 900, 4_000]),
    lossy=st.booleans(),
)


@contextmanager
def switched(*, on: bool) -> Iterator[None]:
    """With the fast path, or without."""
    if on:
        yield
        return
    with patch.object(group_commit, "fast_path_update", lambda *_, **__: None):
        yield


def shown(operation: Operation[Any], ns: str) -> Any:
    """What is sent, whatever the id of its namespace and the token of its process."""
    if isinstance(operation, Update):
        signed, below = untold(operation.set), untold(operation.when.below)
        return operation.add, signed, operation.remove, operation.when._replace(below=below)
    if isinstance(operation, Put):
        return {name: str(value).replace(ns, "") for name, value in untold(operation.item).items()}
    return type(operation).__name__


def reads(operations: list[Operation[Any]]) -> Iterator[str]:
    return (type(each).__name__ for each in operations if not isinstance(each, WRITES))


def untold(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values, with the number of tokens for the tokens."""
    slots = values.keys() & WRITE_TOKENS
    return {name: value for name, value in values.items() if name not in slots} | {"tokens": len(slots)}


class History:
    """Two processes on one bucket: what they wrote, and what their callers were told."""

    def __init__(self, setting: Setting) -> None:
        self.clocks = [ManualClock(1_700_000_000_000 + fast_ms) for fast_ms in (0, setting.fast_ms)]
        self.wires = [Wire(MemoryTable())]
        self.wires.append(Wire(self.wires[0].table))
        limits = [RPM, TPM, BUDGET] if setting.total else [RPM, TPM]
        self.limiters = []
        for number, (wire, clock) in enumerate(zip(self.wires, self.clocks, strict=True)):
            wire.lossy = setting.lossy
            options = Options(clock=clock, bucket_ttl_multiplier=setting.multiplier, config_cache_ttl=10**6)
            repository = SyncRepository.over(SyncWireStore(wire), options)
            if setting.lossy:  # random ones may meet in a cell, in one of the two runs
                repository.namespace_state.write_tokens = WriteTokens(number)
            if setting.own:
                repository.set_limits("e", limits)
            self.limiters.append(SyncRateLimiter(repository, default_limits=limits))
        for wire in self.wires:
            wire.sent()
        self.told: list[Any] = []

    def play(self, call: Call) -> None:
        for clock in self.clocks:
            clock.advance(ms=call.after_ms)
        limiter = self.limiters[call.process]
        try:
            with limiter.acquire("e", "r", call.amounts) as lease:
                self.told.append([(each.limit_name, each.available) for each in lease.statuses])
                self._correct(lease, call)
        except RateLimitExceeded as refusal:
            self.told.append([(each.limit_name, each.available, each.exceeded) for each in refusal.statuses])
        except ZeroDivisionError:
            self.told.append("failed")
        for thread in threading.enumerate():  # what the call has posted comes before the next one
            if thread.name == THREAD_NAME and not thread.daemon:
                thread.join()

    def _correct(self, lease: Any, call: Call) -> None:
        try:
            if call.corrected:
                lease.adjust(**call.corrected)
        except ValidationError:
            self.told.append("more than it holds")
        if call.fails:
            raise ZeroDivisionError

    def sent(self) -> list[Any]:
        """Each process's writes in their order, and its reads by number: threads send them beside a write."""
        ns = self.limiters[0].repository.namespace_id
        return [
            ([shown(each, ns) for each in wire.seen if isinstance(each, WRITES)], Counter(reads(wire.seen)))
            for wire in self.wires
        ]


def played(setting: Setting, calls: list[Call], *, fast: bool) -> History:
    try:
        with switched(on=fast):
            history = History(setting)
            for call in calls:
                history.play(call)
            return history
    finally:
        forget_reminders()


@settings(max_examples=40)
@given(SETTINGS, st.lists(CALLS, min_size=1, max_size=12))
@example(Setting(), [Call({"rpm": 1})] * 3 + [Call({"rpm": 1}, corrected={"rpm": 3}), Call({"rpm": 2}, fails=True)])
@example(Setting(total=True), [Call({"rpm": 1, "tpm": 2}, after_ms=100)] * 3)
@example(Setting(), [Call({"rpm": 60}), Call({"rpm": 1}), Call({"rpm": 1}), Call({"rpm": 1}, after_ms=2000)])
def test_the_fast_path_writes_what_the_rules_write(setting: Setting, calls: list[Call]) -> None:
    fast, slow = (played(setting, calls, fast=each) for each in (True, False))
    assert fast.told == slow.told
    assert fast.sent() == slow.sent()


def test_it_writes_warm_acquires_corrections_and_give_backs(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[bool] = []
    fast_path_update = fast_path.fast_path_update

    def watched(*args: Any, **kwargs: Any) -> Update | None:
        update = fast_path_update(*args, **kwargs)
        made.append(update is not None)
        return update

    history = played(Setting(), [Call({"rpm": 9}), Call({"rpm": 1})], fast=True)
    monkeypatch.setattr(group_commit, "fast_path_update", watched)
    for call in (Call({"rpm": 1}, corrected={"rpm": 2}), Call({"rpm": 1}, corrected={"rpm": -1})):
        history.play(call)
    history.play(Call({"rpm": 1}, fails=True))
    assert made == [True] * 6
