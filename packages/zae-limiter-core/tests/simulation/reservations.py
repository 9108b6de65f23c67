"""Prefetched tokens, as the oracle keeps them: the reservations of one process by what its writes took, and what they
served.

Lives here: what was admitted without a write, and whether the process had it. Never: balances (oracle), intervals
(prefetch), what the limiter itself knows of its reservations.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest.mock import patch

from zae_limiter.flows import prefetch
from zae_limiter.flows.acquire import taking
from zae_limiter.flows.bucket.batch import Batch
from zae_limiter.flows.bucket_queue import BucketRequest
from zae_limiter.flows.steps import Flow
from zae_limiter.operations.values import NOTHING
from zae_limiter.values.resolution import Config

from .application import Application, Drawn
from .bucket_items import LimitState, Rule, rule_of
from .kernel import Kernel, Violation
from .seams import Seams

if TYPE_CHECKING:
    from .driver import Driver

BACK_MS = 1_000  # a clock that goes back by more ends a reservation


class Served(NamedTuple):
    """What a process admitted, or took back, without a write: when ``instant`` writes had taken effect.

    ``amounts``: by limit, negative where they came back; ``rules``: those of its config, if it had one. ``counted``:
    what was counted beside them, and taken from no reservation.
    """

    bucket: str
    instant: int
    at_ms: int
    amounts: Mapping[str, int]
    events: int
    rules: Mapping[str, Rule] | None
    holder: object
    counted: Mapping[str, int] = NOTHING


def drawn(batch: Batch, config: Config | None) -> Drawn:
    """What a batch draws by a config, as plain amounts; a reservation lives as long as the least ``prefetch`` of its
    limits.
    """
    write = batch.prefetch_write
    assert write is not None
    taken = {} if write.reservation is None else dict(write.reservation.taken)
    life_ms = 0 if config is None else round(1000 * min(config.prefetch.values(), default=0))
    holder = batch.carried[0].queue.prefetch
    served = dict(write.served.amounts)
    return Drawn(taken, life_ms, dict(write.back), served, write.served.events, holder, dict(write.paid))


class Reservation:
    """What one confirmed write took to be held: what is ``left`` of those ``taken``."""

    def __init__(self, write: Application, drawn: Drawn, sent_us: int, known_us: int) -> None:
        self.pk = write.pk
        self.taken = drawn.taken
        self.left = dict(drawn.taken)
        self.states = {name: write.changes[name].state for name in drawn.taken}
        self.taken_ms = write.decided_ms
        self.sent_us = sent_us
        self.known_us = known_us
        self.life_ms = drawn.life_ms

    @property
    def rules(self) -> Mapping[str, Rule]:
        """The rules of its limits."""
        return {name: state.rule._replace(times=()) for name, state in self.states.items()}

    def lives(self, now_ms: int, now_us: int) -> bool:
        """Whether it may still be spent, by the clock of its process and by the time that has passed."""
        by_clock = self.taken_ms - BACK_MS <= now_ms < self.taken_ms + self.life_ms
        return by_clock and now_us < self.sent_us + 1000 * self.life_ms


Payment = tuple[Reservation, str, int]  # what a reservation gave of a limit


class Ended:
    """The reservations of a shard that had ended when a write was decided, and what came ``back`` of one of their
    limits.
    """

    def __init__(self, name: str, decided_ms: int, reservations: Sequence[Reservation], back: int) -> None:
        self._name = name
        self.decided_ms = decided_ms
        self.reservations = reservations
        self.back = back

    def left(self, now_ms: int) -> int:
        """What may still come back: what was left then, less what was minted since."""
        most = min(self._of_all(self.decided_ms) - self.back, self._of_all(now_ms))
        return max(0, most)

    def _of_all(self, now_ms: int) -> int:
        return sum(_comes_back(reservation, self._name, now_ms) for reservation in self.reservations)


class Reservations:
    """The reservations of one process, by holder. ``steady``: its clock goes on as time does."""

    def __init__(self, kernel: Kernel, steady: bool) -> None:  # noqa: FBT001
        self._kernel = kernel
        self._steady = steady
        self._reservations: dict[object, list[Reservation]] = {}
        self._paying: dict[int, tuple[object, list[Payment]]] = {}
        self._sent_us: dict[Application, int] = {}
        self._ended: dict[tuple[object, str, str, int], list[Ended]] = {}  # by holder, shard, limit and anchor

    def pays(self, operation: object, drawn: Drawn, bucket: str, now_ms: int) -> None:
        """A write is sent, some of whose callers are paid by what is held."""
        self._paying[id(operation)] = operation, _take(self._live(drawn.holder, now_ms), drawn.paid, bucket)

    def not_applied(self, operation: object) -> None:
        """The process knows that a write was not applied: the reservations that paid for it have that again. Of a
        reservation that has ended meanwhile it may come back to the bucket.
        """
        _, payments = self._paying.pop(id(operation), (operation, []))
        for reservation, name, part in payments:
            reservation.left[name] = min(reservation.left[name] + part, reservation.taken[name])

    def _live(self, holder: object, now_ms: int) -> list[Reservation]:
        return [
            reservation
            for reservation in self._reservations.get(holder, ())
            if reservation.lives(now_ms, self._kernel.now_us)
        ]

    def wrote(self, write: Application, sent_us: int) -> None:
        """A write took effect that draws; nobody may know yet. Raises ``Violation`` where it brought back too much.

        What comes back of a reservation that ended is less by what was minted since it was taken: the bucket may have
        that. Under another anchor it is nothing: the bucket may be another one, or was filled. Nobody knows of which
        reservations a write brings something back; so a write that takes effect late may bring what a later one has
        left of the same reservations, also of a limit of which that brought nothing, and a later one what an earlier
        one left: another write was on its way with that, which failed.
        """
        self._sent_us[write] = sent_us
        assert write.drawn is not None
        if not write.drawn.back:
            return
        reservations = self._reservations.get(write.drawn.holder, [])
        here = {name: change.state for name, change in write.changes.items()}
        ended = [
            reservation
            for reservation in reservations
            if reservation.pk == write.pk
            and reservation.known_us <= sent_us  # a write that takes effect late knows nothing of later reservations
            and not reservation.lives(write.decided_ms, sent_us)
            and all(_same_shard(here.get(name), state) for name, state in reservation.states.items())
        ]
        of_ended = {name: 0 for reservation in ended for name in reservation.taken}
        for name, back in {**of_ended, **write.drawn.back}.items():
            before = self._ended.setdefault((write.drawn.holder, write.pk, name, here[name].anchor_ms), [])
            later = [each for each in before if each.decided_ms > write.decided_ms]
            known = [*ended, *(reservation for each in later for reservation in each.reservations)]
            most = sum(_comes_back(reservation, name, write.decided_ms) for reservation in known) - sum(
                each.back for each in later
            )
            too_much = back - most
            for each in before if too_much > 0 else ():
                part = min(too_much, 0 if each in later else each.left(write.decided_ms))
                each.back, too_much = each.back + part, too_much - part
            before.append(Ended(name, write.decided_ms, ended, back))
            if too_much > 0 and self._steady:
                raise Violation(f"{back} of {name} came back to {write.pk} of reservations that had {most} left for it")
        self._reservations[write.drawn.holder] = [
            reservation for reservation in reservations if reservation not in ended
        ]

    def confirmed(self, write: Application) -> None:
        """The process has the answer of a write: it may spend the reservation. Reservations of other rules are void by
        now.
        """
        if write.drawn is None or not write.drawn.taken:
            return
        rules = {name: change.state.rule._replace(times=()) for name, change in write.changes.items()}
        reservations = self._reservations.get(write.drawn.holder, [])
        reservations = [reservation for reservation in reservations if reservation.rules.items() <= rules.items()]
        reservations.append(Reservation(write, write.drawn, self._sent_us[write], self._kernel.now_us))
        self._reservations[write.drawn.holder] = reservations

    def spend(self, served: Served, now_ms: int) -> None:
        """Raises ``Violation`` where live reservations of the same rules do not have what was admitted by them, or had
        not had what they take back.
        """
        live = [
            reservation
            for reservation in self._live(served.holder, now_ms)
            if served.rules is None or reservation.rules.items() <= served.rules.items()
        ]
        _take(live, served.amounts, served.bucket)


def _take(reservations: Sequence[Reservation], amounts: Mapping[str, int], bucket: str) -> list[Payment]:
    """Take the amounts, the oldest reservation first, or bring back negative ones, the newest first."""
    payments = []
    for name, amount in amounts.items():
        rest = amount
        for reservation in reservations if amount > 0 else reversed(reservations):
            left, taken = reservation.left.get(name, 0), reservation.taken.get(name, 0)
            part = min(rest, left) if amount > 0 else max(rest, left - taken)
            if part:
                reservation.left[name] = left - part
                payments.append((reservation, name, part))
                rest -= part
        if rest:
            raise Violation(f"{amount} of {name} were served by what is held of {bucket}: {rest} too many")
    return payments


def _same_shard(state: LimitState | None, before: LimitState) -> bool:
    if state is None or state.anchor_ms != before.anchor_ms:
        return False
    return (state.rule, state.shards) == (before.rule, before.shards)


def _comes_back(reservation: Reservation, name: str, now_ms: int) -> int:
    if name not in reservation.left:
        return 0
    state = reservation.states[name]
    minted = state.balance(now_ms) - state.balance(reservation.taken_ms)
    return max(0, reservation.left[name] - max(0, minted))


class Held:
    """Sees what is served without a write, in all processes, and gives prefetches the time and the forks of the
    history.
    """

    def __init__(self, kernel: Kernel, seams: Seams) -> None:
        self._kernel = kernel
        self._seams = seams
        self.driver: Driver | None = None  # whose flow runs

    @property
    def generation(self) -> int:
        """The number of forks before the process that runs."""
        return self._seams.forks(0 if self._kernel.acting is None else self._kernel.acting.generation)

    def elapsed_ms(self) -> float:
        """The time that nobody stops."""
        return self._seams.elapsed_ms(self._kernel.now_us / 1000)

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Note meanwhile what is served."""
        real = BucketRequest.is_served_by_prefetch

        def is_served(request: Any) -> bool:
            served: bool = real(request)
            if served:
                assert self.driver is not None, "a flow of some process asks"
                self.driver.served(request)
            return served

        until_decided = vars(taking)["until_decided"]  # of a fault, where one is played

        def asks_again(*args: Any) -> Flow[bool]:
            again: bool = yield from until_decided(*args)
            if again and self.driver is not None:
                self.driver.asks_again()
            return again

        with (
            patch.object(taking, "until_decided", asks_again),
            patch.object(prefetch, "elapsed_ms", self.elapsed_ms),
            patch.object(prefetch, "forks", self),
            patch.object(BucketRequest, "is_served_by_prefetch", is_served),
        ):
            yield


def rules_of(config: Config | None) -> Mapping[str, Rule] | None:
    """The rules of a config."""
    return None if config is None else {limit.name: rule_of(limit) for limit in config.limits}
