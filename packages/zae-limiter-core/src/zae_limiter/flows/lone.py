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
    longest_ms = 0
    for name, tk, tc, ceiling, amount, period, shard, shards, at_anchor in view.rows:
        minted = (amount * now_ms // period + shard) // shards - at_anchor
        full = ceiling - minted
        missing, net = full - item[tk], checked.get(name)
        if missing < 0:
            missing = 0
        if net:
            if missing:
                least[tk] = net - minted
                most[tk] = full
                add[tk] = -net
            else:
                least[tk] = full
                values[tk] = full - net
            add[tc] = net
            missing += net
            if missing > ceiling:
                return None
        wait_ms = missing * period // amount
        if wait_ms > longest_ms:
            longest_ms = wait_ms
    if len(least) < len(checked):  # an amount of 0, or of a limit that the bucket has not
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
