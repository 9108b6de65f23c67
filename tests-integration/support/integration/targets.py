"""What lives here: the targets that tests run on, and what each of them can.
What never does: how one is fetched or started (fetch, emulators, stacks).
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import boto3

from . import quirks, stacks
from .emulators import Command, dynamodb_local, dynoxide, running
from .fetch import Unavailable
from .quirks import Quirks

# uncounted: usage is what a test writes or an aggregator counts, which the store does not do itself;
# endpoint: an address that a proxy can stand before; streams: a table's changes can be read; lambda: there is a stack
# whose functions run; the others as AWS has them.
Ability = Literal["endpoint", "atomic", "capacity", "uncounted", "streams", "ttl-deletion", "lambda", "custom-resource"]


@dataclass(frozen=True, slots=True)
class Target:
    """A place for tables: ``endpoint_url`` is ``None`` for the stores of this machine, in memory or in files of a
    ``folder``; else it may be used from any process.

    ``services_url`` is where clients of all services find theirs; ``None`` leaves it to the SDK. ``stack`` names what
    `zae-limiter deploy` has made there, where functions run. ``lacks`` has the reasons why this very place cannot do
    what its kind can.
    """

    name: str
    endpoint_url: str | None = None
    stack: str | None = None
    services_url: str | None = None
    lacks: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None

    @property
    def quirks(self) -> Quirks:
        """Where it differs from AWS."""
        return TARGETS[self.name].quirks

    def client(self, service: str) -> Any:
        """A client of any AWS service there; the caller closes it."""
        return boto3.client(service, endpoint_url=self.services_url)


@dataclass(frozen=True, slots=True)
class Offer:
    """What a target can, and how it is had; entering ``start`` may raise ``Unavailable``.

    ``starts_fast``: a module may have one of its own. ``by_name``: it takes minutes, and runs only where `--target`
    names it. ``real``: it costs money, and runs only with `--aws`.
    """

    start: Callable[[], AbstractContextManager[Target]]
    abilities: frozenset[Ability]
    quirks: Quirks = quirks.AS_AWS
    starts_fast: bool = False
    by_name: bool = False
    real: bool = False

    def lacks(self, ability: Ability) -> bool:
        """Whether a test that needs this ability cannot run here."""
        return ability not in self.abilities


@contextmanager
def _memory() -> Iterator[Target]:
    yield Target("memory")


@contextmanager
def _sqlite() -> Iterator[Target]:
    with TemporaryDirectory() as folder:
        yield Target("sqlite", folder=Path(folder))


def _emulator(name: str, command: Callable[[], Command]) -> Callable[[], AbstractContextManager[Target]]:
    @contextmanager
    def start() -> Iterator[Target]:
        with running(command()) as url:
            yield Target(name, url, services_url=url)

    return start


def _stack(
    name: str, place: Callable[[], AbstractContextManager[stacks.Place]]
) -> Callable[[], AbstractContextManager[Target]]:
    @contextmanager
    def start() -> Iterator[Target]:
        with place() as found:
            yield Target(name, found.endpoint_url, found.stack, found.services_url, found.lacks)

    return start


def _can(*abilities: Ability) -> frozenset[Ability]:
    return frozenset(abilities)


TARGETS: Mapping[str, Offer] = {
    "memory": Offer(_memory, _can("atomic", "capacity", "uncounted"), quirks.IN_PROCESS),
    "sqlite": Offer(_sqlite, _can("atomic", "capacity"), quirks.IN_PROCESS),
    "embedded": Offer(
        _stack("embedded", stacks.embedded),
        _can("endpoint", "atomic", "uncounted", "streams", "lambda", "custom-resource"),
        quirks.EMBEDDED,
    ),
    "dynamodb-local": Offer(
        _emulator("dynamodb-local", dynamodb_local),
        # it deletes expired items within seconds, but only from a table without indexes
        _can("endpoint", "atomic", "uncounted", "capacity", "streams", "ttl-deletion"),
        quirks.DYNAMODB_LOCAL,
        starts_fast=True,
    ),
    "dynoxide": Offer(
        _emulator("dynoxide", dynoxide),
        _can("endpoint", "atomic", "uncounted", "capacity", "streams"),
        quirks.DYNOXIDE,
        starts_fast=True,
    ),
    "localstack": Offer(
        _stack("localstack", stacks.in_localstack),
        _can("endpoint", "atomic", "uncounted", "capacity", "streams", "lambda", "custom-resource"),
        quirks.LOCALSTACK,
        by_name=True,
    ),
    "aws": Offer(
        _stack("aws", stacks.aws),
        _can("atomic", "capacity", "uncounted", "streams", "ttl-deletion", "lambda", "custom-resource"),
        real=True,
    ),
}
(REAL,) = (name for name, offer in TARGETS.items() if offer.real)


def able(needs: Collection[Ability]) -> list[str]:
    """The targets that offer all of these at no cost; ``ValueError`` where none does: a test of that never runs."""
    found = [name for name, offer in TARGETS.items() if not offer.real and offer.abilities.issuperset(needs)]
    if not found:
        raise ValueError(f"no target offers: {', '.join(sorted(needs))}")
    return found


@contextmanager
def apart(target: Target) -> Iterator[Target]:
    """An emulator of its own for what changes many items: each record of a stream slows all later writes down."""
    offer = TARGETS[target.name]
    if offer.starts_fast:
        with offer.start() as own:
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

    def close(self) -> None:
        """End every target of this session."""
        self._open.close()

    def _start(self, name: str) -> Target | Unavailable:
        try:
            return self._open.enter_context(TARGETS[name].start())
        except Unavailable as reason:
            return reason
