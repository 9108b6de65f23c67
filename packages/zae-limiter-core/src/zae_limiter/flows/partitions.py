"""Read the partitions of an index over which ``schema.partitions`` spreads rows.

Some partitions are asked at the same time, a page of each. Where the order of rows matters, ``SortedRows`` merges them
by sort key: a row is returned once every partition with further pages has shown a later one.
"""

from collections.abc import Iterable, Iterator, Sequence

from ..operations.errors import OutcomeUnknown, StoreError, Throttled
from ..operations.values import Item, Key, Page, Query
from ..runtime.dataclass import dataclass, field, replace
from ..schema import keys
from ..schema.attributes import SK
from ..schema.partitions import INDEX_SUFFIXES, every_gsi2_pk, every_gsi4_pk
from ..schema.table import INDEXES
from .process.namespace_state import NamespaceState
from .retry import key_of, with_retries
from .steps import Flow, call_all

READS_AT_ONCE = 8


def of_resource(namespace_state: NamespaceState, resource: str, query: Query) -> list[Query]:
    """Return the query of GSI2 for each partition of a resource."""
    ns = namespace_state.namespace_id
    spread = namespace_state.settings.reads_spread
    return _each(query, every_gsi2_pk(ns, resource) if spread else [keys.gsi2_pk_resource(ns, resource)])


def of_namespace(namespace_state: NamespaceState, query: Query) -> list[Query]:
    """Return the query of GSI4 for each partition of a namespace."""
    if namespace_state.settings.reads_spread:
        return everywhere(namespace_state.namespace_id, query)
    return [replace(query, pk=keys.gsi4_pk(namespace_state.namespace_id), index="GSI4")]


def everywhere(namespace_id: str, query: Query) -> list[Query]:
    """Return the query of GSI4 for each partition that any table can have for a namespace."""
    return _each(replace(query, index="GSI4"), every_gsi4_pk(namespace_id))


def _each(query: Query, pks: Iterable[str]) -> list[Query]:
    return [replace(query, pk=pk) for pk in pks]


def next_rows(queries: Sequence[Query]) -> Flow[tuple[list[Item], list[Query]]]:
    """Return the rows of a page of each of the first queries, in no order, and the queries that are left.

    An item that was made again under another partition key may have two rows for a moment; one of them is returned.
    """
    asked, left = queries[:READS_AT_ONCE], list(queries[READS_AT_ONCE:])
    rows: list[Item] = []
    for query, page in zip(asked, (yield from _pages(asked)), strict=True):
        rows += page.items
        if page.next is not None:
            left.append(replace(query, start=page.next))
    return (rows if len(queries) == 1 else list({key_of(row): row for row in rows}.values())), left


def _pages(queries: Sequence[Query]) -> Flow[list[Page]]:
    """Return a page of each query, all asked at the same time; those that fail in passing are asked again."""
    if len(queries) == 1:
        return [(yield from with_retries(queries[0]))]
    pages: list[Page] = []
    for query, answer in zip(queries, (yield from call_all(queries)), strict=True):
        if isinstance(answer, Throttled | OutcomeUnknown):
            pages.append((yield from with_retries(query)))
        elif isinstance(answer, StoreError):
            raise answer
        else:
            pages.append(answer)
    return pages


@dataclass(slots=True)
class _Part:
    """A partition: the query of its next page, ``None`` at the end, and the rows that were read and not returned, each
    with its place in the order; ``last`` is that of the row that was read last.
    """

    query: Query | None
    last: str
    rows: list[tuple[str, Item]] = field(default_factory=list)


class SortedRows:
    """The rows of several partitions of an index, in the order of their sort keys, in pages.

    ``limit`` of the queries is for all partitions together: each of several is asked for twice its share of it.
    """

    def __init__(self, queries: Sequence[Query]) -> None:
        first = queries[0]
        self._sk = INDEXES[first.index].sk if first.index else SK
        self._descending = first.descending
        before_all = "\U0010ffff" if self._descending else ""
        self._parts = [_Part(query, before_all) for query in _shared(queries)]
        self._last: Key | None = None

    @property
    def ended(self) -> bool:
        """Whether all rows were returned."""
        return not any(part.rows or part.query for part in self._parts)

    def page(self) -> Flow[list[Item]]:
        """Return the next rows, as far as they are known to be the next; none at the end."""
        while waiting := [part for part in self._parts if part.query is not None and not part.rows]:
            yield from self._fill(waiting[:READS_AT_ONCE])
        ends = [part.last for part in self._parts if part.query is not None]
        bound = None if not ends else max(ends) if self._descending else min(ends)
        found: list[tuple[str, Item]] = []
        for part in self._parts:
            count = len(part.rows) if bound is None else sum(self._is_due(place, bound) for place, _ in part.rows)
            found += part.rows[:count]
            del part.rows[:count]
        if len(self._parts) > 1:
            found.sort(key=lambda placed: (placed[0], key_of(placed[1])), reverse=self._descending)
            return list(self._distinct(row for _, row in found))
        return [row for _, row in found]

    def _fill(self, parts: Sequence[_Part]) -> Flow[None]:
        queries = [part.query for part in parts if part.query is not None]
        for part, query, page in zip(parts, queries, (yield from _pages(queries)), strict=True):
            part.rows = [(self._place(part, row), row) for row in page.items]
            part.query = None if page.next is None else replace(query, start=page.next)

    def _place(self, part: _Part, row: Item) -> str:
        """Return the sort key of a row of a partition. A row that cannot be read may be its key in the table alone: it
        has the place of the row before it, so it hides no other, and the reader drops it.
        """
        part.last = str(row.get(self._sk, part.last))
        return part.last

    def _is_due(self, place: str, bound: str) -> bool:
        return place >= bound if self._descending else place <= bound

    def _distinct(self, rows: Iterable[Item]) -> Iterator[Item]:
        """Yield the rows without a second one of the same item: it has the same sort key, so it comes next."""
        for row in rows:
            if key_of(row) != self._last:
                yield row
            self._last = key_of(row)


def _shared(queries: Sequence[Query]) -> list[Query]:
    first, *others = queries
    if first.limit is None or not others:
        return [first, *others]
    return [first, *(replace(each, limit=first.limit * 2 // INDEX_SUFFIXES + 1) for each in others)]
