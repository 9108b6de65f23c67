# Generated from aio/namespaces.py by `just variants`: edit that one.
"""The sync repository's methods for the namespaces of its table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..clock.system import Clock
from ..flows import records as stored
from ..wiring import iso_time, new_namespace
from .flow_runner import SyncFlowRunner

if TYPE_CHECKING:
    from ..values.namespaces import Namespace


class SyncNamespaceMethods(SyncFlowRunner):
    """The namespaces of the table."""

    _clock: Clock

    def register_namespace(self, name: str) -> Namespace:
        """Return the namespace with this name; register it if there is none, or only a deleted one.

        A namespace that takes the name of a deleted one has another id and no content. Raises ``ValidationError``.
        """
        return self._run(stored.registry.register(new_namespace(name, self._clock)))

    def get_namespace(self, name: str) -> Namespace | None:
        """Return the namespace in use under a name; ``None`` if there is none, or only a deleted one."""
        return self._run(stored.registry.get(name))

    def list_namespaces(self) -> list[Namespace]:
        """Return the namespaces in use, by name."""
        return self._run(stored.registry.in_use())

    def delete_namespace(self, name: str) -> Namespace:
        """Mark a namespace as deleted, and return it: no open finds it any more, and its content stays.

        Processes that have it open go on using it: stop them first. Raises ``NamespaceNotFoundError``.
        """
        return self._run(stored.registry.delete(name, at=iso_time(self._clock)))
