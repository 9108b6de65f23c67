"""What a call writes to a bucket: each form of docs/design/admission.md ("The write"), as the store sees it."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import pytest

from support.core.plays import MINUTE, NOW, RPM, bucket_item
from support.core.wires import SyncWireStore, Wire
from zae_limiter import Limit, Options, SyncRateLimiter, SyncRepository
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.operations.values import Conditions, Put, Update
from zae_limiter.schema.items import BucketId, rule_attributes
from zae_limiter.testing import ManualClock

TPM = Limit.per_minute("tpm", 6000, burst=9000)
RAISED, LOWERED = Limit.per_minute("rpm", 120), Limit.per_minute("rpm", 30)
CEILING = RPM._ceiling_milli
OF_A_MINUTE = NOW // 1000 + 60 + 7 * 60  # the ttl of a bucket that fills in a minute


class Process(NamedTuple):
    """One that has not seen the bucket yet."""

    limiter: SyncRateLimiter
    wire: Wire

    def last(self) -> Update:
        """The write that was sent last."""
        write = self.wire.seen[-1]
        assert isinstance(write, Update)
        return write

    def take(self, **amounts: int) -> Update:
        """The write of an acquire."""
        with self.limiter.acquire("e", "r", amounts):
            return self.last()

    def adjust(self, **amounts: int) -> Update:
        """The write of a correction behind a call for nothing, which writes nothing."""
        with self.limiter.acquire("e", "r", dict.fromkeys(amounts, 0)) as lease:
            lease.adjust(**amounts)
        return self.last()


def at(tokens: Mapping[Limit, int], *, elapsed_ms: int = 0, limits: list[Limit] | None = None, **item: Any) -> Process:
    """A process before a bucket, if any, with so many stored millitokens, so long after its anchor, and its limits."""
    wire = Wire(MemoryTable())
    repository = SyncRepository.over(SyncWireStore(wire), Options(clock=ManualClock(NOW)))
    if tokens:
        made = bucket_item(tokens, rf=NOW - elapsed_ms, **item)
        wire.table.execute(Put(made | BucketId(repository.namespace_id, "e", "r").attributes()))
    return Process(SyncRateLimiter(repository, default_limits=[*tokens] if limits is None else limits), wire)


def counters(**amounts: int) -> dict[str, int]:
    return {**amounts, "b_wcu_tc": 1000}


def test_a_relative_write_takes_between_the_cost_and_the_ceiling_as_of_the_anchor() -> None:
    write = at({RPM: 5000}, elapsed_ms=10_000).take(rpm=2)  # ten tokens minted since
    assert write.when == Conditions(
        absent=("ttl",),
        equals={"rf": NOW - 10_000},
        at_least={"b_rpm_tk": 2000 - 10_000},
        at_most={"b_rpm_tk": CEILING - 10_000},
    )
    assert write.add == counters(b_rpm_tk=-2000, b_rpm_tc=2000, ev=1)
    assert write.set == {"ttl": OF_A_MINUTE}


def test_an_absolute_write_at_the_ceiling_forgets_what_overflowed() -> None:
    write = at({RPM: 50_000}, elapsed_ms=MINUTE).take(rpm=2)
    least = {"b_rpm_tk": CEILING - MINUTE}
    assert write.when == Conditions(absent=("ttl",), equals={"rf": NOW - MINUTE}, at_least=least)
    assert write.set == {"b_rpm_tk": CEILING - MINUTE - 2000, "ttl": OF_A_MINUTE}
    assert write.add == counters(b_rpm_tc=2000, ev=1)


def test_a_minting_that_is_negative_counts_as_it_is() -> None:
    write = at({RPM: 60_000}, elapsed_ms=-500).take(rpm=2)  # the anchor was set by a fast clock
    assert (write.when.at_least, write.when.at_most) == ({"b_rpm_tk": 2000 + 500}, {"b_rpm_tk": CEILING + 500})


def test_a_correction_has_no_lower_bound_and_goes_into_debt() -> None:
    write = at({RPM: 0}, elapsed_ms=1000).adjust(rpm=90)
    assert write.when == Conditions(absent=("ttl",), equals={"rf": NOW - 1000}, at_most={"b_rpm_tk": CEILING - 1000})
    assert write.add == counters(b_rpm_tk=-90_000, b_rpm_tc=90_000)


def test_a_correction_at_the_ceiling_forgets_what_overflowed_too() -> None:
    write = at({RPM: 60_000}, elapsed_ms=30_000).adjust(rpm=90)
    assert write.when.at_least == {"b_rpm_tk": CEILING - 30_000}
    assert write.set["b_rpm_tk"] == CEILING - 30_000 - 90_000


@pytest.mark.parametrize("elapsed_ms", [1000, 10 * MINUTE])
def test_what_comes_back_asks_only_that_the_balance_is_there_and_not_split_since(elapsed_ms: int) -> None:
    it = at({RPM: 5000}, elapsed_ms=elapsed_ms)
    with suppress(ZeroDivisionError), it.limiter.acquire("e", "r", {"rpm": 3}):
        raise ZeroDivisionError
    write = it.last()
    assert write.when == Conditions(exists=("b_rpm_tk",), equals={"shard_count": 1})
    assert (write.add, write.set) == (counters(b_rpm_tk=3000, b_rpm_tc=-3000, ev=-1), {})


def test_each_limit_has_a_form_of_its_own() -> None:
    write = at({RPM: 1000, TPM: 9_000_000}, elapsed_ms=1000).take(rpm=1, tpm=500)
    assert write.when == Conditions(
        absent=("ttl",),
        equals={"rf": NOW - 1000},
        at_least={"b_rpm_tk": 1000 - 1000, "b_tpm_tk": 9_000_000 - 100_000},
        at_most={"b_rpm_tk": CEILING - 1000},
    )
    assert write.add == counters(b_rpm_tk=-1000, b_rpm_tc=1000, b_tpm_tc=500_000, ev=1)
    assert write.set["b_tpm_tk"] == 9_000_000 - 100_000 - 500_000


def test_a_limit_that_nobody_asks_of_is_left_alone() -> None:
    write = at({RPM: 1000, TPM: 9_000_000}, elapsed_ms=1000).take(rpm=1)
    touched = {*write.add, *write.set, *write.when.at_least, *write.when.at_most}
    assert not any("tpm" in name for name in touched)


def test_an_amount_of_zero_beside_another_asks_that_the_limit_is_not_in_debt() -> None:
    write = at({RPM: 1000, TPM: 0}, elapsed_ms=1000).take(rpm=1, tpm=0)
    assert write.when.at_least["b_tpm_tk"] == -100_000
    assert not {"b_tpm_tk", "b_tpm_tc"} & {*write.add, *write.set}


def test_a_missing_bucket_is_made_full_but_for_what_is_taken() -> None:
    it = at({}, limits=[RPM, TPM])
    with it.limiter.acquire("e", "r", {"rpm": 2}):
        put = it.wire.seen[-1]
    assert isinstance(put, Put)
    assert put.when == Conditions(absent=("PK",))
    made = bucket_item({RPM: CEILING - 2000, TPM: 9_000_000}, cv=NOW, ttl=NOW // 1000 + 60 + 7 * 2, b_rpm_tc=2000)
    assert put.item == made | BucketId(it.limiter.repository.namespace_id, "e", "r").attributes()


# another shape


def test_a_raised_limit_keeps_the_tokens_and_gets_the_rate_from_now_on() -> None:
    write = at({RPM: 5000}, elapsed_ms=10_000, limits=[RAISED]).take(rpm=2)
    assert write.when == Conditions(
        absent=("ttl",),
        equals={"rf": NOW - 10_000},
        at_least={"b_rpm_tk": 2000 - 10_000},
        at_most={"b_rpm_tk": CEILING - 10_000},
    )
    assert write.add == counters(b_rpm_tk=10_000 - 2000, b_rpm_tc=2000, ev=1)
    assert write.set == {**rule_attributes(RAISED), "rf": NOW, "cv": NOW, "ttl": OF_A_MINUTE}


def test_a_raised_limit_that_was_full_has_what_the_old_ceiling_held() -> None:
    write = at({RPM: 60_000}, elapsed_ms=10_000, limits=[RAISED]).take(rpm=2)
    assert write.when.at_least == {"b_rpm_tk": CEILING - 10_000}
    assert write.set["b_rpm_tk"] == CEILING - 2000


def test_a_lowered_limit_has_at_most_the_new_ceiling() -> None:
    write = at({RPM: 40_000}, elapsed_ms=10_000, limits=[LOWERED]).take(rpm=2)
    assert write.when.at_least == {"b_rpm_tk": 30_000 - 10_000}
    assert write.set["b_rpm_tk"] == 30_000 - 2000


def test_the_new_anchor_is_later_than_the_old_one_whatever_the_clock_says() -> None:
    write = at({RPM: 5000}, elapsed_ms=-500, limits=[RAISED]).take(rpm=2)
    assert write.set["rf"] == NOW + 500 + 1
    assert write.add["b_rpm_tk"] == 1 - 2000  # a millisecond mints one millitoken


def test_a_limit_that_is_new_to_the_bucket_starts_full() -> None:
    write = at({RPM: 5000}, elapsed_ms=10_000, limits=[RPM, TPM]).take(rpm=1, tpm=700)
    assert write.when.absent == ("b_tpm_tk", "ttl")
    assert write.set["b_tpm_tk"] == 9_000_000 - 700_000
    assert {**write.add, **write.set}["b_tpm_tc"] == 700_000
    assert {name: write.set[name] for name in rule_attributes(TPM)} == rule_attributes(TPM)
    assert write.add["b_rpm_tk"] == 10_000 - 1000


def test_a_limit_that_the_config_has_not_moves_to_the_new_anchor_and_keeps_its_rule() -> None:
    write = at({RPM: 5000, TPM: 1_000_000}, elapsed_ms=10_000, limits=[RAISED]).take(rpm=1)
    assert write.add["b_tpm_tk"] == 10_000 * 100  # what was minted until then
    assert "b_tpm_tc" not in write.add
    assert not {*rule_attributes(TPM)} & {*write.set, *write.remove}


def test_a_burst_that_is_no_longer_above_the_capacity_is_removed() -> None:
    write = at({TPM: 1_000_000}, limits=[Limit.per_minute("tpm", 6000)]).take(tpm=1)
    assert write.remove == ("b_tpm_bx",)


def test_a_bucket_with_more_limits_than_the_config_is_left_as_it_is() -> None:
    write = at({RPM: 5000, TPM: 1_000_000}, elapsed_ms=10_000, limits=[RPM]).take(rpm=1)
    assert "rf" not in write.set
    assert write.when.at_most == {"b_rpm_tk": CEILING - 10_000}


def test_corrections_alone_do_not_reshape() -> None:
    it = at({RPM: 5000}, elapsed_ms=10_000)
    with it.limiter.acquire("e", "r", {"rpm": 0}) as lease:
        it.limiter.repository.set_resource_defaults("r", [RAISED])
        lease.adjust(rpm=1)
    assert "rf" not in it.last().set
