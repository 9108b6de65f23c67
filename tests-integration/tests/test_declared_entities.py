"""What lives here: applies of trees of entities that die over a real store.
What never does: every rule of a tree (the manifest's and the provisioner's own tests).
"""

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from support.integration.harness import Harness
from support.integration.trees import DEEP, MOVED, RETIERED, TIERS, TREE, TURNED
from zae_limiter import Options, SyncRepository
from zae_limiter.engines.dynamodb.sync.store import SyncDynamoDBStore
from zae_limiter.maintenance import SyncMaintenance
from zae_limiter.operations.values import BatchWrite, Delete, Put, Transact, Update
from zae_limiter_manifest import LimitsManifest, load
from zae_limiter_provisioner.apply import apply_manifest


class Killed(Exception):
    """The process is gone."""


class Mortal(SyncDynamoDBStore):
    """A store whose process dies at its write number ``dies_at``, before or after the table applied it."""

    dies_at = 10**9
    applied = False
    written = -1

    def perform(self, operation: Any) -> Any:
        self.written += isinstance(operation, (Put, Update, Delete, Transact, BatchWrite))
        if self.written < self.dies_at:
            return super().perform(operation)
        if self.written == self.dies_at and self.applied:
            self.dies_at = -1
            super().perform(operation)
        raise Killed


@pytest.mark.long(keep=2)
@pytest.mark.needs("endpoint", "atomic")
@pytest.mark.parametrize("variant", ["sync"])  # the provisioner blocks
@pytest.mark.parametrize(
    ("tree", "moved"),
    [(TREE, MOVED), (DEEP, TURNED), (TIERS, RETIERED)],
    ids=["two-levels", "deep", "tiers"],
)
async def test_an_apply_that_dies_at_any_write_is_finished_by_the_next_one(
    harness: Harness, tree: str, moved: str
) -> None:
    await harness.open()

    for applied in (False, True):
        at = 0
        while dies(harness, at, (tree, moved), applied=applied):
            at += 1
        assert at > 4


def dies(harness: Harness, at: int, texts: tuple[str, str], *, applied: bool) -> bool:
    """Let an apply die at that write, and make another one; return whether the first died."""
    before, after = (
        LimitsManifest.from_dict({**load(text).to_dict(), "namespace": f"tree-{applied}-{at}"}) for text in texts
    )
    mortal = Mortal(harness.table_name, endpoint_url=harness.target.endpoint_url, region="us-east-1")
    with opened(harness, before.namespace, mortal) as repository:
        assert apply_manifest(repository, before)["status"] == "applied"
        mortal.dies_at, mortal.applied, mortal.written = at, applied, -1
        with suppress(Killed):
            apply_manifest(repository, after)
    store = SyncDynamoDBStore(harness.table_name, endpoint_url=harness.target.endpoint_url, region="us-east-1")
    with opened(harness, before.namespace, store) as repository:
        state = SyncMaintenance(repository).get_provisioner_state()
        if state.lock:  # its end is minutes away
            SyncMaintenance(repository).put_provisioner_state(replace(state, lock=None), expected_serial=state.serial)
        answer: Any = apply_manifest(repository, after)
        assert (answer["status"], answer.get("errors", [])) == ("applied", [])
        records = SyncMaintenance(repository).get_entity_records(SyncMaintenance(repository).list_entity_ids())
        declared = {entity: own.parents for entity, own in after.entities.items()}
        assert {entity: each.parent_ids for entity, each in records.items()} == declared
        for entity, record in records.items():
            children = [child for child in sorted(declared) if entity in declared[child]]
            assert record.children == len(children)
            assert [each.entity_id for each in repository.get_children(entity)] == children
        assert repository.get_limits("acme") == []
        assert {entity: each.tier for entity, each in records.items()} == {
            entity: own.tier for entity, own in after.entities.items()
        }
        assert repository.list_tiers() == {tier: list(own.resources) for tier, own in after.tiers.items()}
        for tier, own in after.tiers.items():
            having = [entity for entity, each in records.items() if each.tier == tier]
            assert repository.list_entities_of_tier(tier) == sorted(having)
            for resource, decl in own.resources.items():
                limits = repository.get_tier_limits(tier, resource)
                assert [(each.name, each.capacity) for each in limits] == [
                    (name, limit.capacity) for name, limit in decl.limits.items()
                ]
    return mortal.written >= at


def opened(harness: Harness, namespace: str, store: SyncDynamoDBStore) -> SyncRepository:
    return SyncRepository.over(store, Options(stack=harness.table_name, namespace=namespace))
