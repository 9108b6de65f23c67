"""Tokens held ahead, as the oracle keeps them: the blocks of one process by what its writes took, and what they served.

Lives here: what was admitted without a write, and whether the process had it. Never: balances (oracle), intervals
(ahead), what the limiter itself knows of its blocks.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest.mock import patch

from zae_limiter.flows import hold
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

BACK_MS = 1_000  # a clock that goes back by more ends a block


class Served(NamedTuple):
    """What a process admitted, or took back, without a write: when ``instant`` writes had taken effect.

    ``amounts``: by limit, negative where they came back; ``rules``: those of its config, if it had one. ``counted``:
    what was counted beside them, and taken from no block.
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
    """What a batch draws by a config, as plain amounts; a block lives as long as the least ``ahead`` of its limits."""
    write = batch.hold_write
    assert write is not None
    taken = {} if write.block is None else dict(write.block.taken)
    life_ms = 0 if config is None else round(1000 * min(config.ahead.values(), default=0))
    holder = batch.carried[0].queue.hold
    served = dict(write.served.amounts)
    return Drawn(taken, life_ms, dict(write.back), served, write.served.events, holder, dict(write.paid))


class Block:
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


Payment = tuple[Block, str, int]  # what a block gave of a limit


class Ended:
    """The blocks of a shard that had ended when a write was decided, and what came ``back`` of one of their limits."""

    def __init__(self, name: str, decided_ms: int, blocks: Sequence[Block], back: int) -> None:
        self._name = name
        self.decided_ms = decided_ms
        self.blocks = blocks
        self.back = back

    def left(self, now_ms: int) -> int:
        """What may still come back: what was left then, less what was minted since."""
        most = min(self._of_all(self.decided_ms) - self.back, self._of_all(now_ms))
        return max(0, most)

    def _of_all(self, now_ms: int) -> int:
        return sum(_comes_back(block, self._name, now_ms) for block in self.blocks)


