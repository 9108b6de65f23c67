"""Tell apart what entities used themselves and what calls of entities below took from them."""

from collections.abc import Collection, Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from ..paging import every_record

if TYPE_CHECKING:
    from zae_limiter import Entity, SyncRepository, UsageSnapshot


class Cascades:
    """The entities that calls of an entity cascade to. All records are read for the first question."""

    def __init__(self, repository: "SyncRepository") -> None:
        self._repository = repository
        self._records: dict[str, Entity] | None = None

    def above(self, entity_id: str) -> Collection[str]:
        """Return everybody that a call of this entity also takes from."""
        if self._records is None:
            self._records = {each.entity_id: each for each in every_record(self._repository)}
        above, level = set[str](), [entity_id]
        while level:
            found = [self._records[each] for each in level if each in self._records]
            level = [parent for each in found if each.cascade for parent in each.parent_ids if parent not in above]
            above.update(level)
        return above


def with_own(
    repository: "SyncRepository", snapshots: Iterable["UsageSnapshot"]
) -> Iterator[tuple["UsageSnapshot", "UsageSnapshot"]]:
    """Yield each snapshot with its own part, in the order of time; one window of all entities is in memory.

    The own parts of all entities add up to what was used, however many levels a call took from.
    """
    from zae_limiter.values.own_usage import OwnParts, own_tokens, own_usage

    cascades, known = Cascades(repository), OwnParts()
    for _, group in groupby(snapshots, key=lambda each: each.window_start):
        window = list(group)
        parts = known.of(window)
        by_resource: dict[str, list[int]] = {}
        for number, each in enumerate(window):
            by_resource.setdefault(each.resource, []).append(number)
        own = list(window)
        for numbers in by_resource.values():
            used = {window[number].entity_id: window[number].consumed for number in numbers}
            of_entity = {window[number].entity_id: parts[number] for number in numbers}
            tokens = own_tokens(used, of_entity, cascades.above)
            for number in numbers:
                own[number] = own_usage(window[number], parts[number], tokens[window[number].entity_id])
        yield from zip(window, own, strict=True)
