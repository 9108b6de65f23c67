"""Processes that take slots of one bucket, in simulated time: some are killed, some stop for long, answers are lost.

Lives here: the processes, what goes wrong, and the ledger that they are compared with. Never: a claim.
"""

from collections.abc import Callable
from random import Random
from typing import Any

from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.exceptions import InfrastructureError
from zae_limiter.flows.acquire import lease
from zae_limiter.flows.acquire.claims import Grant
from zae_limiter.flows.acquire.fallbacks import acquire_with_fallbacks
from zae_limiter.flows.acquire.requests import validate_request
from zae_limiter.flows.bucket_queue import Waiter
from zae_limiter.flows.process.namespace_state import NamespaceState, Settings
from zae_limiter.flows.slots import lost_slots, resume, stall
from zae_limiter.flows.steps import Enqueue, Parallel, Remind, play
from zae_limiter.operations.errors import OutcomeUnknown, StoreError, Throttled
from zae_limiter.operations.values import Get, Item, Key, Operation, Update
from zae_limiter.schema import keys
from zae_limiter.values.limits import Limit
from zae_limiter.values.refusal import RateLimitExceeded

CAPACITY, EXPIRES = 3, 10
LIMITS = (Limit.per_second("rps", 1000), Limit.concurrent("parallel", CAPACITY, expires=EXPIRES))


Change = Callable[[Update], Update]


def unchanged(update: Update) -> Update:
    """Leave a write as it is."""
    return update


class WrongSlots(AssertionError):
    """Slots were given twice, or are gone."""


class Holder:
    """A lease as its caller sees it: the slots it holds, and when it last knew that they are its own."""

    def __init__(self, grant: Grant) -> None:
        self.grant = grant

    def held(self, now_ms: int) -> int:
        held = self.grant.taken_slots
        return sum(each.milli for each in held if not each.is_lost(now_ms) and not each.has_ended(now_ms))


class Life:
    """One process: its leases, and the renewals that are on their way."""

    def __init__(self, world: "SlotWorld") -> None:
        self.world = world
        settings = Settings(on_unavailable="block", ttl_multiplier=1)
        self.state = NamespaceState(
            "default", "ns", stack="s", now=lambda: world.now_ms, settings=settings, pick=world.chance.randrange
        )
        self.holders: list[Holder] = []
        self.due: list[tuple[int, Waiter]] = []
        self.stopped_until = 0

    def take(self, slots: int) -> bool:
        max_hold = self.world.chance.choice((None, None, 0.5, 8, 25))
        what = {"rps": 1, "parallel": slots}
        request = validate_request("e", "r", what, limits=self.world.limits, max_hold=max_hold)
        try:
            grant = self._play(acquire_with_fallbacks(self.state, request))
        except RateLimitExceeded:
            return False
        self.holders.append(Holder(grant))
        return True

    def end(self) -> None:
        """End a lease: some have corrections to write, some have failed, some free a slot beforehand."""
        grant = self.holders.pop(self.world.chance.randrange(len(self.holders))).grant
        how = self.world.chance.random()
        if how < 0.2:
            grant.close()
            self._play(lease.roll_back(self.state, grant))
            return
        if how < 0.4 and grant.consumed["parallel"] >= 1000:
            self._play(lease.free_slots(lease.release(grant, {"parallel": 1})))
        elif how < 0.7:
            lease.adjust(grant, "adjust", {"rps": 1})
        grant.close()
        self._play(lease.correct(self.state, grant))

    def move(self) -> None:
        """Wait for a client to read, or be read."""
        grant = self.world.chance.choice(self.holders).grant
        if self.world.chance.random() < 0.5:
            stall(grant.taken_slots, self.world.now_ms)
        elif not lost_slots(grant.taken_slots, self.world.now_ms):
            resume(grant.taken_slots)

    def renew(self) -> None:
        """Send the renewals that are due."""
        due = [each for each in self.due if each[0] <= self.world.now_ms]
        self.due = [each for each in self.due if each not in due]
        for _, waiter in due:
            self._play(_entering(waiter))

    def _play(self, flow: Any) -> Any:
        return play(flow, self._perform)

    def _perform(self, step: Any) -> Any:
        if isinstance(step, Enqueue):
            return self._play(step.waiter.queue.work([step.waiter]))
        if isinstance(step, Parallel):
            return [self._caught(each) for each in step.steps]
        if isinstance(step, Remind):
            return self.due.append((self.world.now_ms + round(step.seconds * 1000), step.waiter))
        return self.world.answer(step) if isinstance(step, Operation) else None

    def _caught(self, step: Any) -> Any:
        try:
            return self._perform(step)
        except StoreError as error:
            return error


