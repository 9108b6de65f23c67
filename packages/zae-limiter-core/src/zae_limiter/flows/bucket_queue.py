"""Run queues: the requests of this process that wait for a bucket, and the outcome of each.

Queues and requests are plain data. Drivers wait, ``group_commit`` writes.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Literal, Protocol

from ..operations.errors import StoreError
from ..operations.values import NOTHING, sums
from ..runtime.elapsed import elapsed_ms
from ..runtime.log_throttle import LogThrottle
from ..runtime.named_tuple import NamedTuple
from ..runtime.rooms import Lazily
from ..schema.attributes import bucket_attributes
from ..schema.items import BucketId, BucketState
from ..values.limits import MILLI
from ..values.resolution import Config
from .prefetch import Prefetch, Purpose
from .slots import HeldSlots, Renewing, SlotWork, TakenSlots, slots_of
from .tally import NO_TALLY, Tally

Verdict = Literal["admitted", "refused", "outdated", "failed"]


class Outcome(NamedTuple):
    """The result of a request: at ``at_ms``, on a bucket in this ``state``, ``None`` if there was no bucket.

    ``outdated``: the bucket has a newer config, lacks a limit of the request, has another schedule, or there is no such
    shard. ``left``: after a refusal, the tokens left by the requests before it, in millitokens by limit.
    ``shadow_short``: the shadow limits that were short, with what they had left; nothing was taken from them.
    """

    verdict: Verdict
    state: BucketState | None
    at_ms: int
    error: StoreError | None = None
    left: Mapping[str, int] = NOTHING
    shadow_short: Mapping[str, int] = NOTHING


class Waiter:
    """One place in a queue. A flow settles it by setting its ``outcome``; ``waker`` belongs to the driver.

    ``turn``: its rank in a waiting line, empty if it has none. ``blocked``: a caller before it in the line was refused
    while it was in the queue, so it is refused, too. ``unwanted``: its caller went away while a run was at work on it.
    ``droppable``: it may leave the queue with its caller.
    """

    outcome: "Outcome | None" = None
    unwanted = False
    waker: Any = None
    droppable = True
    turn: tuple[int, ...] = ()
    blocked = False

    def __init__(self, queue: "RunQueue") -> None:
        self.queue = queue

    def goes_with(self, other: Any) -> bool:  # noqa: ARG002 - by default all go together
        """Return whether one run can serve both."""
        return True

    def fail(self, error: StoreError) -> None:
        """Settle the waiter as failed, unless it is settled."""
        if self.outcome is None:
            self.outcome = Outcome("failed", None, 0, error)

    def is_served_by_prefetch(self) -> bool:
        """Settle the waiter by what this process holds of the bucket; return whether it could."""
        return False

    def unwind(self) -> "Sequence[BucketRequest]":
        """Return the requests that undo an unwanted outcome."""
        return ()


class BucketRequest(Waiter):
    """One request on one bucket: amounts in millitokens by limit.

    ``checked`` must be there, ``unchecked`` may go into debt, ``given`` comes back; ``counts`` is what it counts
    beside, up or down. ``shadow_amounts`` are taken from shadow limits that have them; the others only count them.
    ``shards``: the shard count when the given amounts were taken, 0 if it does not matter. ``unlimited``: amounts of an
    acquire that no limit refuses, and that are only counted. ``purpose``: its write is for what this process holds
    prefetch. ``defers``: outdated if it does not know the bucket's schedule. ``elsewhere``: after the run, the amounts
    that go back to other shards, split off since or merged with. ``slots``: what it does to slots. ``beside``: if it
    was refused, the requests by which something could come back then.
    """

    returned = False
    purpose: Purpose | None = None
    defers = False
    shadow_amounts: Mapping[str, int] = NOTHING
    unlimited: Mapping[str, int] = NOTHING
    elsewhere: "Sequence[ShardReturn]" = ()
    slots: SlotWork | None = None
    beside: "Sequence[BucketRequest]" = ()

    def __init__(
        self,
        queue: "RunQueue",
        checked: Mapping[str, int] = NOTHING,
        config: Config | None = None,
        counts: Tally = NO_TALLY,
        *,
        unchecked: Mapping[str, int] = NOTHING,
        given: Mapping[str, int] = NOTHING,
        shards: int = 0,
    ) -> None:
        self.queue = queue
        self.checked = checked
        self.unchecked = unchecked
        self.given = given
        self.config = config
        self.counts = counts
        self.shards = shards

    @property
    def droppable(self) -> bool:  # type: ignore[override]
        """Whether it may leave the queue: what only takes tokens may; a give-back or a correction may not."""
        return self.is_acquire or self.purpose == "renew"

    @property
    def is_acquire(self) -> bool:
        """Whether it asks for amounts; else it corrects what others took."""
        return bool(self.checked or self.shadow_amounts or self.unlimited)

    @property
    def amounts(self) -> Mapping[str, int]:
        """All amounts that it asks for, those of shadow limits included."""
        return {**self.checked, **self.shadow_amounts} if self.shadow_amounts else self.checked

    @property
    def takes(self) -> bool:
        """Whether it is an acquire that takes or counts anything."""
        return any(self.amounts.values()) or any(self.unlimited.values())

    @property
    def not_taken(self) -> Mapping[str, int]:
        """The amounts that shadow limits did not have, so that they were only counted."""
        names = NOTHING if self.outcome is None else self.outcome.shadow_short
        return {name: self.shadow_amounts[name] for name in names}

    @property
    def taken(self) -> Mapping[str, int]:
        """The amounts that it took, if it was admitted."""
        amounts, left_out = self.amounts, self.not_taken
        return {name: amount for name, amount in amounts.items() if name not in left_out} if left_out else amounts

    @property
    def only_returns(self) -> bool:
        """Whether it is a correction that takes nothing: without a bucket there is nothing to correct."""
        return (
            not self.is_acquire
            and not self.unchecked
            and not any(amount > 0 for amount in self.counts.amounts.values())
        )

    @property
    def admitted(self) -> bool:
        """Whether a confirmed write took the amounts, and they have not been given back."""
        return self.outcome is not None and self.outcome.verdict == "admitted" and not self.returned

    @property
    def took(self) -> bool:
        """Whether a confirmed write took the amounts, and it may be that they are given back, or on their way."""
        return self.outcome is not None and self.outcome.verdict == "admitted"

    def goes_with(self, other: "BucketRequest") -> bool:
        """Return whether one write can carry both: their limits are the same, or one has no config."""
        mine, yours = self.config, other.config
        return mine is yours or mine is None or yours is None or mine.limits == yours.limits

    def give_back(self) -> "BucketRequest":
        """Return the request that gives back the amounts taken, and the acquire, and mark this one as returned."""
        self.returned = True
        slots = {each.limit for each in self.taken_slots}
        given = {name: amount for name, amount in self.taken.items() if amount and name not in slots}
        back = BucketRequest(self.queue, given=given, shards=self.taken_among)
        not_taken, own = self.not_taken, self.counts
        counted = {name: -amount for name, amount in {**not_taken, **self.unlimited}.items()}
        back.counts = Tally(counted, -own.events, -own.below, -1 if own.events and not_taken else 0)
        if slots and self.slots is not None:
            back.slots = self.slots.given_back()
        return back

    @property
    def taken_slots(self) -> Sequence[TakenSlots]:
        """The slots that it took, if it was admitted; empty for limits without slots."""
        state = None if self.outcome is None else self.outcome.state
        if state is None or not state.slots:
            return ()
        if self.slots is None:
            found = ((name, amount, slots_of(state, name)) for name, amount in self.taken.items() if amount)
            self.slots = SlotWork([TakenSlots(name, amount, slots) for name, amount, slots in found if slots])
        return self.slots.taken

    def is_served_by_prefetch(self) -> bool:
        prefetch = self.queue.prefetch
        if prefetch is None or self.turn or self.counts.shadowed or self.slots:
            return False
        if self.config is not None and self.config.limits != prefetch.terms.limits:
            return False
        now_ms, moved, counted = prefetch.now(), self.moved, self.unlimited or self.counts.amounts
        if not (moved or counted):
            return False
        if not prefetch.move(moved, now_ms, events=self.counts.events, below=self.counts.below, counted=counted):
            return False
        shard = self.queue.shard  # whose state says how to divide what comes back, wherever the reservations are from
        self.outcome = Outcome("admitted", None if shard is None else shard.state, now_ms)
        return True

    def merged(self, other: "BucketRequest") -> "BucketRequest":
        """Return one give-back that does the work of two."""
        given = sums(self.given, other.given)
        both = BucketRequest(self.queue, given=given, counts=self.counts.plus(other.counts), shards=self.shards)
        both.slots = self.slots if other.slots is None else other.slots.merged(self.slots)
        return both

    @property
    def taken_among(self) -> int:
        """The shard count when the amounts were taken; 0 if no state is known."""
        state = None if self.outcome is None else self.outcome.state
        return 0 if state is None else state.shard_count

    def divide(self, shard: int, shards: int) -> None:
        """Move half of the given amounts to the other half of the shard, for each split since they were taken."""
        while 0 < self.shards < shards:
            halves = {name: amount // 2 for name, amount in self.given.items()}
            self.given = {name: amount - halves[name] for name, amount in self.given.items()}
            self.shards *= 2
            self.elsewhere = (*self.elsewhere, ShardReturn(shard + self.shards // 2, self.shards, halves))

    def pass_on(self, shard: int, shards: int) -> None:
        """Leave all that comes back to another shard, which has what its own had: the two have merged."""
        part = ShardReturn(shard, shards, self.given, self.counts)
        self.elsewhere = (*self.elsewhere, part)
        self.given, self.counts = NOTHING, NO_TALLY

    def open_again(self, config: Config) -> None:
        """Undo an outcome: it is made again by these limits, whatever schedule the bucket has."""
        self.config, self.outcome, self.defers = config, None, False

    def trim(self, known: Mapping[str, int], state: BucketState | None) -> None:
        """Drop the corrections of limits that are not ``known``: the bucket no longer has them.

        A count of a name without a limit stays, if the bucket counts it, or begins to.
        """
        if not self.corrected <= known.keys():
            limits = NOTHING if self.config is None else self.config.by_name
            counted = {
                name: amount
                for name, amount in self.counts.amounts.items()
                if name in known
                or counts(state, name)
                or (amount > 0 and self.config is not None and name not in limits)
            }
            self.counts = self.counts.of(counted)
            self.given = {name: amount for name, amount in self.given.items() if name in known}
            self.unchecked = {name: amount for name, amount in self.unchecked.items() if name in known}

    @property
    def moved(self) -> Mapping[str, int]:
        """What it takes of each balance; negative where it comes back."""
        if self.unchecked or self.given:
            return {**self.unchecked, **{name: -amount for name, amount in self.given.items()}}
        return self.amounts

    @property
    def net(self) -> dict[str, int]:
        """What it adds to the count of consumed tokens if it is a correction."""
        back = {name: -amount for name, amount in self.given.items()}
        return dict(sums(sums(self.unchecked, back), self.counts.amounts))

    @property
    def corrected(self) -> set[str]:
        """The names of its corrections."""
        slots = () if self.slots is None else self.slots.limits
        return {*self.given, *self.unchecked, *self.counts.amounts, *slots}

    def unwind(self) -> "Sequence[BucketRequest]":
        """Return the give-back, if the request took tokens."""
        return [self.give_back()] if self.admitted and self.takes else ()


def together(requests: "Iterable[BucketRequest]") -> "list[BucketRequest]":
    """Return give-backs with one request for all that go to a shard, and were taken among as many."""
    found: dict[tuple[RunQueue, int], BucketRequest] = {}
    for each in requests:
        key = each.queue, each.shards
        found[key] = found[key].merged(each) if key in found else each
    return list(found.values())


def correction(queue: "RunQueue", shards: int, amounts: Mapping[str, int], config: Config) -> BucketRequest:
    """Return the request that takes these amounts more, or gives back those that are negative, of what was taken when
    the bucket had so many shards.
    """
    unchecked = {name: amount for name, amount in amounts.items() if amount > 0}
    given = {name: -amount for name, amount in amounts.items() if amount < 0}
    made = BucketRequest(queue, unchecked=unchecked, given=given, config=config, shards=shards)
    made.defers = bool(unchecked)
    return made


def counts(state: BucketState | None, name: str) -> bool:
    """Return whether a bucket counts what is consumed of a name, with a limit or without."""
    return state is not None and bucket_attributes(name).consumed in state.item


class RefusalCount(BucketRequest):
    """A request that moves nothing: its write is for the refusals of the bucket that no other write has counted.

    ``reminds``: it is a reminder, and writes only what is due. With a ``config`` it makes a bucket that is not there.
    """

    def __init__(self, queue: "RunQueue", config: Config | None = None, *, reminds: bool = False) -> None:
        super().__init__(queue, config=config)
        self.reminds = reminds


def renewal(queue: "RunQueue", config: Config | None, purpose: Purpose) -> BucketRequest:
    """Return a request that moves nothing: its write is for what this process holds of the bucket.

    It renews the prefetch; or counts what was served, once no reservation is left; or ends the prefetch now.
    """
    request = BucketRequest(queue, config=config)
    request.purpose = purpose
    return request


def slot_renewal(queue: "RunQueue", config: Config | None, held: HeldSlots) -> BucketRequest:
    """Return the request that renews the slots which this process holds, and frees those that have ended."""
    request = BucketRequest(queue, config=config)
    request.slots = Renewing(held)
    return request


class ShardReturn(NamedTuple):
    """Amounts that go back to ``shard``, when the bucket had ``shards`` of them, with what is counted beside."""

    shard: int
    shards: int
    given: Mapping[str, int]
    counts: Tally = NO_TALLY

    def request_on(self, queue: "RunQueue") -> BucketRequest:
        """Return the request that gives them back."""
        return BucketRequest(queue, given=self.given, counts=self.counts, shards=self.shards)


class KnownShard(Protocol):
    """A shard as this process saw it last; without a state, it was not seen."""

    @property
    def id(self) -> BucketId: ...

    @property
    def state(self) -> BucketState | None: ...


class RunQueue:
    """A queue whose requests are served together: while one run is at work, new requests wait for the next.

    ``server``: the driver's mark of the task or thread that serves the queue, ``None`` while none does. ``lingers``:
    the server waits for new requests, and no run is at work. ``prefetch``: what this process has prefetched of the
    bucket, if its limits allow that; ``slots``: those that its leases hold. ``shard``: the one that its requests are
    for, if it is the queue of one. ``undecided``: the requests of calls that other buckets may still refuse.
    ``running``: those of the run at work. ``serve``: the flow of a run, which ``work`` begins.
    """

    __slots__ = ("__dict__", "_serve", "lingers", "prefetch", "running", "server", "slots", "waiting")

    undecided = Lazily[set[BucketRequest]](lambda _: set())

    def __init__(self, serve: Callable[..., Generator[Any, Any, None]]) -> None:
        self._serve = serve
        self.waiting: dict[Any, None] = {}  # in order; a dict, so that a waiter leaves fast
        self.server: Any = None
        self.lingers = False
        self.prefetch: Prefetch | None = None
        self.slots: HeldSlots | None = None
        self.running: Sequence[Any] = ()

    def work(self, batch: Sequence[Any]) -> Generator[Any, Any, None]:
        """Begin a run for these requests."""
        return self._serve(batch)

    @property
    def shard(self) -> KnownShard | None:
        """The shard whose queue it is; ``None`` for any other queue."""
        return None

    def held(self, config: Config | None = None) -> Mapping[str, int]:
        """Return what this process has prefetched of the bucket, in millitokens by limit, for no other process;
        nothing, if it holds that by other limits than those of a ``config``.
        """
        prefetch = self.prefetch
        return NOTHING if prefetch is None or (config is not None and not prefetch.goes_by(config)) else prefetch.left()

    @property
    def busy(self) -> bool:
        """Whether a run is at work."""
        return self.server is not None and not self.lingers

    def block_behind(self, refused: Iterable[Waiter]) -> None:
        """Mark the waiters that stand in a line behind one of these, so that the next run refuses them."""
        first = min((waiter.turn for waiter in refused if waiter.turn), default=None)
        for waiter in list(self.waiting) if first is not None else ():
            waiter.blocked = waiter.blocked or waiter.turn > first

    def take(self) -> list[Any]:
        """Remove and return the requests of the next run: the first, and all that go with it, in order of turn."""
        waiting = self.waiting
        first = next(iter(waiting))
        if len(waiting) == 1:
            waiting.clear()
            self.running = [first]
            return [first]
        batch = [waiter for waiter in waiting if first.goes_with(waiter)]
        if any(waiter.turn for waiter in batch):  # those that wake in the same moment come in any order
            batch.sort(key=attrgetter("turn"))
        if len(batch) == len(waiting):
            waiting.clear()
        else:
            for waiter in batch:
                del waiting[waiter]
        self.running = batch
        return batch

    def may_return(self) -> "list[BucketRequest]":
        """Return the requests by which something may come back: the undecided ones that took something or are about to,
        and those that wait to give it back.
        """
        if not self.undecided and not self.waiting:
            return []
        found = [each for each in list(self.undecided) if each.took]
        found += [each for each in self.running if each.outcome is None and each in self.undecided]
        return found + [each for each in list(self.waiting) if isinstance(each, BucketRequest) and each.given]

    def coming_back(self) -> Mapping[str, int]:
        """Return what requests under way give back, in millitokens by limit."""
        found: Mapping[str, int] = NOTHING
        for each in (*self.waiting, *self.running):
            if each.outcome is None and isinstance(each, BucketRequest) and each.given:
                found = sums(found, each.given)
        return found


def fail(waiters: Iterable[Waiter], error: StoreError) -> None:
    """Settle the waiters that a run left behind when it broke or was cut off, so that none waits for ever."""
    for waiter in waiters:
        waiter.fail(error)


def broken(problem: Exception) -> StoreError:
    """Return the error for a run that an unexpected exception ended."""
    error = StoreError(f"{type(problem).__name__}: {problem}")
    error.__cause__ = problem
    return error


class Losses:
    """The log lines of tokens that failed give-backs lost, at most one a minute: an outage loses those of each call."""

    def __init__(self) -> None:
        self._lines = LogThrottle()

    def line(self, waiter: Waiter) -> str | None:
        """Return the line for a waiter that has failed; ``None`` if it lost nothing, or no line is due."""
        outcome = waiter.outcome
        if outcome is None or outcome.error is None or not isinstance(waiter, BucketRequest) or not waiter.given:
            return None
        ending, shard = self._lines.ending(round(elapsed_ms())), waiter.queue.shard
        if ending is None:
            return None
        where = "a bucket" if shard is None else shard.id
        return f"{where}: {in_tokens(waiter.given)} were not given back: {outcome.error}{ending}"


def in_tokens(amounts: Mapping[str, int]) -> str:
    """Return amounts of millitokens in words: ``10 of rpm, 2.5 of tpm``."""
    parts = ((name, f"{amount / MILLI:.3f}".rstrip("0").rstrip(".")) for name, amount in amounts.items())
    return ", ".join(f"{number} of {name}" for name, number in parts)
