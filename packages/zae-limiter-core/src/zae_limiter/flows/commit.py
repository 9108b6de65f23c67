"""Group commit: one run serves all entries that waited for a bucket, in one write where they fit.

Lives here: what is done about each answer. Never: who fits (batch), what is written (frames), waiting (drivers).
"""

from collections.abc import Iterator, Mapping, Sequence

from ..operations.errors import ConditionFailed, StoreError, Throttled
from ..operations.values import NOTHING, Get, Item, Put, Update
from ..resolution import Config
from ..schema.items import View, bucket_attributes
from .batch import Draft, Load, expires_at, weigh
from .frames import Frame, New, Ordinary, Reshape, expires
from .lane import Entry, Outcome, Verdict
from .scope import Scope, Shadow
from .steps import Flow, Sleep

ATTEMPTS = 16
PAUSES = (0.02, 0.05, 0.1, 0.2)


class RaceLost(StoreError):
    """Other processes changed the bucket between every attempt and the next."""

    def __init__(self) -> None:
        super().__init__(f"the bucket was changed by others during each of {ATTEMPTS} attempts")


def commit(scope: Scope, shadow: Shadow, entries: Sequence[Entry]) -> Flow[None]:
    """Settle every entry."""
    run = _Run(scope, shadow, entries)
    for _ in range(ATTEMPTS):
        if not run.pending:
            return
        yield from run.attempt()
    run.settle(run.pending, "failed", RaceLost())