class Blocks:
    """The blocks of one process, by holder. ``steady``: its clock goes on as time does."""

    def __init__(self, kernel: Kernel, steady: bool) -> None:  # noqa: FBT001
        self._kernel = kernel
        self._steady = steady
        self._blocks: dict[object, list[Block]] = {}
        self._paying: dict[int, tuple[object, list[Payment]]] = {}
        self._sent_us: dict[Application, int] = {}
        self._ended: dict[tuple[object, str, str, int], list[Ended]] = {}  # by holder, shard, limit and anchor

    def pays(self, operation: object, drawn: Drawn, bucket: str, now_ms: int) -> None:
        """A write is sent, some of whose callers are paid by what is held."""
        self._paying[id(operation)] = operation, _take(self._live(drawn.holder, now_ms), drawn.paid, bucket)

    def not_applied(self, operation: object) -> None:
        """The process knows that a write was not applied: the blocks that paid for it have that again. Of a block that
        has ended meanwhile it may come back to the bucket.
        """
        _, payments = self._paying.pop(id(operation), (operation, []))
        for block, name, part in payments:
            block.left[name] = min(block.left[name] + part, block.taken[name])

    def _live(self, holder: object, now_ms: int) -> list[Block]:
        return [block for block in self._blocks.get(holder, ()) if block.lives(now_ms, self._kernel.now_us)]

    def wrote(self, write: Application, sent_us: int) -> None:
        """A write took effect that draws; nobody may know yet. Raises ``Violation`` where it brought back too much.

        What comes back of a block that ended is less by what was minted since it was taken: the bucket may have that.
        Under another anchor it is nothing: the bucket may be another one, or was filled.
        Nobody knows of which blocks a write brings something back; so a write that takes effect late may bring what a
        later one has left of the same blocks, also of a limit of which that brought nothing, and a later one what an
        earlier one left: another write was on its way with that, which failed.
        """
        self._sent_us[write] = sent_us
        assert write.drawn is not None
        if not write.drawn.back:
            return
        blocks = self._blocks.get(write.drawn.holder, [])
        here = {name: change.state for name, change in write.changes.items()}
        ended = [
            block
            for block in blocks
            if block.pk == write.pk
            and block.known_us <= sent_us  # a write that takes effect late knows nothing of later blocks
            and not block.lives(write.decided_ms, sent_us)
            and all(_same_shard(here.get(name), state) for name, state in block.states.items())
        ]
        of_ended = {name: 0 for block in ended for name in block.taken}
        for name, back in {**of_ended, **write.drawn.back}.items():
            before = self._ended.setdefault((write.drawn.holder, write.pk, name, here[name].anchor_ms), [])
            later = [each for each in before if each.decided_ms > write.decided_ms]
            known = [*ended, *(block for each in later for block in each.blocks)]
            most = sum(_comes_back(block, name, write.decided_ms) for block in known) - sum(each.back for each in later)
            too_much = back - most
            for each in before if too_much > 0 else ():
                part = min(too_much, 0 if each in later else each.left(write.decided_ms))
                each.back, too_much = each.back + part, too_much - part
            before.append(Ended(name, write.decided_ms, ended, back))
            if too_much > 0 and self._steady:
                raise Violation(f"{back} of {name} came back to {write.pk} of blocks that had {most} left for it")
        self._blocks[write.drawn.holder] = [block for block in blocks if block not in ended]

    def confirmed(self, write: Application) -> None:
        """The process has the answer of a write: it may spend the block. Blocks of other rules are void by now."""
        if write.drawn is None or not write.drawn.taken:
            return
        rules = {name: change.state.rule._replace(times=()) for name, change in write.changes.items()}
        blocks = self._blocks.get(write.drawn.holder, [])
        blocks = [block for block in blocks if block.rules.items() <= rules.items()]
        blocks.append(Block(write, write.drawn, self._sent_us[write], self._kernel.now_us))
        self._blocks[write.drawn.holder] = blocks

    def spend(self, served: Served, now_ms: int) -> None:
        """Raises ``Violation`` where live blocks of the same rules do not have what was admitted by them, or had not
        had what they take back.
        """
        live = [
            block
            for block in self._live(served.holder, now_ms)
            if served.rules is None or block.rules.items() <= served.rules.items()
        ]
        _take(live, served.amounts, served.bucket)


def _take(blocks: Sequence[Block], amounts: Mapping[str, int], bucket: str) -> list[Payment]:
    """Take the amounts, the oldest block first, or bring back negative ones, the newest first."""
    payments = []
    for name, amount in amounts.items():
        rest = amount
        for block in blocks if amount > 0 else reversed(blocks):
            left, taken = block.left.get(name, 0), block.taken.get(name, 0)
            part = min(rest, left) if amount > 0 else max(rest, left - taken)
            if part:
                block.left[name] = left - part
                payments.append((block, name, part))
                rest -= part
        if rest:
            raise Violation(f"{amount} of {name} were served by what is held of {bucket}: {rest} too many")
    return payments


def _same_shard(state: LimitState | None, before: LimitState) -> bool:
    if state is None or state.anchor_ms != before.anchor_ms:
        return False
    return (state.rule, state.shards) == (before.rule, before.shards)


def _comes_back(block: Block, name: str, now_ms: int) -> int:
    if name not in block.left:
        return 0
    state = block.states[name]
    minted = state.balance(now_ms) - state.balance(block.taken_ms)
    return max(0, block.left[name] - max(0, minted))


class Held:
    """Sees what is served without a write, in all processes, and gives holds the time and the forks of the history."""

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
        real = BucketRequest.is_served_by_hold

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
            patch.object(hold, "elapsed_ms", self.elapsed_ms),
            patch.object(hold, "forks", self),
            patch.object(BucketRequest, "is_served_by_hold", is_served),
        ):
            yield


def rules_of(config: Config | None) -> Mapping[str, Rule] | None:
    """The rules of a config."""
    return None if config is None else {limit.name: rule_of(limit) for limit in config.limits}
