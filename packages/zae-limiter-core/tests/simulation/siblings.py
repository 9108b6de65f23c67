"""Whether a bucket that others refused a call of gave its tokens for spent: what it took for them comes back.

Lives here: the takes that a compensation brought back, and the instants at which a bucket was short without them.
Never: a check of a write (oracle).
"""

from collections.abc import Sequence

from .accounts import Account
from .application import Application


def was_short_for_good(writes: Sequence[Application], limit: str, wanted: int, since_ms: int, until_ms: int) -> bool:
    """Whether a bucket of one shard held less at some instant, what was to come back of refused calls included.

    What the only process has sent counts already: whoever comes next is refused behind it.
    """
    under_way = _coming_back(writes, limit)
    short = False
    for write, comes_back, following in zip(writes, under_way, [*writes[1:], None], strict=True):
        ends_ms = until_ms if following is None else following.applied_ms
        if min(write.decided_ms, write.applied_ms) > until_ms or ends_ms < since_ms or limit not in write.changes:
            continue
        state, at_ms = write.changes[limit].state, max(write.applied_ms, since_ms)
        held = min(state.ceiling_at(at_ms), state.balance(max(write.instant_ms, at_ms)))
        short = short or held + comes_back < wanted
    return short


def _coming_back(writes: Sequence[Application], limit: str) -> list[int]:
    """Behind each write, what earlier ones took for calls that another bucket refused, and no later one gave back."""
    change = [0] * (len(writes) + 1)
    taken: dict[Account, list[tuple[int, int]]] = {}
    for place, write in enumerate(writes):
        for account, request, of_lease in write.served:
            if limit in request.taken:
                taken.setdefault(account, []).append((place, request.taken[limit]))
            elif request.given.get(limit) and not of_lease:  # a compensation, for the last attempt
                back = request.given[limit]
                while back > 0:
                    since, amount = taken[account].pop()
                    change[since] += amount
                    change[place] -= amount
                    back -= amount
    sums, found = 0, []
    for each in change[: len(writes)]:
        sums += each
        found.append(sums)
    return found
