import pytest

from zae_limiter import Limit
from zae_limiter_manifest import LimitsManifest
from zae_limiter_provisioner.changes import NOTHING, Address, Change, Config, compare, desired_configs

MANIFEST = LimitsManifest.from_dict(
    {
        "namespace": "tenant-alpha",
        "system": {"on_unavailable": "allow"},
        "resources": {"gpt-4": {"limits": {"tpm": {"capacity": 50, "burst": 75}, "rpm": {"capacity": 10}}}},
        "entities": {
            "user-2": {"resources": {"gpt-4": {"limits": {"rpm": {"capacity": 5, "refill_period": 1}}}}},
            "user-1": {"resources": {"_default_": {"limits": {"rpm": {"capacity": 7, "refill_amount": 1}}}}},
        },
    }
)
SYSTEM, GPT_4 = Address("system"), Address("resource", "gpt-4")
USER_1, USER_2 = Address("entity", "_default_", "user-1"), Address("entity", "gpt-4", "user-2")
RPM = Limit.per_minute("rpm", 10)


def test_a_manifest_is_configs_in_the_order_of_levels() -> None:
    assert list(desired_configs(MANIFEST).items()) == [
        (SYSTEM, Config(on_unavailable="allow")),
        (GPT_4, Config((RPM, Limit.per_minute("tpm", 50, burst=75)))),
        (USER_1, Config((Limit.custom("rpm", 7, refill_amount=1),))),
        (USER_2, Config((Limit.per_second("rpm", 5),))),
    ]


def test_what_is_absent_is_created_what_differs_is_updated_what_is_equal_stays() -> None:
    desired = desired_configs(MANIFEST)
    live = {**desired, GPT_4: Config((RPM,)), USER_1: NOTHING}
    assert [(change.action, change.address) for change in compare(desired, live)] == [
        ("update", GPT_4),
        ("create", USER_1),
    ]


def test_live_that_is_desired_needs_no_change() -> None:
    desired = desired_configs(MANIFEST)
    assert compare(desired, desired) == []


@pytest.mark.parametrize(
    ("desired", "live", "after"),
    [
        (Config((), "block"), Config((RPM,), "allow"), Config((RPM,), "block")),
        (Config((RPM,)), Config((), "allow"), Config((RPM,), "allow")),
    ],
    ids=["on_unavailable alone", "limits alone"],
)
def test_what_the_system_level_does_not_say_stays(desired: Config, live: Config, after: Config) -> None:
    assert compare({SYSTEM: desired}, {SYSTEM: live}) == [Change(SYSTEM, live, after)]


def test_a_change_that_changes_nothing_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="no change"):
        Change(SYSTEM, Config((RPM,)), Config((RPM,)))
