"""Overrides are shown by every plan, and touched by none."""

from datetime import UTC, datetime, timedelta

from zae_limiter import Limit, SyncRepository
from zae_limiter.maintenance import SyncMaintenance
from zae_limiter_manifest import LimitsManifest, fingerprint
from zae_limiter_manifest.render import as_json, as_markdown, as_text
from zae_limiter_provisioner.apply import apply_manifest
from zae_limiter_provisioner.planning import answer_diff, answer_export, answer_plan

MANIFEST = LimitsManifest.from_yaml(
    "namespace: default\nentities: {e: {resources: {r: {limits: {rpm: {capacity: 5}}}}}}\n"
)
EMPTY = LimitsManifest.from_yaml("namespace: default\n")
MORE = Limit.per_minute("rpm", 50)


def overridden(entity: str = "e") -> SyncRepository:
    repository = SyncRepository.in_memory()
    repository.set_limits(entity, [MORE], "r", override_until=datetime.now(UTC) + timedelta(hours=1))
    return repository


def test_apply_writes_beneath_an_override_and_leaves_it() -> None:
    repository = overridden()
    override = repository.get_override("e", "r")
    assert apply_manifest(repository, MANIFEST)["created"] == 1
    assert (repository.get_limits("e", "r"), repository.get_override("e", "r")) == (
        [Limit.per_minute("rpm", 5)],
        override,
    )
    [config] = SyncMaintenance(repository).get_configs([("e", "r")]).values()
    assert config.fingerprint == fingerprint(dict(MANIFEST.declared()).popitem()[1])
    assert apply_manifest(repository, EMPTY)["deleted"] == 1
    assert (repository.get_limits("e", "r"), repository.get_override("e", "r")) == ([], override)


def test_an_override_is_no_drift_and_no_change_and_every_form_shows_it() -> None:
    repository = overridden()
    apply_manifest(repository, MANIFEST)
    repository.set_limits("e", [MORE], "r", override_until=datetime.now(UTC) + timedelta(days=2))
    before = answer_plan(repository, MANIFEST, take_over=False).plan
    diff = answer_diff(repository, MANIFEST).plan
    assert before is not None
    assert diff is not None
    assert (before.changes, diff.changes, diff.drifted) == ((), (), ())
    [override] = diff.overrides
    note = f"entity e/r (override until {override.until})"
    for text in (as_text.render_plan(before), as_text.render_drift(diff)):
        assert f"  = {note}\n      rpm: 50/min\n" in text
    for text in (as_markdown.render_plan(before), as_markdown.render_drift(diff)):
        assert f"entity `e/r` (override until {override.until})" in text
    for text in (as_json.render_plan(before), as_json.render_drift(diff)):
        assert f'"until": "{override.until.removesuffix("Z")}.000Z"' in text
    assert type(before).from_dict(before.to_dict()) == before
    repository.delete_override("e", "r")
    after = answer_plan(repository, MANIFEST, take_over=False).plan
    assert after is not None
    assert (after.overrides, after.changes_hash()) == ((), before.changes_hash())


def test_a_plan_shows_the_overrides_that_a_diff_shows_also_at_items_that_no_file_declares() -> None:
    repository = overridden("other")
    apply_manifest(repository, MANIFEST)
    repository.set_limits("by-hand", [MORE], "r")
    repository.set_limits("by-hand", [MORE], "r", override_until=datetime.now(UTC) + timedelta(hours=1))
    plan, diff = answer_plan(repository, MANIFEST, take_over=False).plan, answer_diff(repository, MANIFEST).plan
    assert plan is not None
    assert diff is not None
    assert [str(override.address) for override in plan.overrides] == ["entity by-hand/r", "entity other/r"]
    assert plan.overrides == diff.overrides
    assert (plan.changes, plan.unmanaged, len(diff.unmanaged)) == ((), (), 1)
    assert plan.changes_hash() == diff.changes_hash()


def test_an_override_alone_is_neither_unmanaged_nor_exported() -> None:
    repository = overridden("other")
    apply_manifest(repository, MANIFEST)
    diff, export = answer_diff(repository, MANIFEST).plan, answer_export(repository)
    assert diff is not None
    assert export.plan is not None
    assert export.manifest == MANIFEST
    assert (diff.unmanaged, len(diff.overrides), len(export.plan.overrides)) == ((), 1, 1)
