"""The table that the Lambda's environment names, and its namespaces, with one client for all invocations."""

import logging
import os
from functools import cache
from typing import Any, Final, TypeVar

from zae_limiter import Clock, Options, SyncRepository, SyncStore
from zae_limiter.exceptions import NamespaceNotFoundError
from zae_limiter.maintenance import Capabilities, Flow, SystemClock, open_registered, open_store, over_table, run

from .refusals import Refused

logger = logging.getLogger(__name__)

T = TypeVar("T")

STACK: Final = "ZAEL_STACK"
CONNECT_SECONDS: Final = 3
READ_SECONDS: Final = 30  # an emulator takes long for a transaction of fifty writes


class Table:
    """A store that stays open, and its namespaces."""

    def __init__(self, store: SyncStore, stack: str, *, clock: Clock | None = None) -> None:
        self._store = _KeptOpen(store)
        self._stack = stack
        self._clock = clock or store.capabilities.clock or SystemClock()

    def now_ms(self) -> int:
        """Return the time in epoch milliseconds."""
        return self._clock.now_ms()

    def run(self, flow: Flow[T]) -> T:
        """Run a flow on what belongs to no namespace, and return its result."""
        return run(over_table(self._store, self._options("none")), flow)

    def find(self, namespace: str) -> SyncRepository | None:
        """Open a namespace; return ``None`` if it is not registered. Raises ``Refused`` if it was deleted."""
        try:
            return self._open(namespace)
        except NamespaceNotFoundError as error:
            if error.deleted_id is None:
                return None
            raise _deleted(namespace) from error

    def open(self, namespace: str) -> SyncRepository:
        """Open a namespace. Raises ``Refused`` if it was deleted, or is not registered."""
        if repository := self.find(namespace):
            return repository
        message = f"there is no namespace {namespace} in {self._stack}: check the name; an apply registers a new one"
        raise Refused("namespace_not_found", message)

    def register(self, namespace: str) -> SyncRepository:
        """Open a namespace, and register it if it is missing. Raises ``Refused`` if it was deleted.

        To be registered is what a manifest is for, so there is no warning, as there is when a program opens it.
        """
        if repository := self.find(namespace):
            return repository
        repository = open_registered(self._store, self._options(namespace))
        logger.info("registered the new namespace %s", namespace)
        return repository

    def _open(self, namespace: str) -> SyncRepository:
        return SyncRepository.over(self._store, self._options(namespace))

    def _options(self, namespace: str) -> Options:
        return Options(
            stack=self._stack,
            namespace=namespace,
            register=False,
            clock=self._clock,
            connect_timeout=CONNECT_SECONDS,
            read_timeout=READ_SECONDS,
        )


def _deleted(namespace: str) -> Refused:
    message = f"the namespace {namespace} was deleted: recover it, or register it anew, then apply"
    return Refused("namespace_deleted", message)


class _KeptOpen(SyncStore):
    """A store that outlives the repositories over it."""

    def __init__(self, store: SyncStore) -> None:
        self._store = store

    @property
    def capabilities(self) -> Capabilities:
        """Those of the store."""
        return self._store.capabilities

    def connect(self) -> None:
        """Open what an operation needs."""
        self._store.connect()

    def perform(self, operation: Any) -> Any:
        return self._store.perform(operation)

    def close(self) -> None:
        """Do nothing: the next invocation needs it."""


def table_of_environment() -> Table:
    """Return the table that ``ZAEL_STACK`` names; region, endpoint and credentials are found as the SDK finds them."""
    stack = os.environ.get(STACK)
    if not stack:
        raise Refused("no_table", f"the Lambda's environment lacks {STACK}, the name of the stack and of its table")
    return _table(stack, os.environ.get("AWS_ENDPOINT_URL_DYNAMODB"))


@cache
def _table(stack: str, _: str | None) -> Table:
    store = open_store(stack, connect_timeout=CONNECT_SECONDS, read_timeout=READ_SECONDS)
    return Table(store, stack)
