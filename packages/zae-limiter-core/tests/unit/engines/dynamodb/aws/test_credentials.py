import asyncio
import logging
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import pairwise
from types import FrameType
from typing import Any, NamedTuple

import pytest

from zae_limiter.engines.dynamodb.aws import credentials
from zae_limiter.engines.dynamodb.aws.credentials import THREAD_NAME, CredentialSource
from zae_limiter.engines.dynamodb.protocol.requests import Credentials
from zae_limiter.operations.errors import Denied, StoreError, Unreachable

LONG = 30.0  # seconds, far more than a test takes


class Frozen(NamedTuple):
    access_key: str
    secret_key: str
    token: str | None = None


class World:
    """A session of botocore, its provider and the time. Each refresh gives a new key that lives ``life`` seconds."""

    def __init__(self, life: float | None = 3600.0) -> None:
        self.time = 1_000_000.0
        self.life = life
        self.asked = 0
        self.error: Exception | None = None
        self.found = True
        self.free = threading.Event()  # the provider answers
        self.free.set()
        self._expiry_time: datetime | None = None

    def now(self) -> float:
        return self.time

    def get_component(self, name: str) -> "World":
        assert name == "credential_provider"
        return self

    def load_credentials(self) -> "World | None":
        return self if self.found else None

    def get_frozen_credentials(self) -> Frozen:
        self.asked += 1
        key = f"key{self.asked}"
        assert self.free.wait(LONG)
        if self.error is not None:
            raise self.error
        if self.life is not None:
            self._expiry_time = datetime.fromtimestamp(self.time + self.life, UTC)
        return Frozen(key, "secret", "token")


def settle() -> None:
    """Wait for the refresh under way."""
    for thread in threading.enumerate():
        if thread.name == THREAD_NAME:
            thread.join(LONG)


@pytest.fixture(autouse=True)
def _no_thread_stays() -> Iterator[None]:
    yield
    settle()


def opened(world: World) -> CredentialSource:
    source = CredentialSource(world, now=world.now)
    source.refreshed().result(LONG)
    settle()
    return source


def key(source: CredentialSource) -> str | None:
    current = source.current()
    return None if current is None else current.access_key


def test_nothing_is_asked_before_a_caller_waits() -> None:
    world = World()
    assert CredentialSource(world, now=world.now).current() is None
    assert world.asked == 0


def test_the_credentials_have_all_their_parts() -> None:
    source = opened(World())
    assert source.current() == Credentials("key1", "secret", "token")


def test_credentials_without_an_expiry_are_never_renewed() -> None:
    world = World(life=None)
    source = opened(world)
    world.time += 1e9
    assert key(source) == "key1"
    settle()
    assert world.asked == 1


@pytest.mark.parametrize(
    ("life", "due", "until"),
    [(43_200.0, 42_300.0, 43_195.0), (1_000.0, 500.0, 995.0), (4.0, 2.0, 3.6), (0.1, 0.05, 0.09)],
)
def test_credentials_are_renewed_in_time_and_not_used_too_late(life: float, due: float, until: float) -> None:
    tiny = 0.001
    world = World(life)
    began = world.time
    source = opened(world)
    world.time = began + due - tiny
    assert key(source) == "key1"
    settle()
    assert world.asked == 1
    world.free.clear()
    world.time = began + due + tiny
    assert key(source) == "key1"  # without a wait for the provider
    world.time = began + until - tiny
    assert key(source) == "key1"
    world.time = began + until + tiny
    assert key(source) is None
    world.free.set()
    settle()
    assert key(source) == "key2"
    assert world.asked == 2


def test_credentials_that_live_for_seconds_are_renewed_again_and_again() -> None:
    world = World(life=3.0)
    source = opened(world)
    for step in range(1, 100):
        world.time += 1.6
        assert key(source) == f"key{step}"
        settle()
    assert world.asked == 100


def test_callers_with_valid_credentials_never_wait_for_a_slow_provider() -> None:
    world = World()
    source = opened(world)
    world.free.clear()
    world.time += 3_000
    for _ in range(1_000):
        assert key(source) == "key1"
        world.time += 0.5
    assert world.asked == 2
    world.free.set()
    settle()
    assert key(source) == "key2"


def test_a_provider_without_newer_credentials_is_not_asked_all_the_time() -> None:
    world = World(life=1_000.0)
    source = opened(world)
    world.life = None  # the expiry stays
    for _ in range(990):
        world.time += 1.0
        assert source.current() is not None
        settle()
    assert 3 <= world.asked <= 20


