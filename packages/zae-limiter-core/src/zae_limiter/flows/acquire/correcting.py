"""The corrections of a lease, as the requests that the end of its block makes of its buckets.

What a lease takes more goes to the shard that it consumed from first, what it gives back to those that it took from. It
goes by the limits that the acquire had: they may be old by then, and the shard may be gone.
"""

from collections.abc import Iterator, Mapping, Sequence

from ...operations.errors import BudgetSpent, NotApplied, StoreError
from ...runtime.named_tuple import NamedTuple
from ...values.resolution import Config
from ..bucket.serving import resolve
from ..bucket.view import View
from ..bucket_queue import BucketRequest, RunQueue, correction
from ..process.namespace_state import NamespaceState
from ..steps import Flow
from ..tally import Tally
from .claims import Claim, Grant
from .path import current_config


class _Place(NamedTuple):
    """A shard, and the shard count when it was taken from."""

    queue: RunQueue
    shards: int


def corrections_of(
    namespace_state: NamespaceState, claim: Claim, corrections: Mapping[str, int]
) -> list[BucketRequest]:
    """Return the requests of the corrections, one per shard. What is only counted goes to the first."""
    counted, taken = _only_counted(namespace_state, claim, corrections), _taken(claim)
    moved = {name: amount - counted.get(name, 0) for name, amount in corrections.items()}
    for name in moved.keys() - claim.config.by_name:  # unless it was a limit by the time when more of it was taken
        moved[name] = max(min(0, moved[name]), -sum(amounts.get(name, 0) for amounts in taken.values()))
    parts = _by_place(moved, taken)
    if counted:
        parts.setdefault(next(iter(taken)), {})
    made = {place: correction(*place, amounts, claim.config) for place, amounts in parts.items()}
    if counted:
        made[next(iter(taken))].counts = Tally(counted)
    return [*made.values()]


def _only_counted(namespace_state: NamespaceState, claim: Claim, corrections: Mapping[str, int]) -> dict[str, int]:
    """Return the part of each correction that moves no balance: of names without a limit, and of what a shadow limit
    did not give.
    """
    limits, not_taken = claim.config.by_name, claim.not_taken
    only_counted = claim.counted_names if corrections.keys() - limits else ()
    counted = dict[str, int]()
    for name, amount in corrections.items():
        is_spent = name in limits and amount > 0 and _is_spent(namespace_state, claim, name)
        if name in only_counted or name in not_taken or is_spent:
            counted[name] = max(amount, -not_taken.get(name, 0))
    return {name: amount for name, amount in counted.items() if amount}


def _is_spent(namespace_state: NamespaceState, claim: Claim, name: str) -> bool:
    """Return whether a shadow limit that the lease has not asked for has nothing left, as far as this process has
    seen.
    """
    if name not in claim.config.shadow or any(name in each.shadow_amounts for each in claim.requests):
        return False
    now = namespace_state.now()
    states = namespace_state.repaired_states(claim.home, now)
    return bool(states) and View(states, claim.config, now, guesses=False).available(name) <= 0


def send_again(
    namespace_state: NamespaceState, grant: Grant, made: Sequence[tuple[Claim, BucketRequest]]
) -> Flow[list[tuple[Claim, BucketRequest]]]:
    """Return more requests for corrections whose shard is gone. Open those again that do not know the schedule which
    their bucket has got since, with the limits that hold now.
    """
    more: list[tuple[Claim, BucketRequest]] = []
    for claim, request in made:
        outcome = request.outcome
        if request.only_returns or outcome is None or outcome.verdict != "outdated":
            continue
        if outcome.state is None:
            more.append((claim, _on_shard_0(claim, request)))
        else:
            request.outcome = outcome._replace(verdict="failed", error=NotApplied("its limits were not read again"))
            request.open_again((yield from _limits_now(namespace_state, grant, claim)))
    return more


def _limits_now(namespace_state: NamespaceState, grant: Grant, claim: Claim) -> Flow[Config]:
    """Return the limits that hold now; those of the claim if the store does not answer. Raises ``BudgetSpent``."""
    try:
        resolved = yield from resolve(namespace_state, claim.home, bucket_too=True)
    except BudgetSpent:
        raise
    except StoreError:
        return claim.config
    return current_config(namespace_state, grant.request, claim.home, resolved)


def _on_shard_0(claim: Claim, bucket_request: BucketRequest) -> BucketRequest:
    """Return what a correction takes, as a request on shard 0, because its own shard is gone; with what it gives back,
    if that has merged with others.
    """
    moved = BucketRequest(claim.home, unchecked=bucket_request.unchecked, config=bucket_request.config)
    is_there = claim.home.state is not None
    if is_there:
        moved.given = bucket_request.given
    counted = bucket_request.counts.amounts
    moved.counts = Tally({name: each for name, each in counted.items() if is_there or each > 0})
    return moved


def _by_place(amounts: Mapping[str, int], taken: Mapping[_Place, Mapping[str, int]]) -> dict[_Place, dict[str, int]]:
    """Return the parts of all corrections, by shard."""
    parts: dict[_Place, dict[str, int]] = {}
    for name, amount in amounts.items():
        for place, part in _divided(name, amount, taken):
            parts.setdefault(place, {})[name] = part
    return parts


def _divided(name: str, amount: int, taken: Mapping[_Place, Mapping[str, int]]) -> Iterator[tuple[_Place, int]]:
    """Yield the parts of a correction, by shard.

    Take an increase from the shard that was consumed first. Return a decrease to the other shards, up to what was taken
    from each, and the rest to the first.
    """
    first, *others = taken
    for place in others if amount < 0 else ():
        part = min(-amount, taken[place].get(name, 0))
        amount += part
        if part:
            yield place, -part
    if amount:
        yield first, amount


def _taken(claim: Claim) -> dict[_Place, dict[str, int]]:
    """Return the amounts that are still taken from each shard, the first shard in front; the target if there is
    none.
    """
    taken: dict[_Place, dict[str, int]] = {}
    for bucket_request in claim.requests:
        if bucket_request.admitted:
            place = _Place(bucket_request.queue, bucket_request.taken_among)
            before = taken.get(place, {})
            taken[place] = {**before, **{name: before.get(name, 0) + n for name, n in bucket_request.taken.items()}}
    return taken or {_Place(claim.target, 0): {}}
