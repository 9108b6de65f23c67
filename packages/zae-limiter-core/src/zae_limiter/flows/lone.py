"""The commonest write, straight through: one acquire that fits into a bucket that no other process is at.

Lives here: the very update that ``frames.Ordinary`` writes for it (a test holds the two together), in one pass, because
every acquire of a quiet bucket pays for it. Never: another case.
"""

from ..operations.values import Conditions, Update
from ..resolution import Config
from ..schema.items import ONE_WRITE, WRITES, View
from .frames import TTL_GRACE_MS
from .lane import Entry
from .scope import Shadow


def lone_update(  # noqa: C901, PLR0915 - one pass, so that the commonest write is short in time
    shadow: Shadow, view: View, entry: Entry, *, config: Config, now_ms: int, multiplier: int
) -> Update | None:
    """The write, ``None`` where it is another case."""
    item, checked = view.item, entry.checked
    add, values, least, most = {}, {}, {}, {}
    longest_ms = taken = 0
    for name, tk, tc, ceiling, amount, period, shard, shards, at_anchor in view.rows:
        minted = (amount * now_ms // period + shard) // shards - at_anchor
        room, net = item[tk] + minted, checked.get(name, 0)
        if room >= ceiling:
            room = ceiling
            if net:
                least[tk] = ceiling - minted
                values[tk] = ceiling - minted - net
        elif net:
            least[tk] = net - minted
            most[tk] = ceiling - minted
            add[tk] = -net
        if net:
            if net > room:
                return None
            taken += 1
            add[tc] = net
        wait_ms = (ceiling - room + net) * period // amount
        if wait_ms > longest_ms:
            longest_ms = wait_ms
    if taken < len(checked):
        return None
    add["ev"] = entry.events
    add[WRITES] = ONE_WRITE
    if not config.own and multiplier and item["shard_count"] == 1:
        kept_ms = multiplier * longest_ms
        if kept_ms < view.fill_ms and not shadow.speaks_for(now_ms):
            kept_ms = view.fill_ms
        values["ttl"] = -(-(now_ms + TTL_GRACE_MS + kept_ms) // 1000)
    elif "ttl" in item:
        return None
    return Update(shadow.key, add, values, (), Conditions((), (), {"rf": item["rf"]}, least, most))
