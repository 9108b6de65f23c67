# Generated from aio/flow_runner.py by `just variants`: edit that one.
"""Runs flows on the driver of a repository, for each group of its methods."""

from typing import TypeVar

from ..clock.system import Clock
from ..flows.process.late_opening import in_namespace
from ..flows.process.namespace_state import NamespaceState
from ..flows.steps import Flow
from ..settings import Options
from ..values.audit import Cause
from ..wiring import cause_of
from .driver import SyncDriver

T = TypeVar("T")


class SyncFlowRunner:
    """One namespace of a table, on a driver."""

    def __init__(self, driver: SyncDriver, namespace_state: NamespaceState, options: Options, clock: Clock) -> None:
        self.driver: SyncDriver = driver
        """Runs flows on the store; for the packages of this workspace."""
        self.namespace_state: NamespaceState = namespace_state
        """What this process knows of the namespace; for the packages of this workspace."""
        self._options = options
        self._clock = clock

    def _run(self, flow: Flow[T]) -> T:
        return self.driver.run(in_namespace(self.namespace_state, flow))

    def _cause(self, principal: str | None) -> Cause:
        """Return the cause of a change at the current time, by default of whom the store takes the caller for.

        Raises ``ValidationError``.
        """
        if principal is None:
            principal = self.driver.caller()
        return cause_of(self._options, self._clock, principal)
