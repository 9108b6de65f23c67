"""Between a simulated process and the world: the store, the clocks and the callers, each of which a fault may change.

Lives here: the words in which a deliberate fault is told. Never: a fault (mutants), and nothing of how the library is
made: a fault is what a library does to the table, or what it goes by, so every equal rewrite of it keeps all faults.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from zae_limiter.flows.acquire.requests import AcquireRequest
from zae_limiter.operations.values import Delete, Item, Key, Operation, Put, Transact, Update
from zae_limiter.values.refusal import RateLimitExceeded

Change = Callable[[Update], Update]
Where = Callable[[Any], bool]
Seen = Mapping[Key, Item]  # the items that a process was answered last
BALANCE, COUNT = "_tk", "_tc"
SWITCHES = ("disabled", "bypass", "cascading")


@dataclass(frozen=True, slots=True)
class Seams:
    """What becomes of all that passes between a process and the world; without a fault it passes as it is.

    ``sends``: a request on its way, beside what its process had seen; ``undoes``: whether a write is answered, and
    never was; ``reads``: each item of an answer, beside the version that its process had of it first. ``now_ms``,
    ``elapsed_ms``, ``forks``: what the process is told for the time, the time that nobody stops, and the number of
    forks. ``dates``: how many answers behind a wrong date are
    as wrong. ``asks``: what the process is told that its caller
    wants; ``refuses``: what a caller is told of a refusal. ``wakes``: whether those who sleep are woken. ``flows``:
    what the process is told that has flowed of a stream.
    """

    sends: Callable[[Operation[Any], Seen], Operation[Any]] | None = None
    undoes: Callable[[Operation[Any]], bool] | None = None
    reads: Callable[[Item, Item], Item | None] | None = None
    now_ms: Callable[[int], int] = int
    elapsed_ms: Callable[[float], float] = float
    forks: Callable[[int], int] = int
    asks: Callable[[AcquireRequest], AcquireRequest] | None = None
    refuses: Callable[[RateLimitExceeded], RateLimitExceeded] | None = None
    dates: int = 0
    wakes: bool = True
    flows: Callable[[int], int] = int


SOUND = Seams()


# Requests on their way


def requests(change: Callable[[Operation[Any]], Operation[Any]]) -> Seams:
    """A fault of requests."""
    return Seams(sends=lambda operation, _: change(operation))


def updates(change: Change, within: Where = bool) -> Seams:
    """A fault of updates of buckets, also of those in a transaction; ``within``: which requests have them."""
    return updates_as_seen(lambda update, _: change(update), within)


def updates_as_seen(change: Callable[[Update, Item], Update], within: Where = bool) -> Seams:
    """The same, where the fault needs the item that the process saw last."""

    def changed(write: Any, seen: Seen) -> Any:
        return change(write, seen.get(write.key, {})) if isinstance(write, Update) and of_bucket(write) else write

    def sends(operation: Operation[Any], seen: Seen) -> Operation[Any]:
        if not within(operation):
            return operation
        if isinstance(operation, Transact):
            return Transact(tuple(changed(each, seen) for each in operation.writes), operation.request_token)
        changed_one: Operation[Any] = changed(operation, seen)
        return changed_one

    return Seams(sends=sends)


def puts(change: Callable[[Item], Item]) -> Seams:
    """A fault of new buckets."""

    def changed(write: Any) -> Any:
        return Put(change(dict(write.item)), write.when) if isinstance(write, Put) and of_bucket(write) else write

    def sends(operation: Operation[Any]) -> Operation[Any]:
        if isinstance(operation, Transact):
            return Transact(tuple(map(changed, operation.writes)), operation.request_token)
        changed_one: Operation[Any] = changed(operation)
        return changed_one

    return requests(sends)


def of_bucket(write: Operation[Any]) -> bool:
    """Whether a write is of a bucket."""
    key = (write.item["PK"], write.item["SK"]) if isinstance(write, Put) else getattr(write, "key", ("", ""))
    return bool(key[1] == "#STATE")


def gives_back(operation: Operation[Any]) -> bool:
    """Whether a write returns tokens to a bucket, and does nothing else."""
    if not isinstance(operation, Update) or not of_bucket(operation) or reshapes(operation):
        return False
    return any(n > 0 for n in ending(operation.add, BALANCE).values())


def takes(operation: Operation[Any]) -> bool:
    """Whether a write takes tokens that have to be there."""
    return isinstance(operation, Update) and any(name.endswith(BALANCE) for name in operation.when.at_least)


def reshapes(operation: Operation[Any]) -> bool:
    """Whether a write moves the anchor of a bucket."""
    return isinstance(operation, Update) and "rf" in operation.set


def tells(operation: Operation[Any]) -> bool:
    """Whether a write moves an anchor for nobody: it tells a bucket of other limits, or keeps numbers small."""
    if not isinstance(operation, Update) or not reshapes(operation):
        return False
    return not ending({**operation.set, **operation.add}, "_cp", COUNT, "ev", but="b_wcu_tc")


def splits(operation: Operation[Any]) -> bool:
    """Whether a transaction makes two shards of one."""
    return isinstance(operation, Transact) and any(
        isinstance(each, Put) and of_bucket(each) for each in operation.writes
    )


def merges(operation: Operation[Any]) -> bool:
    """Whether a transaction makes one shard of two."""
    return isinstance(operation, Transact) and any(
        isinstance(each, Delete) and of_bucket(each) for each in operation.writes
    )


def ending(amounts: Mapping[str, Any], *suffixes: str, but: str = "") -> dict[str, Any]:
    """Those whose attribute ends so: of tokens or counts, of any limit."""
    return {name: value for name, value in amounts.items() if name.endswith(suffixes) and name != but}


def without(amounts: Mapping[str, Any], *suffixes: str, but: str = "") -> dict[str, Any]:
    """The others."""
    gone = ending(amounts, *suffixes, but=but)
    return {name: value for name, value in amounts.items() if name not in gone}


def asking(update: Update, **conditions: Any) -> Update:
    """The update under other conditions."""
    return update._replace(when=update.when._replace(**conditions))


def unasked(*kinds: str, of: tuple[str, ...] = ("",), where: Where = of_bucket) -> Seams:
    """A write without its conditions of these kinds, about attributes that end so."""

    def change(update: Update) -> Update:
        left: dict[str, Any] = {kind: without(getattr(update.when, kind), *of) for kind in kinds if kind != "exists"}
        if "exists" in kinds:
            left["exists"] = ()
        return asking(update, **left) if where(update) else update

    return updates(change)


def adding(change: Callable[[int], int], *suffixes: str, where: Where = of_bucket, within: Where = bool) -> Seams:
    """A write that adds another amount."""

    def changed(update: Update) -> Update:
        amounts = {name: change(amount) for name, amount in ending(update.add, *suffixes, but="b_wcu_tc").items()}
        return update._replace(add={**update.add, **amounts}) if where(update) else update

    return updates(changed, within)


def setting(change: Callable[[int], int], *suffixes: str, where: Where = of_bucket) -> Seams:
    """A write that sets another number."""

    def changed(update: Update) -> Update:
        numbers = {name: change(number) for name, number in ending(update.set, *suffixes).items()}
        return update._replace(set={**update.set, **numbers}) if where(update) else update

    return updates(changed)


# Answers on their way


def reads(kind: str, change: Callable[[Item], Item | None]) -> Seams:
    """A fault of what is read: of buckets (``#STATE``), of configs (``#CONFIG``), of entities (``#META``)."""
    return Seams(reads=lambda item, _: change(dict(item)) if item["SK"].startswith(kind) else item)


def hides(kind: str, *attributes: str, of: Callable[[Item], bool] = bool) -> Seams:
    """Nobody reads these attributes, nor a config that has no more of limits or switches then."""

    def change(item: Item) -> Item | None:
        kept = {name: value for name, value in item.items() if not name.endswith(attributes)} if of(item) else item
        is_empty = kind == "#CONFIG" and not ending(kept, "_cp", *SWITCHES)
        return None if is_empty else kept

    return reads(kind, change)


def as_at_first(kind: str) -> Seams:
    """A process reads an item for ever as it was when it read it first."""
    return Seams(reads=lambda item, first: first if item["SK"].startswith(kind) else item)
