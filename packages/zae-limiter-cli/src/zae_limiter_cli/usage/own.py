"""Tell apart what entities used themselves and what calls of entities below took from them."""

from collections.abc import Collection, Iterable, Iterator
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from .runs import without_runs

if TYPE_CHECKING:
    from zae_limiter import SyncRepository, UsageSnapshot
    from zae_limiter.maintenance import StoredEntity


class Cascades:
    """The entities that calls of an entity cascade to. The records of ``among`` are read for the first question."""

    def __init__(self, repository: "SyncRepository") -> None:
        self._repository = repository
        self._records: dict[str, StoredEntity | None] = {}

    def above(self, entity_id: str, among: Collection[str]) -> Collection[str]:
        """Return everybody that a call of this entity also takes from; it is one of those that are asked for."""
        above, level = set[str](), [entity_id]
        while level:
            if not self._records.keys() >= {*level}:
                self._read({*level, *among})
            found = [record for each in level if (record := self._records[each]) is not None]
            level = [parent for each in found if each.cascade for parent in each.parent_ids if parent not in above]
            above.update(level)
        return above

    def _read(self, entity_ids: Collection[str]) -> None:
        from zae_limiter.maintenance import SyncMaintenance

        asked = sorted(each for each in {*entity_ids} - self._records.keys() if _is_id(each))
        found = SyncMaintenance(self._repository).get_entity_records(asked, skip_unreadable=True)
        self._records = {each: found.get(each) for each in entity_ids} | self._records


def _is_id(entity_id: str) -> bool:
    """Return whether programs can use an id of the usage today."""
    from zae_limiter import ValidationError
    from zae_limiter.values.naming import check_identifier

    try:
        return check_identifier("entity_id", entity_id) == entity_id
    except ValidationError:
        return False


def with_own(
    repository: "SyncRepository", snapshots: Iterable["UsageSnapshot"]
) -> Iterator[tuple["UsageSnapshot", "UsageSnapshot"]]:
    """Yield each snapshot with its own part, in the order of time; one window of all entities is in memory.

    The own parts of all entities add up to what was used, however many levels and runs a call took from.
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
            tokens = own_tokens(used, of_entity, partial(cascades.above, among=used.keys()))
            for number in numbers:
                own[number] = own_usage(window[number], parts[number], tokens[window[number].entity_id])
        yield from zip(window, without_runs(window, own), strict=True)
