"""A process that was idle, frozen or thawed: nobody uncounted while the store answers, nobody refused without a reason.

The table: idle times from one second to ten minutes, outages, policies, the ways in which a process is idle.
"""

from itertools import cycle, product
from typing import get_args

import pytest

from processes.idle import (
    BUDGET_SECONDS,
    CAPACITY,
    CROWD,
    LASTING_SECONDS,
    REQUEST_SECONDS,
    AsyncLife,
    Life,
    Outage,
    SyncLife,
    Told,
    Way,
)
from zae_limiter.values.limits import Policy

IDLE_TIMES = (1.0, 2.0, 3.5, 12.0, 60.0, 600.0)
WAYS = [*(("async", way) for way in get_args(Way)), ("sync", "running"), ("sync", "frozen")]
OUTAGES: tuple[Outage, ...] = get_args(Outage)
POLICIES: tuple[Policy, ...] = ("allow", "block")


def lived(variant: str, life: Life) -> list[Told]:
    return (AsyncLife if variant == "async" else SyncLife)(life).run()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("variant", "way"), WAYS)
def test_an_outage_that_ended_in_an_idle_time_is_over(variant: str, way: Way, policy: Policy) -> None:
    first, second = lived(variant, Life(way, "refused", policy, 12.0, mended=True))
    assert dict(first.answers) == {"counted": CAPACITY - 1, "refused": CROWD - CAPACITY + 1}
    assert set(second.answers) == {"refused"}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("variant", ["async", "sync"])
def test_requests_that_outlast_a_freeze_do_not_show_an_outage(variant: str, policy: Policy) -> None:
    first, _ = lived(variant, Life("frozen", "none", policy, 12.0, mended=True, under_way=5))
    assert dict(first.answers) == {"counted": CAPACITY - 4, "refused": CROWD - CAPACITY + 4}


@pytest.mark.long(keep=6)
@pytest.mark.slow
@pytest.mark.parametrize("lasting", [0.0, LASTING_SECONDS], ids=["short", "long"])
@pytest.mark.parametrize("outage", OUTAGES)
@pytest.mark.parametrize(("variant", "way"), WAYS)
def test_a_store_that_answers_counts_every_call_behind_an_idle_time(
    variant: str, way: Way, outage: Outage, lasting: float
) -> None:
    wrong = {}
    for idle, policy in zip(IDLE_TIMES, cycle(POLICIES if outage in {"none", "hung"} else POLICIES[::-1])):
        life = Life(way, outage, policy, idle, mended=True, lasting=lasting)
        first, second = lived(variant, life)
        left = CAPACITY - 1 if outage in {"hung", "refused"} else CAPACITY - 4  # where the three calls are counted, too
        if dict(first.answers) != {"counted": left, "refused": CROWD - left} or set(second.answers) != {"refused"}:
            wrong[idle, policy] = first, second
    assert not wrong


@pytest.mark.long(keep=2)
@pytest.mark.slow
@pytest.mark.parametrize("outage", ["hung", "refused"])
@pytest.mark.parametrize(("variant", "way"), WAYS)
def test_a_store_that_is_still_away_is_asked_by_few_and_holds_nobody_up_for_long(
    variant: str, way: Way, outage: Outage
) -> None:
    wrong = {}
    for idle, policy in product(IDLE_TIMES, POLICIES):
        life = Life(way, outage, policy, idle, mended=False)
        first, second = lived(variant, life)
        expected = {"uncounted" if policy == "allow" else "unavailable": CROWD}
        waits = 0.0 if way == "running" else REQUEST_SECONDS if outage == "hung" else 0.1
        if (
            dict(first.answers) != expected
            or dict(second.answers) != expected
            or first.seconds > min(waits, BUDGET_SECONDS) + 0.05
            or second.seconds > 0.05
            or first.requests + second.requests > 5
        ):
            wrong[idle, policy] = first, second
    assert not wrong
