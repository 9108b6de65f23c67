from zae_limiter import Limit
from zae_limiter_provisioner.answers import answer, failure
from zae_limiter_provisioner.changes import NOTHING, Address, Change, Config

USER = Address("entity", "gpt-4", "user-123")
UPDATE = Change(USER, Config((Limit.per_minute("rpm", 400),)), Config((Limit.per_minute("rpm", 500),)))
CREATE = Change(Address("resource", "gpt-4"), NOTHING, Config((Limit.per_second("rpm", 5, burst=9),)))


def test_an_update_is_told_with_its_limits_before_and_after() -> None:
    assert answer(written=[UPDATE], namespace="tenant-alpha", manifest_hash="sha256:0") == {
        "status": "applied",
        "namespace": "tenant-alpha",
        "manifest_hash": "sha256:0",
        "changes": [
            {
                "action": "update",
                "level": "entity",
                "entity": "user-123",
                "resource": "gpt-4",
                "target": "user-123/gpt-4",
                "limits": {"rpm": {"capacity": 500}},
                "before": {"rpm": {"capacity": 400}},
            }
        ],
        "created": 0,
        "updated": 1,
        "deleted": 0,
        "errors": [],
    }


def test_a_create_has_nothing_before_it_and_spells_out_what_is_no_default() -> None:
    (told,) = answer(written=[CREATE])["changes"]
    assert (told["target"], told["entity"], told["before"]) == ("gpt-4", None, None)
    assert told["limits"] == {"rpm": {"capacity": 5, "burst": 9, "refill_period": 1}}


def test_the_system_level_has_no_target_and_tells_its_on_unavailable() -> None:
    change = Change(Address("system"), Config(on_unavailable="block"), Config(on_unavailable="allow"))
    (told,) = answer(written=[change])["changes"]
    assert (told["entity"], told["resource"], told["target"]) == (None, None, None)
    assert (told["before_on_unavailable"], told["on_unavailable"]) == ("block", "allow")


def test_the_status_follows_from_what_was_written_and_what_went_wrong() -> None:
    wrong = failure("not_written", "the store is away", USER)
    assert answer()["status"] == "applied"
    assert answer(written=[CREATE], errors=[wrong])["status"] == "partial"
    assert answer(errors=[wrong])["status"] == "failed"
    assert wrong["target"] == "user-123/gpt-4"
