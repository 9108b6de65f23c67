"""Random operations on a store, and what they come to.

Lives here: strategies of Hypothesis, outcomes that stores may be compared by. Never: a claim.
"""

from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from zae_limiter.engines.engine import SyncStore
from zae_limiter.operations.errors import ConditionFailed, NotApplied, TransactionCancelled
from zae_limiter.operations.values import (
    BatchGet,
    BatchWrite,
    Check,
    Conditions,
    Delete,
    Get,
    Item,
    Key,
    Operation,
    Page,
    Put,
    Query,
    Transact,
    Update,
)

NAMES = ("n", "m", "s", "b_rpm_tk")
SORT_KEYS = ("#META", "#USAGE#a", "#USAGE#b", "z")

names = st.sampled_from(NAMES)
numbers = st.integers(-3, 3)
values = numbers | st.sampled_from(["", "x", "é", True, False, None]) | st.lists(numbers, max_size=2)
nested = values | st.dictionaries(names, values, max_size=2)
indexes = st.sampled_from([None, "GSI1", "GSI2", "GSI3", "GSI4"])
places = st.fixed_dictionaries(
    {}, optional={f"GSI{n}{part}": st.sampled_from(["i", "j#1", "j#2"]) for n in (1, 2, 3, 4) for part in ("PK", "SK")}
)
keys = st.builds(Key, st.sampled_from(["i", "j#1"]), st.sampled_from(SORT_KEYS))
conditions = st.builds(
    Conditions,
    exists=st.lists(names | st.just("PK"), max_size=1).map(tuple),
    absent=st.lists(names | st.just("PK"), max_size=1).map(tuple),
    equals=st.dictionaries(names, values, max_size=1),
    at_least=st.dictionaries(names, numbers, max_size=2),
    at_most=st.dictionaries(names, numbers, max_size=2),
    below=st.dictionaries(names, st.sampled_from(["x", "y", "é"]), max_size=1),
) | st.just(Conditions())


def item_of(key: Key, attributes: Item, place: Item) -> Item:
    return {"PK": key.pk, "SK": key.sk, **attributes, **place}


items = st.builds(item_of, keys, st.dictionaries(names, nested, max_size=4), places)
puts = st.builds(Put, items, conditions)
deletes = st.builds(Delete, keys, conditions)
updates = st.builds(
    Update,
    keys,
    add=st.dictionaries(names, numbers, max_size=2),
    set=st.dictionaries(names, nested, max_size=1),
    remove=st.lists(names, max_size=1).map(tuple),
    when=conditions,
)
queries = st.builds(
    Query,
    st.sampled_from(["i", "j#1"]),
    indexes,
    begins_with=st.sampled_from([None, "#USAGE#", "j#", "i"]),
    after=st.sampled_from([None, "#USAGE#a", "j#1", "a", "zz"]),
    limit=st.sampled_from([None, 1, 2]),
    descending=st.booleans(),
)
batch_writes = st.builds(
    BatchWrite, st.lists(st.builds(Put, items) | st.builds(Delete, keys), min_size=1, max_size=4).map(tuple)
)
single = puts | updates | updates | deletes | st.builds(Get, keys) | queries | batch_writes
batches = st.builds(BatchGet, st.lists(keys, min_size=1, max_size=4).map(tuple))


checks = st.builds(Check, keys, conditions.filter(lambda when: when != Conditions()))


def place_of(write: Put | Update | Delete | Check) -> Key:
    return Key(write.item["PK"], write.item["SK"]) if isinstance(write, Put) else write.key


def is_well_formed(write: Put | Update | Delete | Check) -> bool:
    """The emulators do not agree with each other on how a transaction with a malformed write fails."""
    if isinstance(write, Update):
        changed = [*write.add, *write.set, *write.remove]
        if not changed or len(set(changed)) < len(changed):
            return False
    return all(low <= write.when.at_most.get(name, low) for name, low in write.when.at_least.items())


transactions = st.builds(
    Transact,
    st.lists(
        (puts | updates | deletes | checks).filter(is_well_formed), min_size=1, max_size=3, unique_by=place_of
    ).map(tuple),
)


def outcome(store: SyncStore, operation: Operation[Any]) -> Any:
    """The answer, or all that an error says; of a query, all of its pages."""
    try:
        if isinstance(operation, Query):
            return list(pages(store, operation))
        return store.perform(operation)
    except ConditionFailed as error:
        return "condition", error.item
    except TransactionCancelled as error:
        # AWS names the write that adds to a string, DynamoDB Local refuses the whole request.
        malformed = any(reason.code == "ValidationError" for reason in error.reasons)
        return "not applied" if malformed else ("cancelled", error.reasons)
    except NotApplied:
        return "not applied"


def pages(store: SyncStore, query: Query) -> Iterator[tuple[Any, ...]]:
    place = f"{query.index}SK" if query.index else "SK"
    start = None
    while True:
        page: Page = store.perform(
            Query(query.pk, query.index, query.begins_with, query.after, query.limit, query.descending, start)
        )
        # Where index keys are equal DynamoDB promises no order, nor which of them come first.
        yield from ((item[place], item if query.index is None else None) for item in page.items)
        start = page.next
        if start is None:
            return
