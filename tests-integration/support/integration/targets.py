"""What lives here: the targets that tests run on, and what each of them can.
What never does: how one is fetched or started (fetch, emulators, stacks).
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import boto3

from . import stacks
from .emulators import Command, dynamodb_local, dynoxide, running
from .fetch import Unavailable

REAL = "aws"  # never by default

# endpoint: an address that a proxy can stand before; streams: a table's changes can be read; lambda: there is a stack
# whose functions run; the others as AWS has them.
Ability = Literal["endpoint", "atomic", "capacity", "streams", "ttl-deletion", "lambda", "custom-resource"]


@dataclass(frozen=True, slots=True)
class Target:
    """A place for tables: ``endpoint_url`` is ``None`` for the store in process, else it may be used from any process.

    ``stack`` names what `zae-limiter deploy` has made there, where functions run.
    """

    name: str
    endpoint_url: str | None = None
    stack: str | None = None

    def client(self, service: str) -> Any:
        """A client of any AWS service there; the caller closes it."""
        return boto3.client(service, endpoint_url=None if self.name == REAL else self.endpoint_url)


@dataclass(frozen=True, slots=True)
class Offer:
    """What a target can, and how it is had; entering ``start`` may raise ``Unavailable``."""

    abilities: frozenset[Ability]
    start: Callable[[], AbstractContextManager[Target]]

    def lacks(self, ability: Ability) -> bool:
        """Whether a test that needs this ability cannot run here."""
        return ability not in self.abilities


@contextmanager
def _memory() -> Iterator[Target]:
    yield Target("memory")


def _emulator(name: str, command: Callable[[], Command]) -> Callable[[], AbstractContextManager[Target]]:
    @contextmanager
    def start() -> Iterator[Target]:
        with running(command()) as url:
            yield Target(name, url)

    return start


def _stack(
    name: str, place: Callable[[], AbstractContextManager[stacks.Place]]
) -> Callable[[], AbstractContextManager[Target]]:
    @contextmanager
    def start() -> Iterator[Target]:
        with place() as found:
            yield Target(name, found.endpoint_url, found.stack)

    return start


def _offer(start: Callable[[], AbstractContextManager[Target]], *abilities: Ability) -> Offer:
    return Offer(frozenset(abilities), start)


TARGETS: Mapping[str, Offer] = {
    "memory": _offer(_memory, "atomic", "capacity"),
    "embedded": _offer(_stack("embedded", stacks.embedded), "endpoint", "atomic", "streams", "lambda"),
    "dynamodb-local": _offer(
        _emulator("dynamodb-local", dynamodb_local),
        *("endpoint", "atomic", "capacity", "streams"),
        "ttl-deletion",  # within seconds, but only from a table without indexes
    ),
    "dynoxide": _offer(_emulator("dynoxide", dynoxide), "endpoint", "atomic", "capacity", "streams"),
    "localstack": _offer(
        _stack("localstack", stacks.localstack),
        *("endpoint", "atomic", "capacity", "streams", "lambda", "custom-resource"),
    ),
    "aws": _offer(
        _stack("aws", stacks.aws), "atomic", "capacity", "streams", "ttl-deletion", "lambda", "custom-resource"
    ),
}
EMULATORS = ("dynamodb-local", "dynoxide")  # of which CI must have one


@contextmanager
def apart(target: Target) -> Iterator[Target]:
    """An emulator of its own for what changes many items: each record of a stream slows all later writes down."""
    if target.name in EMULATORS:
        with TARGETS[target.name].start() as own:
            yield own
    else:
        yield target


class Session:
    """The targets of one test session: each is started on first use, once, and ends with the session."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self._started: dict[str, Target | Unavailable] = {}

    def get(self, name: str) -> Target:
        """The target, ready; ``Unavailable`` says why not."""
        if name not in self._started:
            self._started[name] = self._start(name)
        found = self._started[name]
        if isinstance(found, Unavailable):
            raise found
        return found

    def missing(self) -> Mapping[str, str]:
        """Why each emulator that cannot be had is not there."""
        reasons: dict[str, str] = {}
        for name in EMULATORS:
            try:
                self.get(name)
            except Unavailable as reason:
                reasons[name] = str(reason)
        return reasons

    def close(self) -> None:
        """End every target of this session."""
        self._open.close()

    def _start(self, name: str) -> Target | Unavailable:
        try:
            return self._open.enter_context(TARGETS[name].start())
        except Unavailable as reason:
            return reason