def _entering(waiter: Waiter) -> Any:
    yield Enqueue(waiter)


class SlotWorld:
    """One table, and processes over it. Whatever one of them asks, others may come first."""

    def __init__(self, seed: int, *, processes: int = 4, trouble: float = 0.05, change: Change = unchanged) -> None:
        self.chance = Random(seed)
        self.now_ms = 1_700_000_000_000 + self.chance.randrange(10**6)
        self.limits = LIMITS
        self.table = MemoryTable()
        self.change = change
        self.trouble = trouble
        self.lives = [Life(self) for _ in range(processes)]
        self._depth = 0
        self._busy: list[Life] = []

    @property
    def item(self) -> Item:
        found: Item | None = self.table.execute(Get(Key(keys.pk_bucket("ns", "e", "r", 0), keys.sk_state())))
        return found or {}

    def answer(self, step: Any) -> Any:
        """Answer an operation, perhaps after another process, perhaps with an error."""
        if self._depth < 2 and self.chance.random() < 0.15:
            self._depth += 1
            self.act()
            self._depth -= 1
        if isinstance(step, Update) and self.chance.random() < self.trouble:
            kind = self.chance.randrange(3)
            if kind == 0:
                raise Throttled
            if kind == 1:
                self._executed(step)
            raise OutcomeUnknown("lost")
        return self._executed(step)

    def _executed(self, step: Any) -> Any:
        answer = self.table.execute(self.change(step) if isinstance(step, Update) else step)
        self._check_item()
        return answer

    def act(self) -> None:
        """Let one process do something, by chance."""
        life = self.chance.choice(self.lives)
        if life.stopped_until > self.now_ms or life in self._busy:
            return
        self._busy.append(life)
        try:
            life.renew()
            what = self.chance.random()
            if what < 0.5:
                life.take(self.chance.choice((1, 1, 1, 2)))
            elif what < 0.8 and life.holders:
                life.end()
            elif what < 0.81 and life.holders:
                life.move()
            elif what < 0.84:
                life.stopped_until = self.now_ms + self.chance.randrange(3 * EXPIRES * 1000)
            elif what < 0.86:
                self.lives[self.lives.index(life)] = Life(self)
        except (InfrastructureError, StoreError):
            return
        finally:
            self._busy.remove(life)

    def run(self, steps: int) -> int:
        """Let them live; return how often all slots were taken."""
        full = 0
        for _ in range(steps):
            self.now_ms += self.chance.choice((1, 50, 300, 2_000))
            self.act()
            full += self.check() == CAPACITY * 1000
        return full

    def check(self) -> int:
        """Raise ``WrongSlots`` if holders have more slots than there are; return what they have."""
        held = sum(holder.held(self.now_ms) for life in self.lives for holder in life.holders)
        if held > CAPACITY * 1000:
            raise WrongSlots(f"{held} of {CAPACITY}: {self.item}")
        return held

    def _check_item(self) -> None:
        item = self.item
        if "b_parallel_tk" in item:
            counted = item["b_parallel_he"], item["b_parallel_ho"]
            if item["b_parallel_tk"] + sum(counted) != CAPACITY * 1000 or min(counted) < 0:
                raise WrongSlots(f"the counts are wrong: {item}")

    def all_come_back(self) -> None:
        """Raise ``WrongSlots`` unless every slot is free once all processes are gone for twice ``expires``."""
        self.trouble, self._depth = 0, 2
        self.now_ms += 2 * EXPIRES * 1000
        if not Life(self).take(CAPACITY):
            raise WrongSlots(f"slots are gone: {self.item}")


def live(seed: int, *, steps: int = 300, change: Change = unchanged) -> int:
    """Let processes live a history; return how often all slots were taken."""
    world = SlotWorld(seed, change=change)
    full = world.run(steps)
    world.all_come_back()
    return full
