"""The sync repository's methods for buckets.

Lives here: a list of methods, each a flow and its checks. Never: a rule.
"""

from ..buckets import Bucket, ResourceCapacity
from ..flows import buckets
from ..flows.outward import checked_place
from ..naming import check_identifier, check_resource
from .running import SyncRunning


class SyncBucketMethods(SyncRunning):
    """How buckets stand."""

    def get_bucket(self, entity_id: str, resource: str) -> Bucket | None:
        """What an entity has left of a resource; ``None`` where there is no bucket, which is as good as a full one.

        The limits are those that the bucket has now: it obeys a changed config from its next acquire on.
        """
        checked_place(entity_id, resource)
        return self._run(buckets.get_bucket(self.scope, entity_id, resource))

    def get_buckets(self, entity_id: str, resource: str | None = None) -> list[Bucket]:
        """The buckets of an entity, by resource; only that of ``resource``, where it is given.

        A bucket may take a moment to be listed after it was made.
        """
        check_identifier("entity_id", entity_id)
        checked = None if resource is None else check_resource("resource", resource)
        return self._run(buckets.get_buckets(self.scope, entity_id, checked))

    def get_resource_capacity(self, resource: str) -> ResourceCapacity:
        """How much capacity all entities' buckets of a resource have together, and how much is available.

        Reads every bucket of the resource. A bucket may take a moment to count after it was made.
        """
        check_resource("resource", resource)
        return self._run(buckets.get_resource_capacity(self.scope, resource))
