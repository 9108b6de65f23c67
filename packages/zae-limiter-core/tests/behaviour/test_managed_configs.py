"""Config items of all levels are read, replaced and removed many at a time; in both variants."""

from datetime import UTC, datetime
from typing import Any

import pytest

from support.core.owners import maintenance_of
from support.core.worlds import Process, World
from zae_limiter import Limit, ValidationError
from zae_limiter.maintenance import StoredConfig
from zae_limiter.operations.errors import NotApplied
from zae_limiter.operations.values import Operation, Put, Transact
from zae_limiter.values.provisioner import ConfigPlace

RPM = (Limit.per_minute("rpm", 10),)
SYSTEM: ConfigPlace = (None, None)
CONFIGS: dict[ConfigPlace, StoredConfig | None] = {
    SYSTEM: StoredConfig(RPM, "allow", "f0"),
    (None, "gpt-4"): StoredConfig(RPM, fingerprint="f1"),
    ("user-1", "gpt-4"): StoredConfig(RPM, fingerprint="f2"),
    ("user-1", "_default_"): StoredConfig(RPM),
}


async def test_what_is_put_is_got_and_listed(world: World) -> None:
    repository = (await world.process()).repository
    result = await maintenance_of(repository).put_configs(CONFIGS)
    assert (set(result.done), result.failed) == (set(CONFIGS), {})
    assert await maintenance_of(repository).get_configs([*CONFIGS, (None, "absent")]) == CONFIGS
    lists: Any = [[*place] for place in CONFIGS]
    assert await maintenance_of(repository).get_configs(lists) == CONFIGS
    assert set(await maintenance_of(repository).list_config_places()) == set(CONFIGS)


async def test_what_is_none_is_removed_and_removing_it_again_is_no_error(world: World) -> None:
    repository = (await world.process()).repository
    await maintenance_of(repository).put_configs(CONFIGS)
    for _ in range(2):
        assert (await maintenance_of(repository).put_configs(dict.fromkeys(CONFIGS))).failed == {}
    assert await maintenance_of(repository).get_configs(list(CONFIGS)) == {}


async def test_what_the_system_says_of_a_store_that_is_away_goes_where_it_is_not_said_again(world: World) -> None:
    repository = (await world.process()).repository
    await repository.set_system_defaults(list(RPM), "allow")
    await maintenance_of(repository).put_configs({SYSTEM: StoredConfig(RPM)})
    assert await repository.get_system_defaults() == (list(RPM), None)
    await maintenance_of(repository).put_configs({SYSTEM: StoredConfig((), "block", "f")})
    assert await repository.get_system_defaults() == ([], "block")


async def test_a_change_by_hand_keeps_what_the_provisioner_wrote_last_and_the_rest(world: World) -> None:
    repository = (await world.process()).repository
    await maintenance_of(repository).put_configs(CONFIGS)
    await repository.set_system_defaults(list(RPM))
    await repository.set_limits("user-1", list(RPM), "gpt-4")
    found = await maintenance_of(repository).get_configs([SYSTEM, ("user-1", "gpt-4")])
    assert found == {place: CONFIGS[place] for place in found}
    other = (Limit.per_minute("rpm", 11),)
    await repository.set_limits("user-1", list(other), "gpt-4")
    found = await maintenance_of(repository).get_configs([("user-1", "gpt-4")])
    assert found == {("user-1", "gpt-4"): StoredConfig(other, fingerprint="f2")}


async def test_what_is_removed_and_set_again_by_hand_has_no_fingerprint(world: World) -> None:
    repository = (await world.process()).repository
    await maintenance_of(repository).put_configs(CONFIGS)
    await repository.delete_limits("user-1", "gpt-4")
    await repository.set_limits("user-1", list(RPM), "gpt-4")
    assert await maintenance_of(repository).get_configs([("user-1", "gpt-4")]) == {
        ("user-1", "gpt-4"): StoredConfig(RPM)
    }


async def test_two_hundred_and_fifty_are_read_in_batches_of_a_hundred(world: World) -> None:
    process = await world.process()
    configs: dict[ConfigPlace, StoredConfig | None] = {
        (f"user-{number}", "gpt-4"): StoredConfig(RPM) for number in range(250)
    }
    await maintenance_of(process.repository).put_configs(configs)
    process.wire.sent()
    assert await maintenance_of(process.repository).get_configs(list(configs)) == configs
    assert process.wire.sent() == ["BatchGet", "BatchGet", "BatchGet"]


async def test_one_change_that_the_store_refuses_takes_no_other_with_it(world: World) -> None:
    process = await world.process()
    refuse(process, "RESOURCE#gpt-4")
    result = await maintenance_of(process.repository).put_configs(CONFIGS)
    assert list(result.failed) == [(None, "gpt-4")]
    assert "refused" in str(result.failed[None, "gpt-4"])
    assert set(await maintenance_of(process.repository).get_configs(list(CONFIGS))) == {*CONFIGS} - {(None, "gpt-4")}


async def test_places_that_the_caller_found_empty_are_not_read_before_they_are_written(world: World) -> None:
    process = await world.process()
    place = (None, "gpt-4")
    process.wire.sent()
    await maintenance_of(process.repository).put_configs({place: StoredConfig(RPM)}, found_empty=[place])
    assert process.wire.sent() == ["Transact"]


async def test_a_place_that_is_no_longer_empty_is_read_and_keeps_its_override(world: World) -> None:
    repository = (await world.process()).repository
    place, other = ("user-1", "gpt-4"), ("user-2", "gpt-4")
    until = datetime.fromtimestamp(world.clock.now_ms() / 1000 + 60, UTC)
    await repository.set_limits("user-1", list(RPM), "gpt-4", override_until=until)
    configs: dict[ConfigPlace, StoredConfig | None] = dict.fromkeys((place, other), StoredConfig(RPM))
    assert (await maintenance_of(repository).put_configs(configs, found_empty=[place, other])).failed == {}
    found = await maintenance_of(repository).get_configs([place, other])
    assert [found[each].limits for each in (place, other)] == [RPM, RPM]
    assert found[place].override is not None


def refuse(process: Process, pk: str) -> None:
    """Every transaction that would put something there."""
    answer = process.wire.answer

    def picky(operation: Operation[Any]) -> Any:
        writes = operation.writes if isinstance(operation, Transact) else ()
        if any(isinstance(write, Put) and write.item["PK"].endswith(pk) for write in writes):
            raise NotApplied("refused")
        return answer(operation)

    process.wire.answer = picky  # type: ignore[method-assign]


async def test_bad_places_and_configs_are_refused_before_any_request(world: World) -> None:
    process = await world.process()
    bad: Any
    for bad in ([("a b", "gpt-4")], [(None, "_default_")], [("user-1", None)], [("a", "b", "c")], ["ab"]):
        with pytest.raises(ValidationError):
            await maintenance_of(process.repository).get_configs(bad)
    with pytest.raises(ValidationError, match="is for the system alone"):
        await maintenance_of(process.repository).put_configs({(None, "gpt-4"): StoredConfig(RPM, "allow")})
    for fields in ({"limits": ()}, {"limits": RPM, "on_unavailable": "maybe"}, {"limits": RPM, "fingerprint": ""}):
        with pytest.raises(ValidationError):
            StoredConfig(**fields)
    assert process.wire.sent() == []
