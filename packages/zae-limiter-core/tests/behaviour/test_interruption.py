"""What Ctrl-C leaves behind in the main thread of a program with threads."""

import signal
import threading
import time
from collections.abc import Callable

import pytest

from support.core.wires import SyncWireStore, Wire
from zae_limiter import Limit, Options, SyncRateLimiter, SyncRepository
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.operations.values import Transact, Update
from zae_limiter.testing import ManualClock

RPM = Limit.per_hour("rpm", 100)


class Program:
    """A limiter whose main thread is interrupted while it waits behind the write of another thread."""

    def __init__(self) -> None:
        self.wire = Wire(MemoryTable())
        self.repository = SyncRepository.over(SyncWireStore(self.wire), Options(clock=ManualClock()))
        self.limiter = SyncRateLimiter(self.repository, default_limits=[RPM])
        self.threads: list[threading.Thread] = []

    def take(self, entity_id: str, amount: int) -> None:
        """Acquire, and leave the block at once."""
        with self.limiter.acquire(entity_id, "r", {"rpm": amount}):
            pass

    def write_elsewhere(self, entity_id: str, *, writes: int) -> None:
        """Have another thread take 1; when the main thread waits behind its writes, that is interrupted."""
        self.wire.hold(Update)
        self._start(lambda: self.take(entity_id, 1))
        wait_for(lambda: self.wire.in_flight == writes)
        self._start(lambda: self._interrupt(entity_id))

    def end(self) -> None:
        """Wait for the threads, and for those that the driver began."""
        for thread in self.threads:
            thread.join()
        self.limiter.driver.drain()

    def _start(self, target: Callable[[], None]) -> None:
        self.threads.append(threading.Thread(target=target))
        self.threads[-1].start()

    def _interrupt(self, entity_id: str) -> None:
        cached = self.repository.namespace_state.cached_shards.get((entity_id, "r", 0))
        assert cached is not None
        wait_for(lambda: len(cached.waiting) == 1)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        time.sleep(0.1)  # until the main thread knows
        self.wire.let_go()


def wait_for(holds: Callable[[], bool]) -> None:
    """Wait until something holds; fails after a minute, in which a busy machine does it, too."""
    latest = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < latest
        time.sleep(0.001)


@pytest.mark.parametrize("end", ["rollback", "release"])
def test_what_gives_back_goes_back_though_its_thread_is_interrupted_in_the_queue(end: str) -> None:
    it = Program()

    def hold_behind_a_write() -> None:
        with it.limiter.acquire("e", "r", {"rpm": 50}) as lease:
            it.write_elsewhere("e", writes=1)
            if end == "rollback":
                raise ZeroDivisionError
            lease.release(rpm=50)

    with pytest.raises(KeyboardInterrupt):
        hold_behind_a_write()
    it.end()
    assert it.limiter.available("e", "r") == {"rpm": 99}
    it.take("e", 1)  # the queue is at rest


@pytest.mark.parametrize("end", ["acquire", "rollback"])
def test_an_interrupted_cascade_gives_back_to_both_and_leaves_no_thread(end: str) -> None:
    it = Program()
    it.repository.create_entity("project")
    it.repository.create_entity("key", parent_id="project", cascade=True)
    it.take("key", 1)
    before = threading.active_count()

    def acquire_behind_a_write() -> None:
        it.write_elsewhere("key", writes=2)
        it.take("key", 50)

    def hold_behind_a_write() -> None:
        with it.limiter.acquire("key", "r", {"rpm": 50}):
            it.write_elsewhere("key", writes=2)
            raise ZeroDivisionError

    with pytest.raises(KeyboardInterrupt):
        acquire_behind_a_write() if end == "acquire" else hold_behind_a_write()
    it.end()
    assert it.limiter.available("key", "r") == {"rpm": 98}
    assert it.limiter.available("project", "r") == {"rpm": 98}
    wait_for(lambda: threading.active_count() <= before)


def test_what_two_buckets_give_back_goes_back_to_both_though_the_first_return_is_interrupted_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    it = Program()
    it.repository.create_entity("project")
    it.repository.create_entity("key", parent_id="project", cascade=True)
    start, main, starts = threading.Thread.start, threading.main_thread(), list[threading.Thread]()

    def start_or_interrupt(thread: threading.Thread) -> None:
        if threading.current_thread() is main:
            starts.append(thread)
            if len(starts) in (1, 3):  # for the next in the queue, and for what goes back to the key
                raise KeyboardInterrupt
            if len(starts) == 2:  # for the next again: it comes late
                return
        start(thread)

    def come_second() -> None:
        it._start(lambda: it.take("key", 1))
        cached = it.repository.namespace_state.cached_shards.get(("key", "r", 0))
        assert cached is not None
        wait_for(lambda: [len(queue.waiting) for queue in cached.creating.values()] == [1])
        monkeypatch.setattr(threading.Thread, "start", start_or_interrupt)

    it.wire.first(come_second, on=Transact)  # by which the main thread makes both buckets, for itself
    with pytest.raises(KeyboardInterrupt):
        it.take("key", 50)
    start(starts[1])
    it.end()
    assert len(starts) > 3
    assert it.limiter.available("key", "r") == {"rpm": 99}
    assert it.limiter.available("project", "r") == {"rpm": 99}
