"""The planner's entry point: it answers what the provisioner answers, sends no write, and refuses whatever would."""

from typing import Any

import pytest

from support.provisioner.provisions import EVERY_LEVEL, NAMESPACE, Store, World, entities, limits, manifest
from zae_limiter.exceptions import NamespaceNotFoundError
from zae_limiter_manifest import Answer, pack
from zae_limiter_provisioner import handler
from zae_limiter_provisioner.handler import on_event, on_plan_event

READING: list[dict[str, Any]] = [
    {"action": "plan", "manifest": EVERY_LEVEL.to_dict()},
    {"action": "plan", "manifest": manifest(resources={"gpt-4": limits(1)}).to_dict(), "take_over": True},
    {"action": "diff", "manifest": EVERY_LEVEL.to_dict()},
    {"action": "export", "namespace": NAMESPACE},
    {"action": "state", "namespace": NAMESPACE},
]
WRITING: list[dict[str, Any]] = [
    {"action": "apply", "manifest": EVERY_LEVEL.to_dict()},
    {"action": "unlock", "namespace": NAMESPACE, "lock_id": "0123456789abcdef"},
]
STACK_EVENT = {
    "RequestType": "Delete",
    "RequestId": "1",
    "ResponseURL": "https://cloudformation-custom-resource-response-useast1.s3.amazonaws.com/x",
    "StackId": "arn:aws:cloudformation:us-east-1:123456789012:stack/limits/1234abcd",
    "LogicalResourceId": "TenantLimits",
    "ResourceProperties": {"Namespace": NAMESPACE},
}


@pytest.fixture
def store(world: World, monkeypatch: pytest.MonkeyPatch) -> Store:
    """What the handler talks to: the world's table."""
    store = world.store()
    monkeypatch.setattr(handler, "table_of_environment", lambda: world.table(store))
    return store


@pytest.mark.long(keep=2)
@pytest.mark.parametrize("request_", READING, ids=lambda each: each["action"])
@pytest.mark.parametrize("applied", [True, False], ids=["limits", "no namespace"])
def test_it_answers_as_the_provisioner_does_and_sends_no_write(
    world: World, store: Store, request_: dict[str, Any], *, applied: bool
) -> None:
    if applied:
        world.apply(manifest(system=limits(7), entities=entities(300)))
    before = world.items()
    answer = on_plan_event(request_, None)
    assert (store.seen != [], store.written) == (True, [])
    assert answer == on_event(request_, None)
    assert world.items() == before
    assert answer["status"] == ("planned" if applied or "manifest" in request_ else "failed")


def test_it_registers_no_namespace(world: World, store: Store) -> None:
    on_plan_event(READING[0], None)
    with pytest.raises(NamespaceNotFoundError):
        world.table(store)._open(NAMESPACE)


@pytest.mark.parametrize("request_", WRITING, ids=lambda each: each["action"])
@pytest.mark.parametrize(
    "wrap", [dict, lambda plain: pack(plain | {"table_name": "x" * 5_000}, largest=5_000)], ids=["plain", "packed"]
)
def test_it_refuses_what_writes_and_asks_the_table_nothing(store: Store, request_: dict[str, Any], wrap: Any) -> None:
    (error,) = on_plan_event(wrap(request_), None)["errors"]
    action = request_["action"]
    assert error["code"] == "read_only"
    assert error["message"] == f"the planner writes nothing: send the action {action} to the provisioner"
    assert store.seen == []


def test_it_refuses_an_event_of_cloudformation_and_sends_no_reply(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handler, "on_stack_event", lambda *_: pytest.fail("it was handled"))
    for event in (STACK_EVENT, {**STACK_EVENT, **WRITING[0]}):
        (error,) = on_plan_event(event, None)["errors"]
        assert (error["code"], "must be the ARN of the provisioner" in error["message"]) == ("read_only", True)
    assert store.seen == []


def test_the_provisioner_applies_exactly_what_it_has_planned(world: World, store: Store) -> None:
    planned = Answer.from_dict(on_plan_event(READING[0], None)).plan
    assert planned
    exactly = {"expected_serial": planned.serial, "expected_plan": planned.changes_hash()}
    applied = on_event({"action": "apply", "manifest": EVERY_LEVEL.to_dict(), **exactly}, None)
    assert (applied["status"], applied["created"]) == ("applied", 4)
    assert world.live() == EVERY_LEVEL
