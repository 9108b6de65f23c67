"""The async repository's methods for the namespaces of its table.

Lives here: a list of methods, each a flow and its checks. Never: a rule.
"""

from ..clock.system import Clock
from ..flows.records import purge, registry
from ..flows.records.purge import Progress
from ..namespaces import Namespace
from ..naming import check_namespace, check_namespace_id
from ..wiring import iso_time, new_namespace
from .flow_runner import FlowRunner


class NamespaceMethods(FlowRunner):
    """Which namespaces the table has."""

    _clock: Clock

    async def register_namespace(self, name: str) -> Namespace:
        """The namespace of that name: as it is, or a new one where there is none or only one that was deleted.

        Taking the name of a deleted one, it has another id and nothing in it. Raises ``ValidationError``.
        """
        return await self._run(registry.register(new_namespace(name, self._clock)))

    async def get_namespace(self, name: str) -> Namespace | None:
        """The namespace in use under a name; ``None`` where there is none, or only one that was deleted."""
        return await self._run(registry.get(check_namespace("name", name)))

    async def list_namespaces(self) -> list[Namespace]:
        """The namespaces in use, by name."""
        return await self._run(registry.in_use())

    async def delete_namespace(self, name: str) -> Namespace:
        """The namespace as it was marked deleted: no open finds it any more, and all that is in it stays.

        Processes that have it open go on with it: stop them first. Raises ``NamespaceNotFoundError``.
        """
        return await self._run(registry.delete(check_namespace("name", name), at=iso_time(self._clock)))

    async def recover_namespace(self, namespace_id: str) -> Namespace:
        """A namespace that was deleted, in use again under its name, with all that is in it.

        Raises ``NamespaceNotFoundError``, and ``NamespaceStateError`` for one that is not deleted, whose name is
        taken, or whose purge has begun.
        """
        return await self._run(registry.recover(check_namespace_id("namespace_id", namespace_id)))

    async def list_orphan_namespaces(self) -> list[Namespace]:
        """The namespaces that no open finds, the oldest first: what can be recovered or purged.

        One that was purged within the last two days is among them where something was written to it since.
        """
        return await self._run(registry.orphans())

    async def purge_namespace(self, namespace_id: str, *, on_progress: Progress | None = None) -> int:
        """How many items were removed with a deleted namespace, for good; its name is free at the end.

        Its id is remembered for two days, for which it can be purged again.
        ``on_progress`` is called with the number of items removed so far. One that was stopped in the middle goes on
        when it is called again. Raises ``NamespaceNotFoundError``, and ``NamespaceStateError`` for one that is in use.
        """
        checked = check_namespace_id("namespace_id", namespace_id)
        return await self._run(purge.purge(checked, at=iso_time(self._clock), on_progress=on_progress))