class _Run:
    """One run of the lane: what is still pending, and what its own answers have shown so far."""

    def __init__(self, scope: Scope, shadow: Shadow, entries: Sequence[Entry]) -> None:
        self.scope = scope
        self.shadow = shadow
        self.pending: Sequence[Entry] = entries
        self.config: Config | None = next((entry.config for entry in entries if entry.config is not None), None)
        self.slack: frozenset[str] = frozenset()
        self.now_ms = 0
        self._pauses: Iterator[float] = iter(PAUSES)

    def attempt(self) -> Flow[None]:
        """Pick a write by the last seen state, send it, settle whom the answer tells about."""
        self.now_ms = self.scope.now()
        if self.shadow.view is None and self._drop_corrections():
            return
        frame = self.frame()
        load = self._weigh_before(frame)
        if load is None:
            return
        if load.moves_nothing and not frame.reshapes:
            yield from self._judge_amounts_of_zero(frame, load)
        else:
            yield from self._send(frame, load)

    def frame(self) -> Frame:
        """The kind of write that the last seen state asks for."""
        shadow, config, view = self.shadow, self.config, self.shadow.view
        multiplier = self.scope.settings.ttl_multiplier
        if view is None:
            if config is None:
                raise AssertionError("an entry that consumes carries its config")
            return New(shadow, self.now_ms, multiplier, config)
        if config is not None and not shadow.agrees_with(config) and self._consumes():
            if config.read_at_ms > view.item["cv"]:
                return Reshape(shadow, view, self.now_ms, multiplier, config)
            self.scope.configs.expire(shadow.id.entity_id, shadow.id.resource)
        return Ordinary(shadow, view, self.now_ms, multiplier, config, self.slack)

    def settle(
        self,
        entries: Sequence[Entry],
        verdict: Verdict,
        error: StoreError | None = None,
        *,
        left: Mapping[str, int] = NOTHING,
    ) -> None:
        """Give the entries their outcome, by the state seen last."""
        if not entries:
            return
        outcome = Outcome(verdict, self.shadow.view, self.now_ms, error, left)
        for entry in entries:
            entry.outcome = outcome
        if entries is self.pending:
            self.pending = ()
        else:
            self.pending = [entry for entry in self.pending if entry.outcome is None]

    def _consumes(self) -> bool:
        return any(entry.checked for entry in self.pending)

    def _drop_corrections(self) -> bool:
        """Without a bucket there is nothing to give back to: it was full when it expired."""
        self.settle([entry for entry in self.pending if entry.given and not entry.unchecked], "admitted")
        return not self.pending

    def _weigh_before(self, frame: Frame) -> Load | None:
        """Who is to be carried; refuses on the spot whom no answer could help, and whom a fresh copy rules out."""
        room, ceilings = frame.room, frame.ceilings
        self.settle([entry for entry in self.pending if not entry.checked.keys() <= room.keys()], "outdated")
        for entry in self.pending:
            entry.trim(room)
        hopeless = [e for e in self.pending if any(amount > ceilings[name] for name, amount in e.checked.items())]
        if hopeless and not frame.reshapes:
            self.settle(hopeless, "refused", left=room)
        load = weigh(self.pending, room, ceilings)
        if load.short and not frame.reshapes:
            if self._fresh():
                self.settle(load.short, "refused", left=load.left(room, ceilings))
            elif not load.carried:
                load.carry(load.short.pop(0))
        return load if load.carried or (frame.reshapes and self.pending) else None

    def _fresh(self) -> bool:
        return self.now_ms - self.shadow.seen_at_ms < self.scope.settings.staleness_ms

    def _judge_amounts_of_zero(self, frame: Frame, load: Load) -> Flow[None]:
        if not (self._fresh() or isinstance(frame, New)):
            try:
                item = yield Get(self.shadow.key)
            except StoreError as error:
                return self.settle(self.pending, "failed", error)
            self.shadow.learn(item, self.now_ms, own_writes=0)
            return self._settle_by_answer()
        self.settle(load.carried, "admitted")

    def _send(self, frame: Frame, load: Load) -> Flow[None]:
        operation = frame.write(load)
        try:
            item = yield operation
        except ConditionFailed as failure:
            self._learn_from_failure(frame, load, failure.item)
            self._settle_by_answer()
        except Throttled as error:
            yield from self._pause(error)
        except StoreError as error:
            self.settle(self.pending, "failed", error)
        else:
            yield from self._learn_from_success(frame, load, item, operation)

    def _pause(self, error: Throttled) -> Flow[None]:
        """Not applied: decide again a little later."""
        pause = next(self._pauses, None)
        if pause is None:
            self.settle(self.pending, "failed", error)
        else:
            yield Sleep(pause)

    def _learn_from_failure(self, frame: Frame, load: Load, item: Item | None) -> None:
        view = self.shadow.learn(item, self.now_ms, own_writes=0)
        if view is None or not isinstance(frame, Ordinary) or view.anchor_ms != frame.view.anchor_ms:
            return
        for name in load.limits():
            stand = frame.stands[name]
            if stand.full:
                below = view.tokens_milli(name) + stand.minted < stand.ceiling
                self.shadow.judge(name, was_below=below)
        if not self.shadow.alone:
            self.slack |= {name for name, bound in _bounds(frame).items() if view.tokens_milli(name) > bound}

    def _learn_from_success(self, frame: Frame, load: Load, item: Item | None, operation: Put | Update) -> Flow[None]:
        view = self.shadow.learn(operation.item if isinstance(operation, Put) else item, self.now_ms, own_writes=1)
        if view is not None and isinstance(frame, Ordinary):
            for name in load.limits():
                self._judge_taken(frame, load, name, view)
        self.settle(load.carried, "admitted")
        if view is not None:
            yield from self._prolong(view)
        self._settle_by_answer()

    def _judge_taken(self, frame: Ordinary, load: Load, name: str, view: View) -> None:
        stand = frame.stands.get(name)
        if stand is not None and stand.full:
            stood = view.tokens_milli(name) + load.net(name) + stand.minted
            below = bucket_attributes(name).tk in frame.upper and stood < stand.ceiling
            self.shadow.judge(name, was_below=below)

    def _settle_by_answer(self) -> None:
        """Refuse what does not fit the state that the answer showed, at the instant of the write; keep the rest."""
        if not self.pending or self.shadow.view is None:
            return
        frame = self.frame()
        if frame.reshapes:
            return
        known = [entry for entry in self.pending if entry.checked.keys() <= frame.room.keys()]
        load = weigh(known, frame.room, frame.ceilings)
        if load.short:
            self.settle(load.short, "refused", left=load.left(frame.room, frame.ceilings))

    def _prolong(self, view: View) -> Flow[None]:
        """Write a ``ttl`` again that comes before the bucket is full: others consumed what we had not seen."""
        multiplier, now = self.scope.settings.ttl_multiplier, self.now_ms
        if self.shadow.alone or self.config is None or "ttl" not in view.item:
            return
        if not expires(self.config, multiplier, view.item["shard_count"]):
            return
        frame = Ordinary(self.shadow, view, now, multiplier, self.config, frozenset())
        deficits = [(view.shapes[name].limit, stand.ceiling - stand.room) for name, stand in frame.stands.items()]
        if view.item["ttl"] >= expires_at(now, 1, deficits) - 60:
            return
        draft = Draft(set={"ttl": expires_at(now, multiplier, deficits)}, equals={"rf": view.anchor_ms})
        draft.count_consumption(Load())
        try:
            item = yield draft.update(self.shadow.key)
        except StoreError:
            return  # the next write sets it
        self.shadow.learn(item, now, own_writes=1)


def _bounds(frame: Ordinary) -> dict[str, int]:
    """The upper bounds of row ADD, by limit."""
    by_attribute = {bucket_attributes(name).tk: name for name in frame.stands}
    return {by_attribute[attribute]: bound for attribute, bound in frame.upper.items()}
