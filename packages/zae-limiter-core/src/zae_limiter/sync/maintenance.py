# Generated from aio/maintenance.py by `just variants`: edit that one.
"""What the Lambdas and the command line do with a repository: the provisioner's state, many records, live buckets."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from ..flows import bucket
from ..flows import records as stored
from ..wiring import iso_time
from .flow_runner import SyncFlowRunner

if TYPE_CHECKING:
    from ..exceptions import ZAELimiterError
    from ..flows.records.registry import Progress
    from ..values.buckets import Bucket, InvalidatedBuckets, LiveBuckets
    from ..values.bulk import BulkResult
    from ..values.namespaces import Namespace
    from ..values.provisioner import ConfigPlace, ProvisionerState, StoredConfig, StoredEntity
    from ..values.usage import UsageSnapshot
    from ..values.versions import VersionRecord
    from .repository import SyncRepository


class SyncMaintenance(SyncFlowRunner):
    """The methods of a repository that applications do not need: what the provisioner keeps, stored records by the
    hundred, live buckets after a change, deleted namespaces, and the version of the stack.
    """

    def __init__(self, repository: SyncRepository) -> None:
        super().__init__(repository.driver, repository.namespace_state, repository._options, repository._clock)

    def get_version_record(self) -> VersionRecord | None:
        """Return the version record of the stack; ``None`` without one, which fits every client."""
        return self._run(stored.registry.get_version_record(self.namespace_state.stack))

    def set_version_record(self, record: VersionRecord) -> None:
        """Replace the version record of the stack, for all namespaces; every open checks it."""
        self._run(stored.registry.set_version_record(record))

    def get_provisioner_state(self) -> ProvisionerState:
        """Return the provisioner's state of this namespace; an empty state if there is none."""
        return self._run(stored.provisioner_state.get_state(self.namespace_state))

    def put_provisioner_state(self, state: ProvisionerState, *, expected_serial: int) -> ProvisionerState:
        """Store a state, and return it with its new serial, the one after ``expected_serial``.

        ``expected_serial`` is that of the state to replace, 0 for none; ``state.serial`` is ignored. Raises
        ``StaleStateError`` if the stored serial differs, and ``ValidationError``.
        """
        tag = int.from_bytes(os.urandom(5)) >> 1
        put = stored.provisioner_state.put_state(self.namespace_state, state, expected_serial=expected_serial, tag=tag)
        return self._run(put)

    def note_applied(self, *, expected_serial: int) -> str:
        """Store the current time as ``last_applied``, and return it; everything else stays, the serial too.

        Raises ``StaleStateError`` if the state has another serial, and ``ValidationError``.
        """
        now = iso_time(self._clock)
        return self._run(
            stored.provisioner_state.note_applied(self.namespace_state, now, expected_serial=expected_serial)
        )

    def get_configs(
        self, places: Sequence[ConfigPlace], *, skip_unreadable: bool = False
    ) -> dict[ConfigPlace, StoredConfig]:
        """Return the stored configs by place: ``(entity_id, resource)``, either may be ``None``; empty places are left
        out.

        Reads batches of 100, eight at a time. ``skip_unreadable`` leaves out a config that cannot be read, as lists do,
        which log and count it. Raises ``ValidationError``.
        """
        found = stored.many_levels.get_configs(self.namespace_state, places, skip_unreadable=skip_unreadable)
        return self._run(found)

    def put_configs(
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
        cause = self._cause(principal)
        return self._run(stored.many_levels.put_configs(self.namespace_state, configs, cause, found_empty))

    def list_config_places(self) -> list[ConfigPlace]:
        """Return the places with limits: the system, and all resources and entities that have some.

        A very recent change may be missing.
        """
        return self._run(stored.many_levels.list_config_places(self.namespace_state))

    def list_patterns(self) -> list[str]:
        """Return the patterns of resources that have limits, or switches, by name."""
        return sorted(self._run(stored.listing.read_patterns(self.namespace_state)))

    def list_own_resources(self, entity_id: str) -> list[str]:
        """Return the resources on which an entity has limits, switches or an override of its own, by name; last
        ``_default_``. Raises ``ValidationError``.
        """
        return self._run(stored.listing.own_resources(self.namespace_state, entity_id))

    def get_entity_records(
        self, entity_ids: Sequence[str], *, skip_unreadable: bool = False
    ) -> dict[str, StoredEntity]:
        """Return what is stored of these entities, by id; those without a record are left out.

        Reads batches of 100, eight at a time. ``skip_unreadable`` leaves out a record that cannot be read, as lists do,
        which log and count it. Raises ``ValidationError``.
        """
        found = stored.managed_entities.get_records(self.namespace_state, entity_ids, skip_unreadable=skip_unreadable)
        return self._run(found)

    def put_entity_records(
        self, records: Mapping[str, StoredEntity | None], *, principal: str | None = None
    ) -> dict[str, ZAELimiterError]:
        """Create, change or remove (``None``) these entities, in this order; return the error of each that failed.

        A removal leaves limits and buckets, and fails where there are children. Transactions of up to 25 entities
        each, one after the other. Raises ``ValidationError`` before any request.
        """
        cause = self._cause(principal)
        return self._run(stored.managed_entities.put_records(self.namespace_state, records, cause))

    def list_entity_ids(self) -> list[str]:
        """Return the ids of all entities that have a record, sorted. A very recent change may be missing."""
        return self._run(stored.managed_entities.list_ids(self.namespace_state))

    # live buckets

    def count_live_buckets(self, resource: str | None = None, *, for_switches: bool = False) -> LiveBuckets:
        """Return the number of live buckets that ``tell_live_buckets`` would invalidate, and of the writes of that.

        Reads rows of indexes: about 50 of them for a read unit. Raises ``ValidationError``.
        """
        return self._run(stored.levels.count_live_buckets(self.namespace_state, resource, for_switches=for_switches))

    def invalidate_live_buckets(
        self,
        resource: str | None = None,
        *,
        writes_per_second: float = 500,
        on_progress: Callable[[int], None] | None = None,
        for_switches: bool = False,
    ) -> InvalidatedBuckets:
        """Invalidate the live buckets of a resource after a change of its limits, or with ``None`` those of the
        namespace to which the system's limits apply; return their number.

        Every process applies the new limits from its next request on, before its cached config expires. Each bucket
        costs a write for each shard, at most ``writes_per_second`` of them. Buckets of entities with limits of their
        own are skipped, unless ``for_switches``, because switches apply to them, too. ``on_progress`` is called with
        the number of buckets done so far. After an interruption the same call goes on: it skips the buckets that it
        has done since the last change. Raises ``ValidationError``.
        """
        return self._run(
            stored.levels.invalidate_level(
                self.namespace_state,
                resource,
                writes_per_second=writes_per_second,
                on_progress=on_progress,
                for_switches=for_switches,
            )
        )

    def get_buckets_at(self, places: Sequence[tuple[str, str]]) -> list[Bucket]:
        """Return the buckets at up to 1000 places, each an entity and a resource; leave out those that are not there.

        Costs a read of a hundred of them at a time, and as many for buckets with several shards. Raises
        ``ValidationError``.
        """
        return self._run(bucket.reading.get_buckets_at(self.namespace_state, places))

    def get_last_calls(self, entity_ids: Sequence[str]) -> dict[str, UsageSnapshot]:
        """Return the newest window of usage of each entity in which a call of it was admitted, on whatever resource;
        leave out entities that have none.

        Costs a query for each entity and each resource that it has used. Usage is some seconds behind, and windows go
        when they expire. Raises ``ValidationError``.
        """
        return self._run(stored.last_calls.get_last_calls(self.namespace_state, entity_ids))

    def merge_bucket(self, entity_id: str, resource: str) -> int:
        """Merge the shards of a bucket into one; return how many have gone: 0 if it has one, or there is none.

        The tokens of all shards are added up. The aggregator merges idle buckets by itself; a bucket that is written
        too often raises ``ContentionError``, and may have fewer shards then. No audit
        event is written, as for a split.
        """
        return self._run(stored.bucket_admin.merge_shards(self.namespace_state, entity_id, resource))

    # deleted namespaces

    def list_orphan_namespaces(self) -> list[Namespace]:
        """Return the namespaces that no open finds, the oldest first: they can be recovered or purged.

        A namespace that was purged within the last two days is listed if something was written to it since.
        """
        return self._run(stored.registry.orphans())

    def recover_namespace(self, namespace_id: str) -> Namespace:
        """Bring a deleted namespace back under its name, with its content, and return it.

        Raises ``NamespaceNotFoundError``, and ``NamespaceStateError`` if it is not deleted, its name is taken, or its
        purge has begun.
        """
        return self._run(stored.registry.recover(namespace_id))

    def purge_namespace(self, namespace_id: str, *, on_progress: Progress | None = None) -> int:
        """Remove a deleted namespace for good, and return the number of items removed; then its name is free.

        Its id is remembered for two days, in which it can be purged again.
        ``on_progress`` is called with the number of items removed so far. An interrupted purge goes on
        when it is called again. Raises ``NamespaceNotFoundError``, and ``NamespaceStateError`` for one that is in use.
        """
        return self._run(stored.registry.purge(namespace_id, at=iso_time(self._clock), on_progress=on_progress))
