"""How a caller takes whose turn in a waiting line has come.

It must neither overtake nor waste: of a crowd, many are refused, because other processes have taken the tokens. A
caller that took from its own bucket and the parent's at the same time would have to give back what one of them gave, at
every refusal of the other: three writes for nothing, and while they are under way nobody behind it knows whether it is
served. So it asks the topmost bucket first, for whose tokens most are waiting, and its own only when it has those of
all above. All callers have the same order (``_from_the_top``): of two that begin at different ends, the later one is
served first.

On a bucket of many shards each shard has few tokens at a time, a fraction of one perhaps. Whoever takes every fraction
as soon as the sum is enough, writes to all shards for one token, collides with everybody else, and gives back. So a
shard counts only once it is *ripe*: it has the whole amount, or most of what it can ever hold. A caller that has been
due for long settles for smaller parts (``Turn.parts``), and the first of a line for any at the end of its time. Those
of one process take different shards (``WaitingLine.asked``).

``waiting`` has the pauses of a caller.
"""

from collections.abc import Mapping, Sequence

from ...rules.sharding import Amounts
from ...schema.items import BucketState
from ..bucket.view import View
from ..bucket_queue import Waiter
from ..process.namespace_state import NamespaceState
from ..process.queueing import queue
from ..process.waiting_line import Turn
from ..steps import Flow
from .claims import Claim
from .shard_selection import ROUNDS, read_shards, take_parts, try_other_shards
from .taking_together import show_unasked

ANY_PARTS = float("inf")


def take_in_turn(namespace_state: NamespaceState, claims: Sequence[Claim], turn: Turn) -> Flow[None]:
    """Take from the buckets above, the topmost first, then from the caller's own, until one refuses.

    Read expired configs first: beside the write, a caller would ask its own bucket later than those behind it. A bucket
    that is not asked has no request, only the state that was seen last.
    """
    yield from queue([Waiter(claim.cached.loading) for claim in claims if claim.stale])
    for claim in _from_the_top(claims):
        claim.turn, claim.among_others = turn, len(claims) > 1
        if not claim.asked:
            continue
        if claim.is_behind_another(namespace_state.now()):
            claim.refuse(namespace_state.now(), blocked=True)
        elif claim.is_split and any(claim.checked.values()):
            yield from _take_ripe(namespace_state, claim, turn)
        else:
            yield from queue([claim.enter()])
            yield from try_other_shards(namespace_state, [claim])
        if not claim.admitted:
            break
    show_unasked(namespace_state, claims)


def _from_the_top(claims: Sequence[Claim]) -> list[Claim]:
    """Return the claims by the levels above their buckets, the caller's own last. So any two buckets have the same
    order for all callers that draw on both.
    """
    levels = {claim.cached.id.entity_id: 0 for claim in claims}
    above = {claim.cached.id.entity_id: claim.resolved for claim in claims}
    for _ in claims:  # as often as there can be levels
        for entity_id, resolved in above.items():
            if resolved.cascade:
                levels[entity_id] = max((levels.get(each, 0) + 1 for each in resolved.parent_ids), default=0)
    own_last = not any(claim.draw for claim in claims)  # of draws, each bucket may be the own one of another caller

    def order(claim: Claim) -> tuple[bool, int, str, str]:
        of = claim.cached.id
        return own_last and claim is claims[0], levels[of.entity_id], of.entity_id, of.resource

    return sorted(claims, key=order)


def _take_ripe(namespace_state: NamespaceState, claim: Claim, turn: Turn) -> Flow[None]:
    """Take from ripe shards. Keep what some of them gave while asking others for the rest."""
    line = claim.cached.line
    for _ in range(ROUNDS):
        states = yield from read_shards(namespace_state, claim)
        chosen = _choose(namespace_state, claim, states, turn)
        if not chosen:
            break
        line.asked[turn] = chosen
        try:
            yield from take_parts(namespace_state, claim, chosen)
        finally:
            line.asked.pop(turn, None)
        if claim.admitted or not claim.refused:
            return
    if not claim.last:
        claim.refuse(namespace_state.now(), blocked=False)


def _choose(
    namespace_state: NamespaceState, claim: Claim, states: Sequence[BucketState], turn: Turn
) -> Mapping[int, Amounts] | None:
    """Return one shard that has all that is missing, at random, else several, the fullest first."""
    missing, view = claim.missing, View(states, claim.config, namespace_state.now())
    headrooms = view.ripe(claim.checked, turn.parts)
    others = [asked for other, asked in list(claim.cached.line.asked.items()) if other is not turn]
    for shard, there in headrooms.items():
        for name in there:
            there[name] -= sum(asked[shard].get(name, 0) for asked in others if shard in asked)
    whole = [
        shard for shard, there in headrooms.items() if all(amount <= there[name] for name, amount in missing.items())
    ]
    if whole:
        return {whole[namespace_state.pick(len(whole))]: missing}
    return view.divided(missing, headrooms)
