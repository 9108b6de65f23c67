"""Group commit: one run serves all entries that waited for a bucket, in one write where they fit.

Lives here: what is done about each answer. Never: who fits (batch), what is written (frames), waiting (drivers).
"""

from collections.abc import Mapping, Sequence

from ...operations.errors import ConditionFailed, Conflict, StoreError, Throttled
from ...operations.values import NOTHING, Get, Item, Put, Update
from ...resolution import Config
from ...schema.items import View, bucket_attributes
from ...token_bucket import reached_at
from ..process.bucket_queue import Entry, Outcome, Verdict
from ..process.namespace_state import Scope, Shadow
from ..retry import ATTEMPTS, PAUSES, RACE_PAUSES, RaceLost
from ..steps import Flow, Sleep
from .anchor_repair import repair
from .batch import Draft, Load, weigh
from .contest import insists
from .fast_path import lone_update
from .limit_removal import Crowded, excess, make_room
from .splitting import appear
from .write_plans import Frame, New, Ordinary, Reshape, expires_at


def commit(scope: Scope, shadow: Shadow, entries: Sequence[Entry]) -> Flow[None]:
    """Settle every entry."""
    view, now_ms = shadow.view, scope.now()
    write = lone_update(scope, shadow, view=view, entries=entries, now_ms=now_ms)
    if write is None:
        return (yield from _serve(_Run(scope, shadow, entries), attempts=ATTEMPTS))
    failure: StoreError | None = None
    try:
        answer = yield write
    except StoreError as error:
        failure = error
    else:
        entries[0].outcome = Outcome("admitted", shadow.learn(answer, now_ms, own_writes=1), now_ms)
        if shadow.alone:
            return
    run = _Run(scope, shadow, entries)
    run.see_as_batch(view, now_ms)
    if failure is None:
        yield from run.prolong()
    else:
        yield from run.failed(failure)
        yield from _serve(run, attempts=ATTEMPTS - 1)


def _serve(run: "_Run", *, attempts: int) -> Flow[None]:
    answered = False
    for _ in range(attempts):
        if not (yield from run.prepare()):
            continue
        operation = run.decide() if run.pending else None
        if operation is None:
            break
        try:
            answer = yield operation
        except StoreError as error:
            yield from run.failed(error)
        else:
            run.answered(operation, answer)
            answered = True
    else:
        run.settle(run.pending, "failed", RaceLost())
    if answered and not run.shadow.alone:
        yield from run.prolong()


def _is_newer(config: Config, view: View) -> bool:
    """Whether the config decides over the bucket's shape: it was read since, or holds now."""
    return config.given or config.read_at_ms > view.item["cv"]


