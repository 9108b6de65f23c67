"""A client and a stack that do not fit say so, both ways; in both variants."""

from typing import Any

import pytest

from support.core.owners import maintenance_of
from support.core.worlds import World
from zae_limiter import ValidationError
from zae_limiter.exceptions import (
    ClientTooOldError,
    NoUpgradePathError,
    OlderClientsError,
    StackTooOldError,
    VersionError,
)
from zae_limiter.maintenance import VersionRecord
from zae_limiter.operations.values import Put
from zae_limiter.schema.registry import version_item
from zae_limiter.values import versions
from zae_limiter.values.versions import (
    OLDEST_CLIENT,
    SCHEMA_VERSION,
    check_compatible,
    core_version,
    parse_version,
    record_over,
)

FITS = VersionRecord(SCHEMA_VERSION, core_version(), "0.1.0")


async def test_a_table_that_says_nothing_fits(world: World) -> None:
    process = await world.process()
    assert await maintenance_of(process.repository).get_version_record() is None
    await world.process("other")


async def test_a_record_comes_back_and_lets_in_whom_it_fits(world: World) -> None:
    process = await world.process()
    await maintenance_of(process.repository).set_version_record(FITS)
    assert await maintenance_of(process.repository).get_version_record() == FITS
    assert await maintenance_of((await world.process("other")).repository).get_version_record() == FITS


async def test_a_client_that_is_too_old_is_told_what_to_upgrade_to(world: World) -> None:
    process = await world.process()
    await maintenance_of(process.repository).set_version_record(VersionRecord(9, "9.2.0", "9.0.0"))
    with pytest.raises(ClientTooOldError, match=r"'my-app' needs zae-limiter-core 9\.0\.0 or newer") as caught:
        await world.process(stack="my-app")
    assert (caught.value.client_version, caught.value.min_client_version) == (core_version(), "9.0.0")
    with pytest.raises(VersionError):
        await process.repository.namespace("other")


async def test_a_stack_that_is_too_old_is_told_how_to_upgrade_it(world: World) -> None:
    process = await world.process()
    await maintenance_of(process.repository).set_version_record(VersionRecord(0, "0.0.1", "0.0.1"))
    with pytest.raises(StackTooOldError, match="zae-limiter upgrade --name my-app") as caught:
        await world.process(stack="my-app")
    assert (caught.value.schema_version, caught.value.oldest_schema_version) == (0, 1)


async def test_a_table_before_a_migration_is_used_once_no_client_is_admitted_that_would_misread(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = await world.process()
    monkeypatch.setattr(versions, "SCHEMA_VERSION", SCHEMA_VERSION + 1)
    await maintenance_of(process.repository).set_version_record(VersionRecord(SCHEMA_VERSION, "0.0.9", "0.1.0"))
    await world.process()
    await maintenance_of(process.repository).set_version_record(VersionRecord(SCHEMA_VERSION, "0.0.9", "0.0.9"))
    with pytest.raises(OlderClientsError, match=r"upgrade --name my-app --oldest-client 0\.1\.0"):
        await world.process(stack="my-app")


@pytest.mark.parametrize("fields", [{"schema_version": "0.7.0"}, {"core_version": None}, {"min_client_version": "any"}])
async def test_a_table_with_the_record_of_another_implementation_is_not_used(
    world: World, fields: dict[str, Any]
) -> None:
    process = await world.process()
    item = {**version_item(FITS), **fields}
    world.table.execute(Put({name: value for name, value in item.items() if value is not None}))
    told = "no upgrade leads from table 'my-app' to this release"
    with pytest.raises(NoUpgradePathError, match=told):
        await world.process(stack="my-app")
    with pytest.raises(NoUpgradePathError, match=next(iter(fields))):
        await maintenance_of(process.repository).get_version_record()


@pytest.mark.parametrize(("before", "after"), [("0.0.1", OLDEST_CLIENT), ("99.0.0", "99.0.0")])
def test_a_release_leaves_the_schema_to_migrations_and_lowers_no_bound(before: str, after: str) -> None:
    assert record_over(VersionRecord(7, "0.0.1", before)) == VersionRecord(7, core_version(), after)


async def test_a_client_that_is_refused_registers_nothing(world: World) -> None:
    process = await world.process()
    await maintenance_of(process.repository).set_version_record(VersionRecord(9, "9.2.0", "9.0.0"))
    with pytest.raises(ClientTooOldError):
        await world.process("other")
    assert [each.name for each in await process.repository.list_namespaces()] == ["default"]


async def test_what_upgrades_a_stack_gets_in(world: World) -> None:
    process = await world.process()
    await maintenance_of(process.repository).set_version_record(VersionRecord(0, "0.0.1", "0.0.1"))
    upgrader = await world.process(check_version=False)
    await maintenance_of(upgrader.repository).set_version_record(FITS)
    await world.process()


async def test_the_check_adds_no_request_to_an_open(world: World) -> None:
    process = await world.process()
    await maintenance_of(process.repository).set_version_record(FITS)
    world.meter.reset()
    await world.process()
    assert world.meter.requests == {"BatchGetItem": 1}


@pytest.mark.parametrize("bad", ["", "1", "v1.0", "1.x.0", "1.2.3.4.5 ", "1" * 65, None, 1])
def test_a_bad_version_is_refused(bad: Any) -> None:
    for fields in ({"core_version": bad}, {"min_client_version": bad}):
        with pytest.raises(ValidationError, match="version"):
            VersionRecord(**{"schema_version": 1, "core_version": "1.0.0", "min_client_version": "1.0.0", **fields})


@pytest.mark.parametrize("bad", [-1, 1.0, True, "1", None])
def test_a_bad_schema_version_is_refused(bad: Any) -> None:
    with pytest.raises(ValidationError, match="schema_version"):
        VersionRecord(bad, "1.0.0", "1.0.0")


async def test_what_is_no_record_is_refused_before_any_request(world: World) -> None:
    process = await world.process()
    with pytest.raises(ValidationError, match="must be a VersionRecord"):
        await maintenance_of(process.repository).set_version_record({"schema_version": 1})  # type: ignore[arg-type]
    assert process.wire.sent() == []


def test_versions_are_compared_as_numbers() -> None:
    assert parse_version("v", "0.10.0") > parse_version("v", "0.9.9")
    assert parse_version("v", "1.2") == parse_version("v", "1.2.0rc1") == (1, 2, 0)
    record = VersionRecord(SCHEMA_VERSION, "0.10.0", "0.10.0")
    check_compatible(record, stack="s", client_version="0.10.0")
    with pytest.raises(ClientTooOldError):
        check_compatible(record, stack="s", client_version="0.9.9")
