# `just variants` writes the blocking variant of this module.
"""The async repository's methods for the namespaces of its table, its versions and the state of the provisioner."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from ..clock.system import Clock
from ..flows import records as stored
from ..wiring import iso_time, new_namespace
from .flow_runner import FlowRunner

if TYPE_CHECKING:
    from ..exceptions import ZAELimiterError
    from ..flows.records.registry import Progress
    from ..values.bulk import BulkResult
    from ..values.namespaces import Namespace
    from ..values.provisioner import ConfigPlace, ProvisionerState, StoredConfig, StoredEntity
    from ..values.versions import VersionRecord


class StateMethods(FlowRunner):
    """The namespaces of the table, the versions of the stack, and what the provisioner keeps and sees."""

    _clock: Clock

    async def get_version_record(self) -> VersionRecord | None:
        """Return the version record of the stack; ``None`` without one, which fits every client."""
        return await self._run(stored.registry.get_version_record(self.namespace_state.stack))

    async def set_version_record(self, record: VersionRecord) -> None:
        """Replace the version record of the stack, for all namespaces; every open checks it."""
        await self._run(stored.registry.set_version_record(record))

    async def get_provisioner_state(self) -> ProvisionerState:
        """Return the provisioner's state of this namespace; an empty state if there is none."""
        return await self._run(stored.provisioner_state.get_state(self.namespace_state))

    async def put_provisioner_state(self, state: ProvisionerState, *, expected_serial: int) -> ProvisionerState:
        """Store a state, and return it with its new serial, the one after ``expected_serial``.

        ``expected_serial`` is that of the state to replace, 0 for none; ``state.serial`` is ignored. Raises
        ``StaleStateError`` if the stored serial differs, and ``ValidationError``.
        """
        tag = int.from_bytes(os.urandom(5)) >> 1
        put = stored.provisioner_state.put_state(self.namespace_state, state, expected_serial=expected_serial, tag=tag)
        return await self._run(put)

    async def note_applied(self, *, expected_serial: int) -> str:
        """Store the current time as ``last_applied``, and return it; everything else stays, the serial too.

        Raises ``StaleStateError`` if the state has another serial, and ``ValidationError``.
        """
        now = iso_time(self._clock)
        return await self._run(
            stored.provisioner_state.note_applied(self.namespace_state, now, expected_serial=expected_serial)
        )

    async def get_configs(
        self, places: Sequence[ConfigPlace], *, skip_unreadable: bool = False
    ) -> dict[ConfigPlace, StoredConfig]:
        """Return the stored configs by place: ``(entity_id, resource)``, either may be ``None``; empty places are left
        out.

        Reads batches of 100, eight at a time. ``skip_unreadable`` leaves out a config that cannot be read, as lists do,
        which log and count it. Raises ``ValidationError``.
        """
        found = stored.many_levels.get_configs(self.namespace_state, places, skip_unreadable=skip_unreadable)
        return await self._run(found)

    async def put_configs(
        self,
        configs: Mapping[ConfigPlace, StoredConfig | None],
        *,
        principal: str | None = None,
        found_empty: Collection[ConfigPlace] = (),
    ) -> BulkResult[ConfigPlace]:
        """Replace the configs at these places, or remove them (``None``); return which places failed.

        Transactions of up to 25 places each, eight at a time. Places that the caller has just read and ``found_empty``
        are not read again, unless they no longer are. Raises ``ValidationError`` before any request.
        """
        cause = await self._cause(principal)
        return await self._run(stored.many_levels.put_configs(self.namespace_state, configs, cause, found_empty))

    async def list_config_places(self) -> list[ConfigPlace]:
        """Return the places with limits: the system, and all resources and entities that have some.

        A very recent change may be missing.
        """
        return await self._run(stored.many_levels.list_config_places(self.namespace_state))

    async def get_entity_records(
        self, entity_ids: Sequence[str], *, skip_unreadable: bool = False
    ) -> dict[str, StoredEntity]:
        """Return what is stored of these entities, by id; those without a record are left out.

        Reads batches of 100, eight at a time. ``skip_unreadable`` leaves out a record that cannot be read, as lists do,
        which log and count it. Raises ``ValidationError``.
        """
        found = stored.managed_entities.get_records(self.namespace_state, entity_ids, skip_unreadable=skip_unreadable)
        return await self._run(found)

    async def put_entity_records(
        self, records: Mapping[str, StoredEntity | None], *, principal: str | None = None
    ) -> dict[str, ZAELimiterError]:
        """Create, change or remove (``None``) these entities, in this order; return the error of each that failed.

        A removal leaves limits and buckets, and fails where there are children. Transactions of up to 25 entities
        each, one after the other. Raises ``ValidationError`` before any request.
        """
        cause = await self._cause(principal)
        return await self._run(stored.managed_entities.put_records(self.namespace_state, records, cause))

    async def list_entity_ids(self) -> list[str]:
        """Return the ids of all entities that have a record, sorted. A very recent change may be missing."""
        return await self._run(stored.managed_entities.list_ids(self.namespace_state))

    # namespaces

    async def register_namespace(self, name: str) -> Namespace:
        """Return the namespace with this name; register it if there is none, or only a deleted one.

        A namespace that takes the name of a deleted one has another id and no content. Raises ``ValidationError``.
        """
        return await self._run(stored.registry.register(new_namespace(name, self._clock)))

    async def get_namespace(self, name: str) -> Namespace | None:
        """Return the namespace in use under a name; ``None`` if there is none, or only a deleted one."""
        return await self._run(stored.registry.get(name))

    async def list_namespaces(self) -> list[Namespace]:
        """Return the namespaces in use, by name."""
        return await self._run(stored.registry.in_use())

    async def delete_namespace(self, name: str) -> Namespace:
        """Mark a namespace as deleted, and return it: no open finds it any more, and its content stays.

        Processes that have it open go on using it: stop them first. Raises ``NamespaceNotFoundError``.
        """
        return await self._run(stored.registry.delete(name, at=iso_time(self._clock)))

    async def recover_namespace(self, namespace_id: str) -> Namespace:
        """Bring a deleted namespace back under its name, with its content, and return it.

        Raises ``NamespaceNotFoundError``, and ``NamespaceStateError`` if it is not deleted, its name is taken, or its
        purge has begun.
        """
        return await self._run(stored.registry.recover(namespace_id))

    async def list_orphan_namespaces(self) -> list[Namespace]:
        """Return the namespaces that no open finds, the oldest first: they can be recovered or purged.

        A namespace that was purged within the last two days is listed if something was written to it since.
        """
        return await self._run(stored.registry.orphans())

    async def purge_namespace(self, namespace_id: str, *, on_progress: Progress | None = None) -> int:
        """Remove a deleted namespace for good, and return the number of items removed; then its name is free.

        Its id is remembered for two days, in which it can be purged again.
        ``on_progress`` is called with the number of items removed so far. An interrupted purge goes on
        when it is called again. Raises ``NamespaceNotFoundError``, and ``NamespaceStateError`` for one that is in use.
        """
        return await self._run(stored.registry.purge(namespace_id, at=iso_time(self._clock), on_progress=on_progress))
