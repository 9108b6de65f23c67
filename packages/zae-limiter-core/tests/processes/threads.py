"""Threads of which one runs at a time, and a seed says which.

Lives here: the scheduler, and what stands in for ``threading`` and ``time.sleep``. Never: interruptions (signals).
"""

import gc
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from random import Random
from types import FrameType, SimpleNamespace
from typing import Any

from .timeline import Stuck, Timeline

REAL_SECONDS = 60.0  # of real time, for code that never comes back to the scheduler, on a busy machine, too
MOST_SWITCHES = 200_000
MOST_KILLS = 100
TIMEOUT_MAX = threading.TIMEOUT_MAX


def micros(seconds: float) -> int:
    """So many microseconds, at least one for any time at all."""
    return max(1, round(seconds * 1e6)) if seconds > 0 else 0


class Killed(BaseException):
    """The history is over: whoever still waits is thrown out."""


class Actor:
    """One simulated thread, on a real one."""

    def __init__(self, number: int, name: str) -> None:
        self.number = number
        self.name = name
        self.ready = True
        self.done = False
        self.wakes_us: int | None = None
        self.notified = False
        self.kills = 0
        self.thread: threading.Thread
        self.turn = threading.Lock()
        self.turn.acquire()


class Scheduler:
    """Has one actor run at a time; where it may be interrupted by another, chance decides.

    ``on_wait`` is called for an actor that is about to wait, and for one that has waited; it may raise.
    """

    def __init__(self, timeline: Timeline, rng: Random) -> None:
        self.timeline = timeline
        self.actors: list[Actor] = []
        self.problem: BaseException | None = None
        self.complaints: list[str] = []
        self.standing: list[str] = []
        self.outside = 0  # how deep in what is not code of the process
        self.dead = False
        self.on_start: Callable[[Actor], None] = lambda _: None
        self.on_wait: Callable[[Actor], None] = lambda _: None
        self._rng = rng
        self._switches = 0
        self._current: Actor
        self._over = threading.Event()
        self._own = threading.local()

    @property
    def current(self) -> Actor:
        """The actor that runs."""
        actor: Actor = self._own.actor
        return actor

    def run(self, script: Callable[[], None]) -> None:
        """Run a script as the main thread, and all that it starts, to the end. Raises what went wrong."""
        main = self.spawn("main", script)
        self._current = main
        main.turn.release()
        if not self._over.wait(REAL_SECONDS):
            self.fail(Stuck("a thread never waits, and never ends"))
        self._end_threads()
        if self.problem is not None:
            raise self.problem

    def spawn(self, name: str, script: Callable[[], object]) -> Actor:
        """Another thread, which is ready, but does not run yet."""
        actor = Actor(len(self.actors), name)
        self.actors.append(actor)
        actor.thread = threading.Thread(target=self._live, args=(actor, script), daemon=True)
        actor.thread.start()
        return actor

    def pause(self) -> None:
        """Here another may go on."""
        if not self.dead:
            self._switch()
        self._check_alive()

    def sleep(self, seconds: float) -> None:
        """Wait for a time, though somebody calls."""
        until_us = self.timeline.now_us + micros(seconds)
        while True:
            self.wait((until_us - self.timeline.now_us) / 1e6)
            if self.timeline.now_us >= until_us:
                return

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until notified, or for a time; whether it was notified."""
        actor = self.current
        self._check_alive()
        self.on_wait(actor)
        actor.ready, actor.notified = False, False
        actor.wakes_us = None if seconds is None else self.timeline.now_us + micros(seconds)
        self._switch()
        self._check_alive()
        self.on_wait(actor)
        return actor.notified

    def notify(self, actor: Actor) -> None:
        """Let a waiting actor go on."""
        if not actor.ready and not actor.done:
            actor.ready, actor.notified, actor.wakes_us = True, True, None

    def others(self) -> list[Actor]:
        """All that still live, but for the one that runs."""
        return [actor for actor in self.actors if not actor.done and actor is not self.current]

    def fail(self, problem: BaseException) -> None:
        """End the history."""
        self.problem = self.problem or problem
        self.standing = [self._where(actor) for actor in self.actors if not actor.done]
        self.dead = True
        self._over.set()

    def _where(self, actor: Actor) -> str:
        """The last lines of the library that a thread is in."""
        stack = traceback.extract_stack(_frames().get(actor.thread.ident or 0))
        lines = [f"{Path(line.filename).name}:{line.lineno}" for line in stack if "/zae_limiter/" in line.filename]
        return f"{actor.name} at {' '.join(lines[-4:]) or 'no line of the library'}"

    def _live(self, actor: Actor, script: Callable[[], None]) -> None:
        self._own.actor = actor
        actor.turn.acquire()
        try:
            if not self.dead:
                self.on_start(actor)
                script()
        except Killed:
            pass
        except BaseException as error:  # noqa: BLE001 - it is raised in the end
            self.complaints.append(f"the thread {actor.name!r} ended with {error!r}")
            self.problem = self.problem or (None if actor.number else error)
        actor.done, actor.ready = True, False
        if not self.dead:
            self._switch()

    def _switch(self) -> None:
        """Hand the turn to an actor that is ready; return when it comes back."""
        mine = self.current
        self._switches += 1
        try:
            chosen = self._choose()
        except BaseException as problem:  # noqa: BLE001 - of the table's side, or nobody can go on
            return self.fail(problem)
        if chosen is None:
            return self._over.set()
        if chosen is not mine:
            self._current = chosen
            chosen.turn.release()
            if not mine.done:
                mine.turn.acquire()
        return None

    def _choose(self) -> Actor | None:
        if self._switches > MOST_SWITCHES:
            raise Stuck("the threads go round in circles")
        while True:
            ready = [actor for actor in self.actors if actor.ready]
            if ready:
                return self._rng.choice(ready)
            if all(actor.done for actor in self.actors):
                return None
            self._pass_time()

    def _pass_time(self) -> None:
        wakes = [actor.wakes_us for actor in self.actors if actor.wakes_us is not None]
        self.outside += 1
        try:
            self.timeline.advance(min(wakes) if wakes else None)
        finally:
            self.outside -= 1
        for actor in self.actors:
            if actor.wakes_us is not None and actor.wakes_us <= self.timeline.now_us:
                actor.ready, actor.wakes_us = True, None

    def _check_alive(self) -> None:
        if self.dead:
            actor = self.current
            actor.kills += 1
            if actor.kills > MOST_KILLS:
                threading.Event().wait()  # it will not go: let it stand
            raise Killed

    def _end_threads(self) -> None:
        self.dead = True
        left = [actor for actor in self.actors if not actor.done]
        for actor in left:
            if actor.turn.locked():
                actor.turn.release()
        for actor in self.actors:
            actor.thread.join(0.5)


def _frames() -> Mapping[int, FrameType]:
    """The frames of all threads. A collection amid ``_current_frames`` may wait for ever for the lock that it holds."""
    collects = gc.isenabled()
    gc.disable()
    try:
        return sys._current_frames()
    finally:
        if collects:
            gc.enable()


class Lock:
    """As ``threading.Lock``."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._locked = False
        self._waiters: list[Actor] = []

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:  # noqa: FBT001 - as the original
        scheduler = self._scheduler
        scheduler.pause()
        until_us = scheduler.timeline.now_us + micros(timeout) if 0 <= timeout < TIMEOUT_MAX else None
        while self._locked:
            left = None if until_us is None else (until_us - scheduler.timeline.now_us) / 1e6
            if not blocking or (left is not None and left <= 0):
                return False
            self._waiters.append(scheduler.current)
            try:
                scheduler.wait(left)
            finally:
                self._waiters = [actor for actor in self._waiters if actor is not scheduler.current]
        self._locked = True
        return True

    def release(self) -> None:
        if not self._locked:
            raise RuntimeError("release unlocked lock")
        self._locked = False
        for actor in self._waiters:
            self._scheduler.notify(actor)
        self._waiters = []

    def locked(self) -> bool:
        return self._locked

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Event:
    """As ``threading.Event``."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._set = False
        self._waiters: list[Actor] = []

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True
        for actor in self._waiters:
            self._scheduler.notify(actor)
        self._scheduler.pause()

    def clear(self) -> None:
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        scheduler = self._scheduler
        scheduler.pause()
        if not self._set:
            self._waiters.append(scheduler.current)
            try:
                scheduler.wait(timeout)
            finally:
                self._waiters = [actor for actor in self._waiters if actor is not scheduler.current]
        return self._set


class Thread:
    """As ``threading.Thread``; where ``fails()``, there are no more threads."""

    def __init__(
        self,
        scheduler: Scheduler,
        fails: Callable[[], bool],
        *,
        target: Callable[..., object],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        name: str | None = None,
        daemon: bool | None = None,
    ) -> None:
        self._scheduler = scheduler
        self._fails = fails
        self._script = partial(target, *args, **(kwargs or {}))
        self._actor: Actor | None = None
        self.name = name or "of the library"
        self.daemon = daemon

    def start(self) -> None:
        if self._fails():
            raise RuntimeError("can't start new thread")
        self._actor = self._scheduler.spawn(self.name, self._script)
        self._scheduler.wait(0)  # the original waits until the thread has begun, and is interrupted there

    def is_alive(self) -> bool:
        return self._actor is not None and not self._actor.done and not self._scheduler.dead

    def join(self, timeout: float | None = None) -> None:
        scheduler = self._scheduler
        until_us = None if timeout is None else scheduler.timeline.now_us + micros(timeout)
        while self.is_alive():
            left = None if until_us is None else (until_us - scheduler.timeline.now_us) / 1e6
            if left is not None and left <= 0:
                return
            scheduler.wait(0.001 if left is None else min(left, 0.001))


def stand_in(scheduler: Scheduler, fails: Callable[[], bool]) -> dict[int, Any]:
    """What replaces the module ``threading`` and what is in it, by the identity of what is replaced."""
    fake = SimpleNamespace(
        Lock=lambda: Lock(scheduler), Event=lambda: Event(scheduler), Thread=partial(Thread, scheduler, fails)
    )
    values = {id(getattr(threading, name)): value for name, value in vars(fake).items()}
    fake.main_thread = lambda: SimpleNamespace(is_alive=lambda: not scheduler.actors[0].done)
    fake.enumerate = lambda: [SimpleNamespace(daemon=False, name="a caller")]
    fake.local, fake.TIMEOUT_MAX, fake.get_ident = threading.local, TIMEOUT_MAX, threading.get_ident
    return {id(threading): fake, **values}
