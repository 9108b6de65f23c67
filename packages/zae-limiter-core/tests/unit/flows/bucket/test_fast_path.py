"""The fast path writes what the rules would have written, or steps aside."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.core.plays import NOW, RPM, Stage, bucket_item, stage
from zae_limiter.flows.bucket.batch import fit_batch
from zae_limiter.flows.bucket.fast_path import fast_path_update
from zae_limiter.flows.bucket.group_commit import commit
from zae_limiter.flows.bucket.write_plans import ConsumeWrite
from zae_limiter.flows.bucket_queue import BucketRequest
from zae_limiter.flows.process.write_tokens import WriteTokens
from zae_limiter.operations.errors import ConditionFailed
from zae_limiter.operations.values import NOTHING, Update
from zae_limiter.values.limits import Limit
from zae_limiter.values.resolution import Config

TPM = Limit.custom("tpm", 7, burst=11, refill_amount=3, refill_period=13)
LIMITS = (RPM, TPM)


class Case(NamedTuple):
    """One request of one bucket that was seen ``seen_ms`` before it, and ``elapsed_ms`` behind its anchor.

    ``corrected``: more than 0 is taken, less comes back. ``demand``: that of all processes on the first limit, if
    others write to the bucket, too.
    """

    tokens: tuple[int, int]
    checked: dict[str, int]
    elapsed_ms: int = 0
    seen_ms: int = 0
    shard_count: int = 1
    ttl: int | None = None
    own: bool = False
    multiplier: int = 7
    demand: float | None = None
    fraction: int | None = 7
    corrected: Mapping[str, int] = NOTHING


def seen(case: Case) -> Stage:
    more = {"shard_count": case.shard_count} | ({} if case.ttl is None else {"ttl": case.ttl})
    more |= {} if case.fraction is None else {"b_tpm_fr": case.fraction}
    it = stage(ttl_multiplier=case.multiplier)
    it.sees(bucket_item(dict(zip(LIMITS, case.tokens, strict=True)), rf=NOW - case.elapsed_ms, **more))
    if case.demand is not None:
        it.cached.uncontended = False
        it.cached._flow = {RPM.name: (case.demand, 1.0)}
    it.clock.advance(ms=case.seen_ms)
    return it


def request_of(case: Case, it: Stage) -> BucketRequest:
    config = Config(LIMITS, 0, own=case.own)
    if case.checked:
        return it.request(config=config, checked=case.checked)
    more = {name: amount for name, amount in case.corrected.items() if amount > 0}
    back = {name: -amount for name, amount in case.corrected.items() if amount <= 0}
    return it.request(config=config, unchecked=more, given=back, events=0)


def lone(case: Case) -> Update | None:
    it = seen(case)
    requests = [request_of(case, it)]
    return fast_path_update(
        it.namespace_state, it.cached, state=it.cached.state, requests=requests, now_ms=it.clock.now_ms()
    )


def by_the_rules(case: Case) -> tuple[Update, list[BucketRequest]]:
    """What the batch of this one entry writes, and whom it leaves out."""
    it = seen(case)
    state, config = it.cached.state, Config(LIMITS, 0, own=case.own)
    assert state is not None
    plan = ConsumeWrite(it.cached, state, it.clock.now_ms(), case.multiplier, config, frozenset())
    load = fit_batch([request_of(case, it)], plan.headroom, plan.ceilings)
    return plan.write(load), load.short


def balances(case: Case) -> list[int]:
    """What there is of each limit when it is acquired."""
    state, now_ms = seen(case).cached.state, NOW + case.seen_ms
    assert state is not None
    return [
        tokens + state.shard_limits[limit.name].minted_since_anchor(now_ms)
        for limit, tokens in zip(LIMITS, case.tokens, strict=True)
    ]


def milli(ceiling: int, *, least: int) -> st.SearchStrategy[int]:
    """Balances and amounts: anywhere, and often where a rule changes."""
    return st.sampled_from([least, 0, 1, 1000, ceiling - 1, ceiling, ceiling + 1]) | st.integers(least, 2 * ceiling)


def amounts(*, signed: bool) -> st.SearchStrategy[dict[str, int]]:
    each = {limit.name: milli(limit.ceiling_milli, least=-limit.ceiling_milli if signed else 0) for limit in LIMITS}
    return st.fixed_dictionaries({}, optional=each).filter(bool)


def cases(checked: st.SearchStrategy[dict[str, int]], corrected: st.SearchStrategy[dict[str, int]]) -> Any:
    return st.builds(
        Case,
        tokens=st.tuples(milli(RPM.ceiling_milli, least=-5000), milli(TPM.ceiling_milli, least=-5000)),
        checked=checked,
        corrected=corrected,
        elapsed_ms=st.integers(-5000, 120_000),
        seen_ms=st.integers(0, 2000),
        shard_count=st.sampled_from([1, 1, 1, 4]),
        ttl=st.none() | st.just(NOW // 1000),
        own=st.booleans(),
        multiplier=st.sampled_from([0, 1, 7]),
        demand=st.sampled_from([None, 0.0, 0.4, 2.0]),
        fraction=st.sampled_from([None, 0, 1, 7]),
    )


ACQUIRES = cases(amounts(signed=False), st.just({}))
CORRECTIONS = cases(st.just({}), amounts(signed=True))


@given(ACQUIRES | CORRECTIONS)
def test_the_fast_path_writes_what_the_batch_of_one_writes_or_nothing(case: Case) -> None:
    write = lone(case)
    expected, short = by_the_rules(case)
    assert write is None or (write, []) == (expected, short)


@given(ACQUIRES | CORRECTIONS)
def test_they_are_the_same_with_tokens(case: Case) -> None:
    it, tokens = seen(case), WriteTokens(7)
    it.namespace_state.write_tokens = tokens
    asked = [request_of(case, it)]
    state, now_ms = it.cached.state, it.clock.now_ms()
    write = fast_path_update(it.namespace_state, it.cached, state=state, requests=asked, now_ms=now_ms)
    assert state is not None
    assert write is None or write == WriteTokens(7).sign(by_the_rules(case)[0], state.item, now_ms)


def goes_by_fraction(update: Update) -> bool:
    """Whether a slow limit is at its ceiling only by the fraction that was seen, or has none yet."""
    fractions = {name for name in (*update.when.equals, *update.when.absent) if name.endswith("_fr")}
    return bool(fractions & update.set.keys()) or bool(fractions & set(update.when.absent))


@given(ACQUIRES)
def test_it_steps_aside_for_nothing_but_what_it_says(case: Case) -> None:
    expected, short = by_the_rules(case)
    another_case = bool(short) or case.shard_count > 1 or 0 in case.checked.values() or "ttl" in expected.remove
    begins_to_expire, in_debt = "ttl" in expected.when.absent, min(balances(case)) < 0
    assert (lone(case) is None) == (another_case or begins_to_expire or in_debt or goes_by_fraction(expected))


@given(CORRECTIONS)
def test_nor_does_it_for_a_correction(case: Case) -> None:
    expected, _ = by_the_rules(case)
    another_case = case.shard_count > 1 or 0 in case.corrected.values()
    if any(amount > 0 for amount in case.corrected.values()):
        there = [min(balance, limit.ceiling_milli) for balance, limit in zip(balances(case), LIMITS, strict=True)]
        left = [each - max(0, case.corrected.get(limit.name, 0)) for each, limit in zip(there, LIMITS, strict=True)]
        another_case |= min(left) < 0 or "ttl" in expected.remove or "ttl" in expected.when.absent
    assert (lone(case) is None) == (another_case or goes_by_fraction(expected))


@pytest.mark.parametrize("ttl", [NOW // 1000, NOW // 1000 + 100_000])
def test_it_keeps_a_bucket_that_others_may_have_emptied_for_as_long_as_the_rules_do(ttl: int) -> None:
    case = Case((60_000, 11_000), {"rpm": 1000}, ttl=ttl, multiplier=1)
    write = lone(case)
    assert write is not None
    assert write == by_the_rules(case)[0]


@pytest.mark.parametrize("beside", [(), (RPM,), (Limit.per_day("rpd", 86_400),)])
def test_it_keeps_a_bucket_with_a_total_that_expires_as_the_rules_do(beside: tuple[Limit, ...]) -> None:
    budget = Limit.total("calls", 5, expires=3 * 86_400)
    it, limits = stage(ttl_multiplier=7), (budget, *beside)
    whole = {limit: limit.ceiling_milli for limit in limits} | {budget: 3000}
    it.sees(bucket_item(whole, ttl=NOW // 1000))
    checked = {limit.name: 1000 for limit in limits}
    state, config, now_ms = it.cached.state, Config(limits, 0), it.clock.now_ms()
    assert state is not None
    plan = ConsumeWrite(it.cached, state, now_ms, 7, config, frozenset())
    expected = plan.write(fit_batch([it.request(config=config, checked=checked)], plan.headroom, plan.ceilings))
    requests = [it.request(config=config, checked=checked)]
    assert fast_path_update(it.namespace_state, it.cached, state=state, requests=requests, now_ms=now_ms) == expected
    slow = 60 + 7 * 86_400 if beside and beside[0] != RPM else 0
    assert expected.set["ttl"] == now_ms // 1000 + max(3 * 86_400, slow)


def test_a_limit_that_the_bucket_has_not_is_another_case() -> None:
    full = (60_000, 11_000)
    assert lone(Case(full, {"rpm": 1000, "other": 1000})) is None
    for amount in (1000, -1000):
        assert lone(Case(full, {}, multiplier=0, corrected={"rpm": amount})) is not None
        assert lone(Case(full, {}, multiplier=0, corrected={"rpm": amount, "other": amount})) is None


def test_it_takes_refusals_along_once_and_only_with_a_write() -> None:
    it = seen(Case((60_000, 11_000), {}, multiplier=0))

    def write(amount: int) -> Update | None:
        request, now_ms = it.request(*LIMITS, checked={"rpm": amount}), it.clock.now_ms()
        state = it.cached.state
        return fast_path_update(it.namespace_state, it.cached, state=state, requests=[request], now_ms=now_ms)

    for _ in range(3):
        it.namespace_state.refusals.add(it.cached, it.clock.now_ms())
    assert write(0) is None
    assert write(60_001) is None
    counts = [made.add.get("rj") for made in (write(1000), write(1000)) if made is not None]
    assert counts == [3, None]


def test_those_of_a_write_that_lost_its_race_go_with_the_next_one() -> None:
    it = seen(Case((60_000, 11_000), {}, multiplier=0))
    it.namespace_state.refusals.add(it.cached, it.clock.now_ms())
    run = commit(it.namespace_state, it.cached, [it.request(*LIMITS, checked={"rpm": 1000})])
    lost, true = next(run), bucket_item({RPM: 50_000, TPM: 11_000}, rf=NOW, writes=5)
    assert isinstance(lost, Update)
    again = run.throw(ConditionFailed(true))
    assert isinstance(again, Update)
    assert (lost.add["rj"], again.add["rj"]) == (1, 1)