class _Run:
    """One run of a bucket's lane: who is still pending, and what its own answers have shown so far.

    ``seen``: one of them has shown the bucket, there or absent. What was seen before may be older than what now comes
    back, so that nothing is dropped by it. ``lost``: how many races.
    """

    config: Config | None = None
    slack: frozenset[str] = frozenset()
    seen = False
    lost = 0
    reshapes_lost = 0
    now_ms = 0
    frame: Frame
    load: Load

    def __init__(self, scope: Scope, shadow: Shadow, entries: Sequence[Entry]) -> None:
        self.scope = scope
        self.shadow = shadow
        self.pending: Sequence[Entry] = entries
        self.pauses = iter(PAUSES)
        for entry in entries:  # all with the same limits
            if entry.config is not None and (self.config is None or entry.config.is_newer_than(self.config)):
                self.config = entry.config

    def prepare(self) -> Flow[bool]:
        """Whether there is a shard that can be written: one that was found, and whose anchor no wrong clock has set."""
        shadow = self.shadow
        try:
            if shadow.view is None and shadow.id.shard:
                yield from self._find_shard()
            now = self.scope.now()
            if shadow.view is not None and shadow.view.is_ahead(now):
                item, writes = yield from repair(shadow.view, now)
                self._learn(item, now, own_writes=writes)
                if not writes:
                    yield from self._lose()
                return writes > 0
            return (yield from self._make_room(now))
        except StoreError as error:
            yield from self.failed(error)
            return not self.pending

    def _make_room(self, now_ms: int) -> Flow[bool]:
        """Whether the bucket has a place for the limits of the config, where they are to be its own."""
        view, config = self.shadow.view, self.config
        if view is None or config is None or not excess(view, config) or not self._is_to_reshape(view, config):
            return True
        try:
            return (yield from make_room(self.shadow, config, now_ms))
        except Crowded as error:
            self.settle([entry for entry in self.pending if entry.checked], "failed", error)
            return True

    def _find_shard(self) -> Flow[None]:
        """Look for a shard that this process has not seen; without it, whoever consumes is to look at the bucket."""
        yield from appear(self.scope, self.shadow)
        self.seen = True
        if self.shadow.view is None:
            self._drop_corrections()
            self.settle(self.pending, "outdated")

    def decide(self) -> Put | Update | Get | None:
        """What to ask of the store, by the last seen state; ``None`` where everybody could be told without."""
        self.now_ms = self.scope.now()
        if self._has_to_look():
            self.load = Load()
            return Get(self.shadow.key)
        if self.shadow.view is None:
            self._drop_corrections()
            if not self.pending:
                return None
        else:
            self._send_on(self.shadow.view.shard_count)
        self.frame = frame = self._frame()
        self._sort_out(frame)
        self.load = load = weigh(self.pending, frame.room, frame.ceilings)
        if frame.reshapes:
            return frame.write(load) if self.pending else None
        if load.short:
            self._refuse_or_probe(load)
        if not load.carried:
            return None
        if load.moves_nothing:
            return self._judge(load)
        return frame.write(load)

    def answered(self, operation: Put | Update | Get, answer: Item | None) -> None:
        """Settle whom the answer tells about."""
        shadow = self.shadow
        if isinstance(operation, Get):
            self._learn(answer, self.now_ms, own_writes=0)
            if shadow.is_ahead(self.now_ms):
                return  # the anchor is repaired first, then they are judged
            self._settle_by_answer()
            self.settle([entry for entry in self.load.carried if entry.outcome is None], "admitted")
            return
        item = operation.item if isinstance(operation, Put) else answer
        self._learn(item, self.now_ms, own_writes=1)
        if self.frame.reshapes and self.config is not None:
            shadow.reshaped = self.config.limits, self.now_ms
        self.settle(self.load.carried, "admitted")
        if self.pending:
            self._settle_by_answer()

    def failed(self, error: StoreError) -> Flow[None]:
        """The write was not applied: try again where that may help."""
        pause = next(self.pauses, None) if isinstance(error, Throttled) else None
        if isinstance(error, Throttled) and not isinstance(error, Conflict):
            self.shadow.pace.throttled()
        if isinstance(error, ConditionFailed):
            self._refused(error.item)
            yield from self._lose()
        elif pause is not None:
            yield Sleep(pause)
        else:
            self.settle(self.pending, "failed", error)

    def _lose(self) -> Flow[None]:
        """Others were first: from the second time on, let them finish."""
        self.lost += 1
        if self.pending and 2 <= self.lost < ATTEMPTS:
            yield Sleep(RACE_PAUSES[self.lost])

    def _refused(self, item: Item | None) -> None:
        """A condition did not hold: settle whom the true state, as of that write, does not fit."""
        view = self._learn(item, self.now_ms, own_writes=0)
        self.reshapes_lost += self.frame.reshapes
        if view is not None and not self.shadow.alone:
            self._note_row_add_above(view)
        self._settle_by_answer()

    def see_as_batch(self, view: View | None, now_ms: int) -> None:
        """See what a lone write was decided from as the rest of the rules does."""
        assert view is not None, "a lone write is to a bucket that was seen"
        self.now_ms = now_ms
        multiplier = self.scope.settings.ttl_multiplier
        self.frame = Ordinary(self.shadow, view, now_ms, multiplier, self.config, self.slack)
        self.load = weigh(self.pending, self.frame.room, self.frame.ceilings)
        self.frame.write(self.load)

    def settle(
        self,
        entries: Sequence[Entry],
        verdict: Verdict,
        error: StoreError | None = None,
        left: Mapping[str, int] = NOTHING,
    ) -> None:
        """Give the entries their outcome, by the state seen last."""
        outcome = Outcome(verdict, self.shadow.view, self.now_ms, error, left)
        for entry in entries:
            entry.outcome = outcome
        if len(entries) == len(self.pending):
            self.pending = ()
        else:
            self.pending = [entry for entry in self.pending if entry.outcome is None]

    def prolong(self) -> Flow[None]:
        """Write a ``ttl`` again that comes before the bucket is full: others consumed what we had not seen."""
        view, config, now = self.shadow.view, self.config, self.now_ms
        multiplier = self.scope.settings.ttl_multiplier
        if view is None or config is None or "ttl" not in view.item:
            return
        frame = Ordinary(self.shadow, view, now, multiplier, config, frozenset())
        shapes = view.shapes.values()
        longest_ms = max(reached_at(s, view.tokens_milli(s.limit.name), s.ceiling_milli) for s in shapes) - now
        ttl = expires_at(frame, config, longest_ms)
        if ttl is None or view.item["ttl"] * 1000 >= now + longest_ms:
            return
        draft = Draft()
        draft.expire(ttl, view.item)
        draft.equals["rf"] = view.anchor_ms
        draft.count_write(Load())
        try:
            item = yield draft.update(self.shadow.key)
        except StoreError:
            return  # the next write sets it
        self.shadow.learn(item, now, own_writes=1)

    def _frame(self) -> Frame:
        """The kind of write that the last seen state asks for."""
        shadow, config, view = self.shadow, self.config, self.shadow.view
        multiplier = self.scope.settings.ttl_multiplier
        if view is None:
            assert config is not None, "an entry that consumes carries its config"
            return New(shadow, self.now_ms, multiplier, config)
        if config is not None and not shadow.agrees_with(config) and any(entry.checked for entry in self.pending):
            if not _is_newer(config, view):
                self.scope.expire(shadow)
            elif insists(self.scope, shadow, view, config, self.pending, lost=self.reshapes_lost, now_ms=self.now_ms):
                return Reshape(shadow, view, self.now_ms, multiplier, config)
        return Ordinary(shadow, view, self.now_ms, multiplier, config, self.slack)

    def _is_to_reshape(self, view: View, config: Config) -> bool:
        if self.shadow.agrees_with(config) or not _is_newer(config, view):
            return False
        return any(entry.checked for entry in self.pending)

    def _send_on(self, shards: int) -> None:
        """What was taken before the shard was split goes back to each half."""
        for entry in self.pending:
            if entry.given:
                entry.divide(self.shadow.id.shard, shards)

    def _learn(self, item: Item | None, at_ms: int, *, own_writes: int) -> View | None:
        self.seen = True
        return self.shadow.learn(item, at_ms, own_writes=own_writes)

    def _has_to_look(self) -> bool:
        """Whether a correction would be dropped by what was seen before this run."""
        if self.seen:
            return False
        view = self.shadow.view
        if view is None:
            return any(entry.given and not entry.unchecked for entry in self.pending)
        known = view.shapes.keys()
        corrections = (entry for entry in self.pending if not entry.checked)
        return any(not (entry.given.keys() <= known and entry.unchecked.keys() <= known) for entry in corrections)

    def _drop_corrections(self) -> None:
        """Without a bucket there is nothing to give back to: it was full when it expired."""
        self.settle([entry for entry in self.pending if entry.given and not entry.unchecked], "admitted")

    def _sort_out(self, frame: Frame) -> None:
        """Settle whom no answer could help."""
        room, ceilings = frame.room, frame.ceilings
        outdated, hopeless = [], []
        for entry in self.pending:
            for name, amount in entry.checked.items():
                if name not in room:
                    outdated.append(entry)
                    break
                if amount > ceilings[name] and not frame.reshapes:
                    hopeless.append(entry)
                    break
            if not entry.checked:
                entry.trim(room)
        if outdated:
            self.settle(outdated, "outdated")
        if hopeless:
            self.settle(hopeless, "refused", left=room)

    def _refuse_or_probe(self, load: Load) -> None:
        """Refuse by a fresh copy who would not fit alone; who stands behind others waits for what comes of them.

        By an old copy nobody is refused: if nobody fits, the first one asks the store.
        """
        room = self.frame.room
        if self._fresh():
            hopeless = [e for e in load.short if any(amount > room[name] for name, amount in e.checked.items())]
            if hopeless:
                self.settle(hopeless, "refused", left=room)
        elif not load.carried:
            load.carry(load.short.pop(0))

    def _judge(self, load: Load) -> Get | None:
        """Amounts of 0 are admitted unless the limit is in debt."""
        if not self._fresh():
            return Get(self.shadow.key)
        self.settle(load.carried, "admitted")
        return None

    def _fresh(self) -> bool:
        return self.shadow.is_fresh(self.now_ms, self.scope.settings.staleness_ms)

    def _note_row_add_above(self, view: View) -> None:
        """Row ADD that failed at the ceiling while others are at it: the next try is row SET with slack."""
        frame = self.frame
        if isinstance(frame, Ordinary) and view.anchor_ms == frame.view.anchor_ms:
            names = ((name, bucket_attributes(name).tk) for name in frame.room)
            self.slack |= {name for name, tk in names if tk in frame.upper and view.item[tk] > frame.upper[tk]}

    def _settle_by_answer(self) -> None:
        """Refuse what does not fit the state that the answer showed, at the instant of the write; keep the rest.

        By an anchor that is to be repaired nobody is judged.
        """
        if self.shadow.view is None or self.shadow.is_ahead(self.now_ms):
            return
        frame = self._frame()
        if frame.reshapes:
            return
        known = [entry for entry in self.pending if entry.checked.keys() <= frame.room.keys()]
        load = weigh(known, frame.room, frame.ceilings)
        if load.short:
            self.settle(load.short, "refused", left=load.left(frame.room, frame.ceilings))
