"""What core's behaviour tests run over.

Lives here: fixtures. Never: a claim.
"""

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.core.authority import Authority, make_authority, openssl_is_here
from support.core.echoes import AsyncCaller, Caller, SyncCaller
from support.core.reminders import forget_reminders
from support.core.worlds import World


@pytest.fixture(autouse=True)
def no_reminders_are_left() -> Iterator[None]:
    """Let no test call what an earlier one has left to be called."""
    yield
    forget_reminders()


@pytest.fixture(autouse=True)
def nothing_was_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each test see what a process logs once."""
    monkeypatch.setattr("zae_limiter.runtime.log_throttle._said", set())


@pytest.fixture(params=["async", "sync"])
def world(request: pytest.FixtureRequest) -> World:
    """A table in memory, a clock, and processes of one variant: each test runs in both."""
    return World(request.param)


@pytest.fixture
def async_world() -> World:
    """The same for what only one variant has: cancellation."""
    return World("async")


@pytest.fixture
def nothing_of_this_computer(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment with credentials that no account knows, and with no other setting of AWS."""
    for name in [name for name in os.environ if name.startswith("AWS_") or name == "REQUESTS_CA_BUNDLE"]:
        monkeypatch.delenv(name)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, os.devnull)


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """A certificate authority, and the certificates that it has made."""
    if not openssl_is_here():
        pytest.skip("there is no command `openssl`")
    return make_authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(params=["async", "sync"])
def variant(request: pytest.FixtureRequest) -> str:
    """The name of a variant: each test runs in both."""
    return str(request.param)


@pytest.fixture
def opening(variant: str) -> Iterator[Callable[..., Caller]]:
    """Opens a store of one variant; all are closed at the end."""
    callers: list[Caller] = []

    def opening(url: str, **options: Any) -> Caller:
        callers.append(AsyncCaller(url, **options) if variant == "async" else SyncCaller(url, **options))
        return callers[-1]

    yield opening
    for caller in callers:
        caller.close()
