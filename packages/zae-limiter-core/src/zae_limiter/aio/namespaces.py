# `just variants` writes the blocking variant of this module.
"""The async repository's methods for the namespaces of its table."""

from ..clock.system import Clock
from ..flows.records import registry
from ..flows.records.registry import Progress
from ..values.namespaces import Namespace
from ..wiring import iso_time, new_namespace
from .flow_runner import FlowRunner


class NamespaceMethods(FlowRunner):
    """The namespaces of the table."""

    _clock: Clock

    async def register_namespace(self, name: str) -> Namespace:
        """Return the namespace with this name; register it if there is none, or only a deleted one.

        A namespace that takes the name of a deleted one has another id and no content. Raises ``ValidationError``.
        """
        return await self._run(registry.register(new_namespace(name, self._clock)))

    async def get_namespace(self, name: str) -> Namespace | None:
        """Return the namespace in use under a name; ``None`` if there is none, or only a deleted one."""
        return await self._run(registry.get(name))

    async def list_namespaces(self) -> list[Namespace]:
        """Return the namespaces in use, by name."""
        return await self._run(registry.in_use())

    async def delete_namespace(self, name: str) -> Namespace:
        """Mark a namespace as deleted, and return it: no open finds it any more, and its content stays.

        Processes that have it open go on using it: stop them first. Raises ``NamespaceNotFoundError``.
        """
        return await self._run(registry.delete(name, at=iso_time(self._clock)))

    async def recover_namespace(self, namespace_id: str) -> Namespace:
        """Bring a deleted namespace back under its name, with its content, and return it.

        Raises ``NamespaceNotFoundError``, and ``NamespaceStateError`` if it is not deleted, its name is taken, or its
        purge has begun.
        """
        return await self._run(registry.recover(namespace_id))

    async def list_orphan_namespaces(self) -> list[Namespace]:
        """Return the namespaces that no open finds, the oldest first: they can be recovered or purged.

        A namespace that was purged within the last two days is listed if something was written to it since.
        """
        return await self._run(registry.orphans())

    async def purge_namespace(self, namespace_id: str, *, on_progress: Progress | None = None) -> int:
        """Remove a deleted namespace for good, and return the number of items removed; then its name is free.

        Its id is remembered for two days, in which it can be purged again.
        ``on_progress`` is called with the number of items removed so far. An interrupted purge goes on
        when it is called again. Raises ``NamespaceNotFoundError``, and ``NamespaceStateError`` for one that is in use.
        """
        return await self._run(registry.purge(namespace_id, at=iso_time(self._clock), on_progress=on_progress))
