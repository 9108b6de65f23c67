"""What lives here: the data planes that tests run on, and what each of them can.
What never does: how an emulator is fetched or started (fetch, emulators).
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Literal

from emulators import Command, dynamodb_local, dynoxide, running
from fetch import Unavailable

Ability = Literal["endpoint", "atomic", "capacity"]


@dataclass(frozen=True, slots=True)
class Target:
    """A data plane: ``endpoint_url`` is ``None`` for the store in process, else it may be used from any process."""

    name: str
    atomic: bool
    reports_capacity: bool
    endpoint_url: str | None = None

    def lacks(self, ability: Ability) -> bool:
        """Whether a test that needs this ability cannot run here."""
        return not {
            "endpoint": self.name in EMULATORS,
            "atomic": self.atomic,
            "capacity": self.reports_capacity,
        }[ability]


TARGETS: Mapping[str, Target] = {
    name: Target(name, atomic=True, reports_capacity=True) for name in ("memory", "dynamodb-local", "dynoxide")
}
EMULATORS: Mapping[str, Callable[[], Command]] = {"dynamodb-local": dynamodb_local, "dynoxide": dynoxide}


class Session:
    """The targets of one test session: each emulator is started on first use, once, and ends with the session."""

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
        """End every emulator of this session."""
        self._open.close()

    def _start(self, name: str) -> Target | Unavailable:
        target = TARGETS[name]
        if name not in EMULATORS:
            return target
        try:
            return replace(target, endpoint_url=self._open.enter_context(running(EMULATORS[name]())))
        except Unavailable as reason:
            return reason
