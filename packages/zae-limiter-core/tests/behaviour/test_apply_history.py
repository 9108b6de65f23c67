"""The history of applies: kept whole, bounded, of one namespace; read strictly."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from zae_limiter import RateLimiterUnavailable, SyncRepository, ValidationError
from zae_limiter.exceptions import StoreRefusedError
from zae_limiter.flows.steps import call
from zae_limiter.maintenance import APPLIES_KEPT, begin_apply, end_apply, list_applies, read_apply, run
from zae_limiter.operations.values import Delete, Key, Put, Query, Update
from zae_limiter.schema import keys
from zae_limiter.schema import provisioner as schema
from zae_limiter.schema.provisioner import ApplyPart, outdated, parse_sk
from zae_limiter.values.provisioner import ApplyProgress, ApplyRecord

RECORD = ApplyRecord(2, "2026-01-01T00:00:00Z", "cli", "sha256:0", principal="ann", source="9f", targets=("x",))


@pytest.fixture(params=["memory", "sqlite"])
def repository(request: pytest.FixtureRequest, tmp_path: Path) -> SyncRepository:
    if request.param == "memory":
        return SyncRepository.in_memory()
    return SyncRepository.sqlite(tmp_path / "limits.db")


def keep(repository: SyncRepository, record: ApplyRecord, content: str = "a manifest") -> int:
    return run(repository, begin_apply(repository.namespace_state, record, content))


def kept(repository: SyncRepository) -> list[ApplyRecord]:
    return run(repository, list_applies(repository.namespace_state))


def test_an_apply_is_kept_with_its_manifest_and_later_with_its_outcome(repository: SyncRepository) -> None:
    state = repository.namespace_state
    parts = keep(repository, RECORD)
    assert (parts, kept(repository)) == (1, [RECORD])
    ended = replace(RECORD, created=1, updated=2, deleted=3, failed=4, left=5, ended=True)
    run(repository, end_apply(state, ended, parts))
    assert kept(repository) == [ended]
    assert run(repository, read_apply(state, 2)) == (ended, "a manifest")
    assert run(repository, read_apply(state, 3)) is None


def test_a_large_manifest_is_split_and_comes_back_whole(repository: SyncRepository) -> None:
    content = "".join(chr(33 + number % 90) for number in range(1_000_001))
    assert keep(repository, RECORD, content) == 3
    assert run(repository, read_apply(repository.namespace_state, 2)) == (RECORD, content)


def test_the_last_applies_are_kept_by_their_serials_not_by_their_text(repository: SyncRepository) -> None:
    serials = range(1, 2 * APPLIES_KEPT + 20, 2)
    for serial in serials:
        keep(repository, replace(RECORD, serial=serial))
    assert [record.serial for record in kept(repository)] == list(reversed(serials))[:APPLIES_KEPT]
    pk = keys.pk_applies(repository.namespace_id)
    found = [parse_sk(item["SK"]) for item in run(repository, call(Query(pk))).items]
    assert {part.serial for part in found} == set(list(serials)[-APPLIES_KEPT:])


def test_namespaces_have_histories_of_their_own(repository: SyncRepository) -> None:
    other = repository.namespace("other")
    keep(repository, RECORD)
    assert kept(other) == []
    keep(other, replace(RECORD, serial=9))
    assert [[record.serial for record in kept(each)] for each in (repository, other)] == [[2], [9]]


def test_a_manifest_of_too_many_parts_is_refused_before_anything_is_written(
    repository: SyncRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "PART_BYTES", 1)
    with pytest.raises(ValidationError, match=r"100 parts.*must fit into 99 parts"):
        keep(repository, RECORD, "x" * 100)
    assert run(repository, call(Query(keys.pk_applies(repository.namespace_id)))).items == []


def test_a_missing_part_is_told_from_a_missing_apply(repository: SyncRepository) -> None:
    keep(repository, RECORD)
    run(repository, call(Delete(Key(keys.pk_applies(repository.namespace_id), keys.sk_apply(2, 1)))))
    with pytest.raises(RateLimiterUnavailable, match="the apply 2 cannot be read: 1 of 1 parts"):
        run(repository, read_apply(repository.namespace_state, 2))


@pytest.mark.parametrize(
    "change",
    [{"serial": "2"}, {"at": 7}, {"ended": 1}, {"targets": "x"}, {"targets": [7]}, {"created": -1}, {"owner": ""}],
    ids=str,
)
def test_a_record_that_nobody_wrote_is_skipped_and_counted(change: dict[str, Any]) -> None:
    repository = SyncRepository.in_memory()
    keep(repository, RECORD)
    key = Key(keys.pk_applies(repository.namespace_id), keys.sk_apply(2))
    run(repository, call(Update(key, set=change)))
    assert kept(repository) == []
    assert repository.get_store_stats().unreadable_rows == 1
    with pytest.raises(StoreRefusedError, match="APPLY"):
        run(repository, read_apply(repository.namespace_state, 2))


@pytest.mark.parametrize("change", [{"parts": 100}, {"parts": -1}, {"parts": "1"}], ids=str)
def test_a_number_of_parts_that_nobody_wrote_is_unreadable(change: dict[str, Any]) -> None:
    repository = SyncRepository.in_memory()
    keep(repository, RECORD)
    key = Key(keys.pk_applies(repository.namespace_id), keys.sk_apply(2))
    run(repository, call(Update(key, set=change)))
    with pytest.raises(StoreRefusedError, match="APPLY"):
        run(repository, read_apply(repository.namespace_state, 2))


def test_an_item_of_another_kind_in_the_history_stops_no_apply(repository: SyncRepository) -> None:
    ns = repository.namespace_id
    pk = keys.pk_applies(ns)
    run(repository, call(Put({"PK": pk, "SK": "#OTHER", "GSI4PK": ns, "GSI4SK": pk})))
    keep(repository, RECORD)
    assert kept(repository) == [RECORD]


def test_outdated_is_what_is_behind_the_last_ones_and_what_a_killed_apply_left() -> None:
    found = [ApplyPart(serial, place) for serial in (2, 4, 6) for place in (0, 1)]
    orphans = [ApplyPart(3, 1), ApplyPart(7, 1)]
    gone = set(outdated([*found, *orphans], most=2, newest=6))
    assert gone == {ApplyPart(2, 0), ApplyPart(2, 1), ApplyPart(3, 1)}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"serial": -1}, "serial"),
        ({"created": True}, "created"),
        ({"at": ""}, "at"),
        ({"principal": ""}, "principal"),
        ({"targets": "x"}, "targets"),
        ({"ended": 1}, "ended"),
    ],
    ids=str,
)
def test_a_record_is_valid_by_construction(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        replace(RECORD, **change)
    with pytest.raises(ValidationError, match="done"):
        ApplyProgress(-1, 0, 0, 0)


@pytest.mark.parametrize("serial", [-1, True, "2", None], ids=repr)
def test_a_serial_is_a_whole_number(repository: SyncRepository, serial: Any) -> None:
    with pytest.raises(ValidationError, match="serial"):
        run(repository, read_apply(repository.namespace_state, serial))