def test_no_credentials_at_all_are_refused_with_a_hint() -> None:
    world = World()
    world.found = False
    source = CredentialSource(world, now=world.now)
    with pytest.raises(Denied, match="AWS_PROFILE"):
        source.refreshed().result(LONG)
    world.found = True
    assert source.refreshed().result(LONG).access_key == "key1"


def test_a_provider_that_never_worked_is_a_refusal() -> None:
    world = World()
    world.error = OSError("no route")
    source = CredentialSource(world, now=world.now)
    with pytest.raises(Denied, match="OSError: no route") as info:
        source.refreshed().result(LONG)
    assert info.value.__cause__ is world.error
    assert source.current() is None


def test_a_provider_that_fails_for_a_while_is_an_outage(caplog: pytest.LogCaptureFixture) -> None:
    world = World(life=1_000.0)
    source = opened(world)
    world.error = TimeoutError("metadata")
    world.time += 600
    for _ in range(390):
        assert key(source) == "key1"
        settle()
        world.time += 1.0
    assert 390 / 30 < world.asked < 390 / 15 + 10  # with pauses
    assert 5 <= len(caplog.records) <= 7  # each minute at most
    assert "TimeoutError: metadata" in caplog.text
    assert "secret" not in caplog.text
    assert "token" not in caplog.text
    world.time += 10
    assert key(source) is None
    with pytest.raises(Unreachable, match="metadata"):
        source.refreshed().result(LONG)
    world.error = None
    assert source.refreshed().result(LONG) == source.current()


def test_the_pauses_between_failures_grow_to_half_a_minute() -> None:
    world = World(life=1_000.0)
    source = opened(world)
    world.error = TimeoutError("metadata")
    world.time += 600
    attempts = []
    for _ in range(3_000):
        before = world.asked
        source.current()
        settle()
        if world.asked > before:
            attempts.append(world.time)
        world.time += 0.1
    pauses = [later - sooner for sooner, later in pairwise(attempts)]
    assert 0.5 <= pauses[0] <= 1.2
    assert 1.0 <= pauses[1] <= 2.2
    assert all(15 <= pause <= 30.2 for pause in pauses[5:])


def test_refused_credentials_are_read_anew_and_not_all_the_time() -> None:
    world = World(life=None)
    source = opened(world)
    first = source.current()
    assert first is not None
    answers = [source.renewed(first) for _ in range(10)]
    assert {None if each is None else each.result(LONG).access_key for each in answers} <= {"key2", None}
    settle()
    assert world.asked == 2
    later = source.renewed(first)  # others have read them since
    assert later is not None
    assert later.result(LONG).access_key == "key2"
    assert world.asked == 2


def test_the_pauses_grow_while_the_provider_has_no_other_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(life=None)
    monkeypatch.setattr(world, "get_frozen_credentials", lambda: Frozen("same", "secret"))
    source = opened(world)
    refused = source.current()
    assert refused is not None
    reads = 0
    for _ in range(1_000):
        world.time += 0.1
        if (future := source.renewed(refused)) is not None:
            assert future.result(LONG) == refused
            settle()
            reads += 1
    assert 5 <= reads <= 10


def test_refused_credentials_stay_if_the_provider_fails() -> None:
    world = World(life=None)
    source = opened(world)
    refused = source.current()
    assert refused is not None
    world.error = OSError("no such file")
    future = source.renewed(refused)
    assert future is not None
    with pytest.raises(Unreachable, match="no such file"):
        future.result(LONG)
    settle()
    assert source.current() == refused


@pytest.mark.parametrize("bad", ["key\r\nX-Evil: 1", "kéy"])
def test_a_key_that_no_header_may_have_is_refused_and_not_shown(bad: str) -> None:
    with pytest.raises(ValueError, match="HTTP header") as info:
        credentials.hold(Credentials(bad, "secret"), 2.0, 1.0)
    assert bad not in str(info.value)


def test_credentials_that_have_expired_already_are_refused() -> None:
    world = World(life=-1.0)
    with pytest.raises(Denied, match="expired"):
        CredentialSource(world, now=world.now).refreshed().result(LONG)


