from collections.abc import Iterator
from typing import Any

import pytest

from zae_limiter import Limit, Options, SyncRepository
from zae_limiter.operations.capacity import Meter
from zae_limiter.operations.errors import NotApplied
from zae_limiter.operations.memory import MemoryStore
from zae_limiter.operations.values import Operation, Put, Transact
from zae_limiter.sync.store import SyncMemoryStore
from zae_limiter_manifest import LimitsManifest
from zae_limiter_provisioner.applying import apply_manifest


def manifest(**levels: Any) -> LimitsManifest:
    return LimitsManifest.from_dict({"namespace": "tenant-alpha", **levels})


def limits(capacity: int) -> dict[str, Any]:
    return {"limits": {"rpm": {"capacity": capacity}}}


EVERY_LEVEL = manifest(
    system={"on_unavailable": "allow", **limits(100)},
    resources={"gpt-4": limits(50)},
    entities={"user-1": {"resources": {"gpt-4": limits(20), "_default_": limits(10)}}},
)


class WritesOf(SyncMemoryStore):
    """A table that is away for every write to one key."""

    def __init__(self, away: str) -> None:
        super().__init__()
        self.away = away

    def perform(self, operation: Operation) -> Any:
        writes = operation.writes if isinstance(operation, Transact) else ()
        puts = [write for write in writes if isinstance(write, Put)]
        if any(self.away in put.item["PK"] for put in puts):
            raise NotApplied("away")
        return super().perform(operation)


@pytest.fixture
def meter() -> Meter:
    return Meter()


@pytest.fixture
def repository(meter: Meter) -> Iterator[SyncRepository]:
    with SyncRepository.over(SyncMemoryStore(MemoryStore(meter)), Options(namespace="tenant-alpha")) as repository:
        yield repository


def test_every_level_that_is_declared_is_written(repository: SyncRepository) -> None:
    done = apply_manifest(repository, EVERY_LEVEL)
    assert (done["status"], done["created"], done["updated"], done["errors"]) == ("applied", 4, 0, [])
    assert done["manifest_hash"] == EVERY_LEVEL.canonical_hash()
    assert repository.get_system_defaults() == ([Limit.per_minute("rpm", 100)], "allow")
    assert repository.get_resource_defaults("gpt-4") == [Limit.per_minute("rpm", 50)]
    assert repository.get_limits("user-1", "gpt-4") == [Limit.per_minute("rpm", 20)]
    assert repository.get_limits("user-1") == [Limit.per_minute("rpm", 10)]


def test_applying_it_again_writes_nothing(repository: SyncRepository, meter: Meter) -> None:
    apply_manifest(repository, EVERY_LEVEL)
    meter.reset()
    done = apply_manifest(repository, EVERY_LEVEL)
    assert (done["status"], done["created"], done["updated"], done["changes"]) == ("applied", 0, 0, [])
    assert meter.write_units == 0


def test_only_what_differs_is_written_and_what_is_not_named_is_left_alone(repository: SyncRepository) -> None:
    apply_manifest(repository, EVERY_LEVEL)
    done = apply_manifest(repository, manifest(resources={"gpt-4": limits(60), "gpt-5": limits(5)}))
    assert [(change["action"], change["target"]) for change in done["changes"]] == [
        ("update", "gpt-4"),
        ("create", "gpt-5"),
    ]
    assert repository.get_limits("user-1", "gpt-4") == [Limit.per_minute("rpm", 20)]


def test_the_system_may_say_on_unavailable_alone(repository: SyncRepository) -> None:
    done = apply_manifest(repository, manifest(system={"on_unavailable": "allow"}))
    assert (done["status"], done["created"]) == ("applied", 1)
    assert repository.get_system_defaults() == ([], "allow")


def test_the_limits_go_to_the_manifests_namespace_which_is_registered() -> None:
    with SyncRepository.in_memory("another") as repository:
        apply_manifest(repository, EVERY_LEVEL)
        assert repository.get_resource_defaults("gpt-4") == []
        assert repository.namespace("tenant-alpha").get_resource_defaults("gpt-4") == [Limit.per_minute("rpm", 50)]


def test_a_write_that_fails_is_told_and_the_others_are_made() -> None:
    with SyncRepository.over(WritesOf("RESOURCE#gpt-4"), Options(namespace="tenant-alpha")) as repository:
        done = apply_manifest(repository, EVERY_LEVEL)
        assert (done["status"], done["created"]) == ("partial", 3)
        (error,) = done["errors"]
        assert (error["code"], error["level"], error["target"]) == ("not_written", "resource", "gpt-4")
        assert "away" in error["message"]
        assert repository.get_limits("user-1") == [Limit.per_minute("rpm", 10)]
