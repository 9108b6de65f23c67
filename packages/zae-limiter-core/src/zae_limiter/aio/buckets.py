"""The async repository's methods for buckets.

Lives here: a list of methods, each a flow and its checks. Never: a rule.
"""

from collections.abc import Mapping

from ..buckets import Bucket, ResourceCapacity
from ..flows.acquire.requests import validate_place
from ..flows.bucket import reading as buckets
from ..flows.records import bucket_admin as giving
from ..naming import check_identifier, check_resource
from .flow_runner import FlowRunner


class BucketMethods(FlowRunner):
    """How buckets stand, and tokens given by hand."""

    async def get_bucket(self, entity_id: str, resource: str) -> Bucket | None:
        """What an entity has left of a resource; ``None`` where there is no bucket, which is as good as a full one.

        The limits are those that the bucket has now: it obeys a changed config from its next acquire on.
        """
        validate_place(entity_id, resource)
        return await self._run(buckets.get_bucket(self.namespace_state, entity_id, resource))

    async def get_buckets(self, entity_id: str, resource: str | None = None) -> list[Bucket]:
        """The buckets of an entity, by resource; only that of ``resource``, where it is given.

        A bucket may take a moment to be listed after it was made.
        """
        check_identifier("entity_id", entity_id)
        checked = None if resource is None else check_resource("resource", resource)
        return await self._run(buckets.get_buckets(self.namespace_state, entity_id, checked))

    async def get_resource_capacity(self, resource: str) -> ResourceCapacity:
        """How much capacity all entities' buckets of a resource have together, and how much is available.

        Reads every bucket of the resource. A bucket may take a moment to count after it was made.
        """
        check_resource("resource", resource)
        return await self._run(buckets.get_resource_capacity(self.namespace_state, resource))

    async def reset_bucket(self, entity_id: str, resource: str, *, principal: str | None = None) -> bool:
        """Whether there was a bucket: all its limits are full now, debt is forgotten. Its parent's is left alone.

        Written together with an audit event; ``principal`` says whose change it is. This process obeys at once, others
        refuse by what they last saw for up to their ``rejection_staleness``.
        """
        validate_place(entity_id, resource)
        cause = self._cause(principal)
        return await self._run(giving.reset_bucket(self.namespace_state, entity_id, resource, cause))

    async def credit_bucket(
        self, entity_id: str, resource: str, tokens: Mapping[str, int], *, principal: str | None = None
    ) -> bool:
        """Whether there was a bucket: it has so many ``tokens`` more now, by limit, but never more than its ceiling.

        What was consumed is not counted less for it, and its parent's bucket is left alone. Audited, and obeyed, as
        ``reset_bucket``. Raises ``ValidationError``, for a limit too that the bucket has not.
        """
        validate_place(entity_id, resource)
        credit, cause = giving.validate_credit(tokens), self._cause(principal)
        return await self._run(giving.credit_bucket(self.namespace_state, entity_id, resource, credit, cause))
