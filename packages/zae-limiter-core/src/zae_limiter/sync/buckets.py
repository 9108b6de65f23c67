# Generated from aio/buckets.py by `just variants`: edit that one.
"""The sync repository's methods for buckets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..flows import bucket, records
from .flow_runner import SyncFlowRunner

if TYPE_CHECKING:
    from decimal import Decimal

    from ..values.buckets import Bucket, BucketPage, ResourceCapacity


class SyncBucketMethods(SyncFlowRunner):
    """The state of buckets, and tokens given by hand."""

    def get_bucket(self, entity_id: str, resource: str) -> Bucket | None:
        """Return the bucket of an entity on a resource; ``None`` if there is none, which is equivalent to a full one.

        The limits are the bucket's current ones: a changed config applies from the next acquire on. Those with a
        schedule have the values of now; to know it costs a request, if this process does not know the config.
        """
        return self._run(bucket.reading.get_bucket(self.namespace_state, entity_id, resource))

    def get_buckets(self, entity_id: str, resource: str | None = None) -> list[Bucket]:
        """Return the buckets of an entity, by resource; with ``resource`` only that one.

        A new bucket may take a moment to be listed.
        """
        return self._run(bucket.reading.get_buckets(self.namespace_state, entity_id, resource))

    def list_buckets(
        self,
        resource: str | None = None,
        *,
        limit: int = 100,
        next: str | None = None,  # noqa: A002 - what the page before calls it
    ) -> BucketPage:
        """Return up to ``limit`` (at most 1000) buckets of the namespace, or of a resource, in the order of their keys.

        ``next`` is that of the page before. A new bucket may take a moment to be listed. Raises ``ValidationError``.
        """
        return self._run(records.listing.list_buckets(self.namespace_state, resource, limit=limit, behind=next))

    def get_resource_capacity(self, resource: str) -> ResourceCapacity:
        """Return the total capacity of all entities' buckets of a resource, and the available part of it.

        Reads every bucket of the resource. A new bucket may take a moment to count.
        """
        return self._run(bucket.reading.get_resource_capacity(self.namespace_state, resource))

    def reset_bucket(
        self, entity_id: str, resource: str, *, principal: str | None = None, idempotency_key: str | None = None
    ) -> bool:
        """Reset all limits of a bucket to their initial balance, debt included; return whether there was a bucket.

        Slots stay with their holders, and the parent's bucket is left alone.

        The write includes an audit event; ``principal`` is its author. This process applies it at once; others may
        refuse by their cached state for up to their ``rejection_staleness``. ``idempotency_key``: as in
        ``credit_bucket``.
        """
        cause = self._cause(principal)
        reset = records.bucket_admin.reset_bucket(
            self.namespace_state, entity_id, resource, cause, idempotency_key=idempotency_key
        )
        return self._run(reset)

    def credit_bucket(
        self,
        entity_id: str,
        resource: str,
        tokens: Mapping[str, int | Decimal],
        *,
        principal: str | None = None,
        idempotency_key: str | None = None,
    ) -> bool:
        """Add ``tokens`` to a bucket, by limit, up to its ceiling; return whether there was one.

        What a rate has no room for is gone, as with a refill. A quota or a total without room for all of it is an
        error: raise the total's burst, or the quota for a time with ``override_until``.

        The count of consumed tokens does not change, and the parent's bucket is left alone. Audited and applied like
        ``reset_bucket``. With an ``idempotency_key`` (1 to 256 characters, as in an entity id) it is done once for the
        bucket, however often it is called within 30 days: a repeat returns ``True`` and changes nothing. Raises
        ``ValidationError``, also for a limit that the bucket lacks, or whose capacity is 0 there, and for a key that
        stands for something else.
        """
        cause = self._cause(principal)
        credit = records.bucket_admin.credit_bucket(
            self.namespace_state, entity_id, resource, tokens, cause, idempotency_key=idempotency_key
        )
        return self._run(credit)
