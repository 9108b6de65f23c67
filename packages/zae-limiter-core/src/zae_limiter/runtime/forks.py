"""Register objects that begin again in a forked child, and hold forks back from work that they must not cut through."""

import logging  # noqa: F401 - registered before this module: what registers later is called sooner before a fork
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import RLock
from typing import Final, Protocol
from weakref import WeakSet

PATIENCE: Final = 10.0  # seconds that a fork waits at most: what it waits for may wait for the thread that forks


class Forked(Protocol):
    """An object that a child process must not share with its parent, such as connections, locks and queues."""

    def forget(self) -> None:
        """Begin again, in the child; touch nothing of the parent's, not even to close it."""


class Prepared(Forked, Protocol):
    """An object that has to let go of something before a fork: what a child cannot even forget."""

    def before_fork(self, patience: float) -> None:
        """Let go, in the thread that forks; wait at most ``patience`` seconds."""

    def after_fork(self) -> None:
        """Go on, in the parent. In the child, ``forget`` is called instead."""


_registered: "WeakSet[Forked]" = WeakSet()
_prepared: "WeakSet[Prepared]" = WeakSet()
_work = RLock()
generation = 0  # the number of forks between the first process and this one


def register(forked: Forked) -> None:
    """Call ``forget`` of ``forked`` in every child process."""
    _registered.add(forked)


def prepare(prepared: Prepared) -> None:
    """Call the methods of ``prepared`` around every fork."""
    _prepared.add(prepared)
    register(prepared)


@contextmanager
def without_forks() -> Iterator[None]:
    """Make forks of other threads wait until the end of this block, which imports modules or makes TLS contexts.

    Python locks a module that is being imported, and OpenSSL what it sets up. A child would keep such a lock for ever:
    the thread that would release it is not there.
    """
    with _work:
        yield


def _before() -> None:
    _work.acquire(timeout=PATIENCE)
    for prepared in list(_prepared):
        prepared.before_fork(PATIENCE)


def _in_parent() -> None:
    for prepared in list(_prepared):
        prepared.after_fork()
    with suppress(RuntimeError):  # it was not acquired in time
        _work.release()


def _in_child() -> None:
    global generation, _work
    generation += 1
    _work = RLock()
    for forked in list(_registered):
        forked.forget()


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
