"""What must be true of an acquire that comes long after the last change of the limits."""

from collections import Counter

from .bucket_items import rule_of
from .kernel import Violation
from .oracle import Oracle


def check_settled(oracle: Oracle, since: int) -> None:
    """Raises ``Violation`` where an acquire was admitted by other limits than those stored.

    ``since``: how many writes there were before it. A limit that no config names any more may still be there. What it
    took and gave back whole admitted nothing: it asks the parent by an old copy, and learns only then that it has none.
    """
    kept = Counter[str]()
    for write in oracle.applications[since:]:
        kept[write.bucket] += write.events
    taking = (write for write in oracle.applications[since:] if write.checked or write.tried or write.counted)
    writes = (write for write in taking if kept[write.bucket] > 0)
    last = {write.bucket: write for write in writes}
    for write in last.values():
        _, entity, resource = write.bucket.split("#")
        wanted = {
            each.name: rule_of(each)._replace(times=oracle.schedules.times(each))
            for each in oracle.levels.at((entity, resource), write.applied_ms)
            if not each._has_slots
        }
        has = {name: change.state.rule._replace(begin_ms=0) for name, change in write.changes.items() if name in wanted}
        for name, rule in wanted.items():
            if rule.times and name in has:  # which of its values a shard has is checked by each write
                wanted[name] = has[name]._replace(times=rule.times)
        if has != wanted:
            raise Violation(f"{write.pk}: long after the last change its limits are {has}, and not {wanted}")