def test_threads_that_wait_at_once_share_one_refresh() -> None:
    world = World()
    world.free.clear()
    source = CredentialSource(world, now=world.now)
    futures = [source.refreshed()]
    while not world.asked:
        pass
    threads = [threading.Thread(target=lambda: futures.append(source.refreshed())) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    world.free.set()
    assert {future.result(LONG).access_key for future in futures} == {"key1"}
    assert world.asked == 1


def test_all_who_wait_get_an_error_of_their_own() -> None:
    world = World()
    world.error = OSError("no route")
    world.free.clear()
    source = CredentialSource(world, now=world.now)
    futures = [source.refreshed() for _ in range(5)]
    world.free.set()
    errors = [future.exception(LONG) for future in futures]
    assert {type(error) for error in errors} == {Denied}
    assert len({id(error) for error in errors}) == 5


def test_many_threads_always_get_an_answer() -> None:
    world = World()
    source = CredentialSource(world, now=world.now)
    answers: list[Any] = []

    def ask() -> None:
        answers.extend(source.refreshed().result(LONG) for _ in range(200))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    assert len(answers) == 1_600


async def test_a_task_that_is_cancelled_does_not_cancel_the_others() -> None:
    world = World()
    world.free.clear()
    source = CredentialSource(world, now=world.now)

    async def ask() -> Credentials:
        return await asyncio.wrap_future(source.refreshed())

    first, second = asyncio.create_task(ask()), asyncio.create_task(ask())
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    world.free.set()
    assert (await second).access_key == "key1"
    assert first.cancelled()
    assert world.asked == 1


class Interrupted(BaseException):
    pass


def interrupt_at(step: int, call: Callable[[], Any]) -> bool:
    """Call, with an exception at a line of the source; whether the call came so far."""
    left = step

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        if event == "call" and frame.f_code.co_filename != credentials.__file__:
            return None
        if event == "line":
            left -= 1
            if left < 0:
                sys.settrace(None)
                raise Interrupted
        return trace

    sys.settrace(trace)
    try:
        call()
    except Interrupted:
        return True
    finally:
        sys.settrace(None)
    return False


@pytest.mark.parametrize("begin", [CredentialSource.current, CredentialSource.refreshed], ids=["current", "refreshed"])
def test_an_interrupted_caller_leaves_nobody_waiting(begin: Callable[[CredentialSource], Any]) -> None:
    before = sys.gettrace()
    steps = 0
    try:
        while True:
            world = World()
            source = opened(world)
            world.time += 3_000
            interrupted = interrupt_at(steps, lambda source=source: begin(source))  # type: ignore[misc]
            settle()
            assert source.refreshed().result(LONG) == source.current()
            if not interrupted:
                break
            steps += 1
    finally:
        sys.settrace(before)
    assert steps > 5


def no_threads(*_: Any) -> None:
    raise RuntimeError("can't create new thread at interpreter shutdown")


def test_without_new_threads_a_caller_that_waits_asks_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading.Thread, "start", no_threads)
    world = World()
    source = CredentialSource(world, now=world.now)
    assert source.refreshed().result(0).access_key == "key1"
    world.time += 3_000
    assert key(source) == "key1"  # and waits for nothing
    assert world.asked == 1


def test_a_child_process_has_no_refresh_under_way() -> None:
    world = World()
    source = opened(world)
    world.free.clear()
    source.refreshed()
    while world.asked < 2:
        pass
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer Pythons warn of a fork beside threads
        child = os.fork()
    if not child:
        code = 1
        try:
            world.free = threading.Event()
            world.free.set()
            kept = key(source) == "key1"
            code = 0 if kept and source.refreshed().result(LONG).access_key == "key3" else 2
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    world.free.set()


HANGING = """
import threading
from zae_limiter.engines.dynamodb.aws.credentials import CredentialSource
class Hanging:
    def get_component(self, name):
        threading.Event().wait()
CredentialSource(Hanging()).refreshed()
"""


def test_a_provider_that_hangs_does_not_keep_the_process_from_ending() -> None:
    subprocess.run([sys.executable, "-c", HANGING], check=True, timeout=LONG)


def test_a_fault_is_logged_by_no_other_logger(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    source = opened(world)
    world.error = OSError("no route")
    world.time += 3_000
    source.current()
    settle()
    assert [(record.name, record.levelno) for record in caplog.records] == [(credentials.__name__, logging.WARNING)]


def test_an_answer_is_credentials_or_a_store_error() -> None:
    world = World()
    world.error = KeyError("AccessKeyId")  # what botocore raises for a broken answer
    with pytest.raises(StoreError, match="KeyError"):
        CredentialSource(world, now=world.now).refreshed().result(LONG)
