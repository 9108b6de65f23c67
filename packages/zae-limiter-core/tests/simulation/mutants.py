"""Deliberate faults, to prove that the simulation finds them.

Lives here: the list of faults, and rules made wrong in the flows. Never: requests made wrong on their way (tampers), a
fault that can leave this package.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from typing import Any, NamedTuple
from unittest.mock import patch

from zae_limiter.clock.agreement import TimeEstimate
from zae_limiter.clock.offset import Offset
from zae_limiter.flows.acquire import acquire, correcting, counting, refused, statuses, taking_in_turn, waiting
from zae_limiter.flows.acquire.claims import Claim
from zae_limiter.flows.bucket import commit_run, drawing, group_commit, prolonging, reanchoring, splitting, telling
from zae_limiter.flows.bucket import limit_removal as dropping
from zae_limiter.flows.bucket import write_plans as plans
from zae_limiter.flows.bucket.batch import Batch, UpdateDraft
from zae_limiter.flows.bucket.commit_run import CommitRun
from zae_limiter.flows.bucket.write_plans import ConsumeWrite, ReshapeWrite
from zae_limiter.flows.bucket_queue import BucketRequest
from zae_limiter.flows.process.namespace_state import CachedBucket
from zae_limiter.flows.process.refusals import PendingRefusals
from zae_limiter.flows.process.waiting_line import Turn, WaitingLine
from zae_limiter.flows.steps import Flow
from zae_limiter.operations.errors import OutcomeUnknown, StoreError
from zae_limiter.operations.values import Update
from zae_limiter.rules import balances, sharding
from zae_limiter.rules.balances import ShardLimit
from zae_limiter.rules.registry import minting_ms
from zae_limiter.rules.sharding import Halves, halve
from zae_limiter.schema.attributes import bucket_attributes
from zae_limiter.schema.items import BucketState
from zae_limiter.values.limit_status import LimitStatus
from zae_limiter.values.limits import Limit
from zae_limiter.values.refusal import RateLimitExceeded
from zae_limiter.values.resolution import Config

from .calendar_faults import CALENDAR_FAULTS
from .early_faults import EARLY_FAULTS
from .first_use_faults import FIRST_USE_FAULTS
from .holding_faults import HOLDING_FAULTS
from .kernel import Violation
from .kind_faults import KIND_FAULTS
from .merge_faults import MERGE_FAULTS
from .outage_faults import OUTAGE_FAULTS
from .override_faults import FINDERS, OVERRIDE_FAULTS
from .path_faults import PATH_FAULTS
from .shadow_faults import all_amounts, all_in_shadow, given_by_debt, nothing, told_to_nobody
from .sibling_faults import SIBLING_FAULTS
from .signed_faults import SIGNED_FAULTS, slot_unasked, token_unset
from .tampers import (
    dropped_unasked,
    give_back_to_nobody,
    limit_readded_full,
    no_anchor,
    no_lower_bound,
    no_upper_bound,
    overflow_credited,
    split_over_a_shard,
    wrong_anchor,
)
from .waiting_faults import from_the_beginning, give_up, in_line_for_longer, nothing_asked, of_all_shards, own_amounts
from .world import Tamper, simulate, untampered

Fault = Callable[[], AbstractContextManager[Any]]


def _minting_twice(state: BucketState, at_ms: int) -> Update:
    """Whoever tells a bucket adds what was minted since its anchor, and leaves the anchor almost where it was."""
    return reanchoring.reanchored(state, at_ms)._replace(set={"rf": state.anchor_ms + 1})


def _cut_off(state: BucketState, at_ms: int) -> Update:
    """Whoever tells a bucket bounds what is there by the ceiling, as a write that takes does."""
    update = reanchoring.reanchored(state, at_ms)
    most = {f"b_{name}_tk": each.ceiling_milli - state.tokens_milli(name) for name, each in state.shard_limits.items()}
    return update._replace(add={**update.add, **{name: min(update.add[name], most[name]) for name in most}})


class Mutant(NamedTuple):
    """One fault: in what is sent, or in the code that decides; and a history that has found it, for a short search."""

    name: str
    tamper: Tamper = untampered
    fault: Fault = nullcontext
    found_by: int = 1
    scenario: str = "any"


# Decisions


def _patched(*patches: Any) -> Fault:
    @contextmanager
    def faulty() -> Iterator[None]:
        with ExitStack() as stack:
            for each in patches:
                stack.enter_context(each)
            yield

    return faulty


def _set_at_reshape(self: ReshapeWrite, draft: UpdateDraft, name: str, balance: Any, batch: Batch) -> None:
    """A reshape writes the balance that was seen, whatever was taken since."""
    at, net = bucket_attributes(name), batch.net(name)
    draft.count(at.consumed, net)
    draft.set[at.tokens] = balance.headroom - net


def _owing_or_not(state: BucketState, at_ms: int, named: Collection[str]) -> list[str]:
    """A limit that no config names leaves, whatever it owes."""
    return sorted(state.shard_limits.keys() - named)


def _halves_set(draft: UpdateDraft, state: BucketState, name: str, anchor_ms: int, _: int) -> Halves:
    """A split writes what it saw, whatever was taken since."""
    half = halve(state.shard_limits[name], state.tokens_milli(name), anchor_ms)
    draft.set[bucket_attributes(name).tokens] = half.available - half.moved
    return half


def _not_halved(draft: UpdateDraft, state: BucketState, name: str, anchor_ms: int, _: int) -> Halves:
    """A split leaves the shard all that it gives to the other one."""
    shard_limit, tokens = state.shard_limits[name], state.tokens_milli(name)
    draft.count(bucket_attributes(name).tokens, shard_limit.minted_since_anchor(anchor_ms))
    return halve(shard_limit, tokens, anchor_ms)


def _floored(whole: int, shard: int, shards: int) -> int:
    return whole // shards


def _limit_floored(_: Limit, whole: int, shard: int, shards: int) -> int:
    return _floored(whole, shard, shards)


def _minted_floored(self: ShardLimit, t_ms: int) -> int:
    return self.rule.minted(t_ms) // self.shards


def _minted_since_floored(self: ShardLimit, now_ms: int) -> int:
    return _minted_floored(self, now_ms) - self.minted_at_anchor


def _slack(part: float) -> Any:
    return patch.object(ConsumeWrite, "_absolute_slack", lambda self, limit, ceiling, checked: int(ceiling * part))


def _no_bound_beside_adjust(self: UpdateDraft, tk: str, *, least: int | None, most: int, change: int) -> None:
    self.at_most[tk] = most
    if change:
        self.add[tk] = change


def _taking_beside_adjust(real: Callable[..., None]) -> Callable[..., None]:
    def take(self: ConsumeWrite, draft: UpdateDraft, limit: str, batch: Batch) -> None:
        if limit in batch.unchecked:
            with patch.object(UpdateDraft, "take_below", _no_bound_beside_adjust):
                real(self, draft, limit, batch)
        else:
            real(self, draft, limit, batch)

    return take


def _taken_or_not(request: BucketRequest) -> bool:
    verdicts = ("admitted", "failed")
    return request.outcome is not None and request.outcome.verdict in verdicts and not request.returned


def _forget(requests: Iterable[BucketRequest]) -> Flow[None]:
    """What one side took stays taken when the other side refuses."""
    for request in requests:
        if request.admitted:
            request.give_back()
    yield from ()


def _at_home(claim: Claim) -> dict[Any, dict[str, int]]:
    return {correcting._Place(claim.cached.queue, 0): {}}


def _expiry(plan: Any, config: Any, longest_ms: int) -> int | None:
    """By the balances seen last, and a bucket in debt is taken for an empty one."""
    if config.own or not plan.multiplier or (plan.state is not None and plan.state.shard_count != 1):
        return None
    empty_ms = max(minting_ms(limit, limit.ceiling_milli) for limit in config.limits)
    kept_ms = plan.multiplier * min(longest_ms, empty_ms)
    expires_at: int = -(-(plan.now_ms + plans.TTL_GRACE_MS + kept_ms) // 1000)
    return expires_at


def _expire_blindly(self: UpdateDraft, ttl: int | None, item: Mapping[str, Any]) -> None:
    if ttl is not None:
        self.set["ttl"] = ttl
    elif "ttl" in item:
        self.remove += ("ttl",)


def _expiry_of_shards(real: Callable[..., int | None]) -> Callable[..., int | None]:
    def expires_at(plan: Any, config: Any, longest_ms: int) -> int | None:
        kept_ms: int = max(1, plan.multiplier) * longest_ms
        now_ms: int = plan.now_ms
        return (now_ms + plans.TTL_GRACE_MS + kept_ms) // 1000

    return expires_at


def _retried(real: Callable[..., Flow[None]]) -> Callable[..., Flow[None]]:
    def failed(self: Any, error: StoreError, decision: Any) -> Flow[None]:
        if not isinstance(error, OutcomeUnknown):
            yield from real(self, error, decision)

    return failed


@contextmanager
def _refusals_kept() -> Iterator[None]:
    """A bucket that refused once refuses for ever, without asking."""
    refused: set[str] = set()
    settle, sort_out = CommitRun.settle, CommitRun._settle_hopeless

    def remembering(self: Any, requests: Sequence[BucketRequest], verdict: Any, *more: Any, **named: Any) -> None:
        if verdict == "refused" and requests:
            refused.add(self.cached.id.pk)
        settle(self, requests, verdict, *more, **named)

    def remembered(self: Any, plan: Any) -> None:
        sort_out(self, plan)
        if self.cached.id.pk in refused:
            settle(self, [request for request in self.pending if request.checked], "refused", left=plan.headroom)

    with (
        patch.object(CommitRun, "settle", remembering),
        patch.object(CommitRun, "_settle_hopeless", remembered),
    ):
        yield


def _two(self: TimeEstimate, doubt: Offset, wall: Offset) -> int:
    """Whatever earlier answers and the wall clock say."""
    return 2


def _drop_who_lost(real: Callable[..., None]) -> Callable[..., None]:
    def refused(self: Any, item: Any, plan: Any) -> None:
        """What comes back beside a write that lost its race is taken for written."""
        real(self, item, plan)
        self.settle([request for request in self.pending if request.given and not request.unchecked], "admitted")

    return refused


def _taken_and_kept(self: PendingRefusals[CachedBucket], cached: CachedBucket) -> Mapping[str, int]:
    """A write leaves the refusals that it counts to the next one."""
    return self.counts[cached].counts


def _of_every_limit(real: Callable[..., RateLimitExceeded]) -> Callable[..., RateLimitExceeded]:
    def refusal_of(*args: Any) -> RateLimitExceeded:
        """A refusal that calls every limit exceeded."""
        refusal = real(*args)
        return RateLimitExceeded([replace(each, exceeded=True) for each in refusal.statuses], refusal.entity_id)

    return refusal_of


def _of_who_is_short(_: object, violations: Sequence[LimitStatus], __: CachedBucket) -> list[str]:
    """The one who asked counts its own limits for those of its parent."""
    return [f"rj_{each.entity_id}/{each.limit_name}" for each in violations]


def _at_least_one(self: Limit) -> int:
    return 1000 * max(1, self.burst)


# Has all writes made by the rules that a mutant changes.
WITHOUT_FAST_PATH = patch.object(group_commit, "fast_path_update", lambda *_, **__: None)

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "a refusal for limits that are there",
        fault=_patched(patch.object(acquire, "refusal_of", _of_every_limit(statuses.refusal_of))),
        found_by=89,
    ),
    Mutant("no upper bound", no_upper_bound),
    Mutant("no lower bound", no_lower_bound),
    Mutant("no rf", no_anchor),
    Mutant("wrong rf", wrong_anchor),
    Mutant("SET of the seen balance at reshape", fault=_patched(patch.object(ReshapeWrite, "_take", _set_at_reshape))),
    Mutant("halves set at a split", fault=_patched(patch.object(splitting, "_divide", _halves_set)), found_by=48),
    Mutant("a split without halving", fault=_patched(patch.object(splitting, "_divide", _not_halved))),
    Mutant("a split of what was not seen", split_over_a_shard),
    Mutant(
        "shares floored one by one",
        fault=_patched(
            patch.object(balances, "share", _floored),
            *(patch.object(module, "limit_share", _limit_floored) for module in (balances, sharding, plans, splitting)),
            patch.object(ShardLimit, "minted", _minted_floored),
            patch.object(ShardLimit, "minted_since_anchor", _minted_since_floored),
        ),
    ),
    Mutant("slack that credits", fault=_patched(WITHOUT_FAST_PATH, _slack(-0.05))),
    Mutant("slack that exceeds", fault=_patched(WITHOUT_FAST_PATH, _slack(0.5))),
    Mutant("a SET that credits what overflowed", overflow_credited),
    Mutant(
        "batch with an adjust and no lower bound",
        fault=_patched(patch.object(ConsumeWrite, "_take", _taking_beside_adjust(ConsumeWrite._take))),
        found_by=292,
    ),
    Mutant("give-back without the existence condition", give_back_to_nobody),
    Mutant(
        "give-back of an unconfirmed write",
        fault=_patched(patch.object(BucketRequest, "admitted", property(_taken_or_not))),
    ),
    Mutant(
        "unknown taken for absent",
        fault=_patched(patch.object(CommitRun, "_has_to_read", lambda _: False)),
        found_by=16,
    ),
    Mutant(
        "give-back dropped",
        fault=_patched(patch.object(CommitRun, "_refused", _drop_who_lost(CommitRun._refused))),
    ),
    Mutant("compensation skipped", fault=_patched(patch.object(acquire, "give_back_all", _forget))),
    Mutant("adjust on shard 0", fault=_patched(patch.object(correcting, "_taken", _at_home)), found_by=12),
    Mutant(
        "ttl without debt",
        fault=_patched(
            WITHOUT_FAST_PATH,
            patch.object(plans, "expires_at", _expiry),
            patch.object(prolonging, "expires_at", _expiry),
            patch.object(UpdateDraft, "expire", _expire_blindly),
        ),
        found_by=1179,
    ),
    Mutant("ttl on shards", fault=_patched(patch.object(plans, "expires_at", _expiry_of_shards(plans.expires_at)))),
    Mutant("a limit re-added full", limit_readded_full),
    Mutant(
        "a limit dropped in debt", dropped_unasked, _patched(patch.object(dropping, "full", _owing_or_not)), found_by=13
    ),
    Mutant(
        "a retry of an ADD whose answer was lost",
        fault=_patched(patch.object(CommitRun, "failed", _retried(CommitRun.failed))),
    ),
    Mutant("a local rejection kept for ever", fault=_refusals_kept, found_by=89),
    *(Mutant(name, fault=_patched(made), found_by=FINDERS.get(name, 1)) for name, made in OVERRIDE_FAULTS.items()),
    Mutant("a told bucket that mints twice", fault=_patched(patch.object(telling, "reanchored", _minting_twice))),
    Mutant("a told bucket that forgets what overflowed", fault=_patched(patch.object(telling, "reanchored", _cut_off))),
    Mutant("refusals counted twice", fault=_patched(patch.object(PendingRefusals, "take", _taken_and_kept))),
    Mutant(
        "refusals forgotten with a lost race",
        fault=_patched(patch.object(PendingRefusals, "put_back", lambda *_: None)),
    ),
    Mutant(
        "refusals counted again after a lost answer",
        fault=_patched(patch.object(drawing, "NotApplied", StoreError)),
        found_by=153,
    ),
    Mutant(
        "refusals by a parent that nobody counts",
        fault=_patched(patch.object(counting, "_by_others", lambda *_: ())),
    ),
    Mutant(
        "own refusals counted for an ancestor's",
        fault=_patched(patch.object(counting, "_by_others", _of_who_is_short)),
    ),
    Mutant(
        "a shadow limit that goes into debt", fault=_patched(patch.object(Batch, "attempt", given_by_debt)), found_by=18
    ),
    Mutant("a shadow limit that refuses", fault=_patched(patch.object(Claim, "checked", property(all_amounts)))),
    Mutant(
        "an enforced limit beside a shadow limit that refuses nobody",
        fault=_patched(patch.object(Config, "__getattribute__", all_in_shadow)),
    ),
    Mutant(
        "a shadow limit of one shard",
        fault=_patched(patch.object(commit_run, "headroom_elsewhere", nothing)),
        found_by=258,
    ),
    Mutant("what was only counted, given back", fault=_patched(patch.object(Claim, "not_taken", property(nothing)))),
    Mutant(
        "what shadow limits would have refused, counted for who was refused",
        fault=_patched(patch.object(BucketRequest, "give_back", told_to_nobody(BucketRequest.give_back))),
        found_by=18,
    ),
    Mutant("a place in a line that is kept", fault=_patched(patch.object(WaitingLine, "leave", lambda *_: None))),
    Mutant(
        "waiting beyond the budget",
        fault=_patched(patch.object(refused, "acquire_in_line", in_line_for_longer(waiting.acquire_in_line))),
        found_by=19,
    ),
    Mutant("no second try", fault=_patched(patch.object(waiting._Caller, "sleep_for", give_up)), found_by=18),
    Mutant(
        "a line that nobody looks at",
        fault=_patched(patch.object(WaitingLine, "blocker", lambda *_: None)),
        found_by=4587,
    ),
    Mutant(
        "a refused caller whom the next one passes",
        fault=_patched(patch.object(Turn, "lets_pass", lambda self, _: bool(self.requests))),
        found_by=21227,
    ),
    Mutant(
        "a line that keeps no tokens",
        fault=_patched(
            patch.object(WaitingLine, "blocker", lambda *_: None), patch.object(WaitingLine, "up_to", own_amounts)
        ),
        found_by=292,
    ),
    Mutant(
        "a crowd that takes fractions from shards",
        fault=_patched(
            *(
                patch.object(each, "ripe_of", of_all_shards(taking_in_turn.ripe_of))
                for each in (taking_in_turn, waiting)
            )
        ),
        found_by=49,
        scenario="shards",
    ),
    Mutant(
        "a crowd whose callers take from the same shards",
        fault=_patched(patch.object(WaitingLine, "asked", property(nothing_asked, lambda *_: None))),
        found_by=3,
        scenario="shards",
    ),
    Mutant(
        "what some shards gave, forgotten when others are asked",
        fault=_patched(patch.object(Claim, "enter_many", from_the_beginning(Claim.enter_many))),
        found_by=49,
        scenario="shards",
    ),
    Mutant(
        "a blocked limit that holds a token",
        fault=_patched(patch.object(Limit, "ceiling_milli", property(_at_least_one))),
    ),
    *(
        Mutant(name, fault=made, found_by=seed, scenario=scenario)
        for name, (made, seed, scenario) in HOLDING_FAULTS.items()
    ),
    *(Mutant(name, fault=_patched(made), found_by=seed) for name, (made, seed) in EARLY_FAULTS.items()),
    *(Mutant(name, fault=fault, found_by=seed, scenario="paths") for name, (fault, seed) in PATH_FAULTS.items()),
    *(Mutant(name, fault=fault, found_by=seed, scenario="siblings") for name, (fault, seed) in SIBLING_FAULTS.items()),
    *(Mutant(name, fault=fault, found_by=seed, scenario="merges") for name, (fault, seed) in MERGE_FAULTS.items()),
    *(
        Mutant(name, fault=_patched(made), found_by=seed, scenario="calendar")
        for name, (made, seed) in CALENDAR_FAULTS.items()
    ),
    *(
        Mutant(name, fault=_patched(made), found_by=seed, scenario="first-use")
        for name, (made, seed) in FIRST_USE_FAULTS.items()
    ),
    *(Mutant(name, fault=fault, found_by=seed, scenario="mixed") for name, (fault, seed) in KIND_FAULTS.items()),
    Mutant("a slot that nobody asks for", slot_unasked, scenario="signed"),
    Mutant("a token that is not set", token_unset, scenario="signed"),
    *(
        Mutant(name, fault=_patched(made), found_by=seed, scenario="signed")
        for name, (made, seed) in SIGNED_FAULTS.items()
    ),
    *(Mutant(name, fault=fault, found_by=seed, scenario="outages") for name, (fault, seed) in OUTAGE_FAULTS.items()),
    Mutant(
        "a date that is believed at once",
        fault=_patched(patch.object(TimeEstimate, "_enough", lambda *_: 1)),
        found_by=14,
    ),
    Mutant("dates that agree, believed against the rest", fault=_patched(patch.object(TimeEstimate, "_enough", _two))),
)


class Survived(LookupError):
    """No history found the fault."""


class Kill(NamedTuple):
    """The seed that found a mutant, and what it saw."""

    seed: int
    finding: str


def killer(mutant: Mutant, seeds: Iterable[int]) -> Kill:
    """A seed that finds the fault, and nothing without it. Raises ``Survived`` where none does."""
    for seed in (mutant.found_by, *seeds):
        with mutant.fault():
            finding = finding_of(seed, mutant.tamper, mutant.scenario)
        if finding and not finding_of(seed, untampered, mutant.scenario):
            return Kill(seed, finding)
    raise Survived(f"no history found the fault: {mutant.name}")


def finding_of(seed: int, tamper: Tamper, scenario: str = "any") -> str:
    """What the history of a seed does wrong, if anything."""
    try:
        simulate(seed, tamper=tamper, changes={"scenario": scenario})
    except Violation as violation:
        return str(violation.__cause__)
    return ""
