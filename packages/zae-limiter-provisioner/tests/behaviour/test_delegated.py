"""An invocation by the alias of one namespace stays in it, whatever its payload says; Lambda tells the alias."""

from dataclasses import dataclass
from typing import Any
from unittest.mock import MagicMock

import pytest

from support.provisioner.provisions import EVERY_LEVEL, NAMESPACE, Store, World, limits, manifest
from support.provisioner.stack_sender import Stack
from zae_limiter.operations.values import Key, Update
from zae_limiter.schema import keys
from zae_limiter_manifest import pack
from zae_limiter_manifest.delegation import alias_of
from zae_limiter_provisioner import cloudformation, handler
from zae_limiter_provisioner.handler import on_event, on_plan_event

ARN = "arn:aws:lambda:us-east-1:123456789012:function:my-app-limits-provisioner"
OTHER = "somebody-else"
FORGED: list[dict[str, Any]] = [
    {"action": "plan", "manifest": manifest(OTHER, resources={"gpt-4": limits(1)}).to_dict()},
    {"action": "apply", "manifest": manifest(OTHER, resources={"gpt-4": limits(1)}).to_dict()},
    {"action": "apply", "manifest": manifest(OTHER).to_dict(), "principal": NAMESPACE, "take_over": True},
    *({"action": action, "namespace": OTHER} for action in ("export", "state", "watch", "history", "stop")),
    {"action": "show", "namespace": OTHER, "serial": 1},
    {"action": "unlock", "namespace": OTHER, "lock_id": "0123456789abcdef"},
]


@dataclass(frozen=True)
class Context:
    """What Lambda tells a handler."""

    invoked_function_arn: str

    def get_remaining_time_in_millis(self) -> int:
        return 60_000


def by(alias: str) -> Context:
    return Context(f"{ARN}:{alias}")


OURS = by(alias_of(NAMESPACE))


@pytest.fixture
def store(world: World, monkeypatch: pytest.MonkeyPatch) -> Store:
    """What the handlers talk to: the world's table."""
    store = world.store()
    for module in (handler, cloudformation):
        monkeypatch.setattr(module, "table_of_environment", lambda: world.table(store))
    return store


@pytest.mark.parametrize("act", [on_event, on_plan_event])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("forged", FORGED, ids=lambda each: each["action"])
def test_another_namespace_in_the_payload_is_refused_before_anything_is_read(
    store: Store, act: Any, forged: dict[str, Any], *, packed: bool
) -> None:
    answer = act(pack(forged) if packed else forged, OURS)
    (error,) = answer["errors"]
    assert error["code"] == "not_delegated"
    assert error["message"] == (
        f"the alias {alias_of(NAMESPACE)} serves the namespace {NAMESPACE} alone, not {OTHER}: "
        "ask through an alias or a policy of that namespace"
    )
    assert store.seen == []


@pytest.mark.parametrize("act", [on_event, on_plan_event])
def test_two_namespaces_in_one_payload_are_refused(store: Store, act: Any) -> None:
    for namespace, inside in ((NAMESPACE, OTHER), (OTHER, NAMESPACE)):
        answer = act({"action": "plan", "namespace": namespace, "manifest": manifest(inside).to_dict()}, OURS)
        assert answer["status"] == "failed"
    assert store.seen == []


@pytest.mark.usefixtures("store")
def test_its_own_namespace_is_served_as_ever(world: World) -> None:
    assert on_plan_event({"action": "plan", "manifest": EVERY_LEVEL.to_dict()}, OURS)["status"] == "planned"
    assert on_event({"action": "apply", "manifest": EVERY_LEVEL.to_dict()}, OURS)["status"] == "applied"
    assert world.live() == EVERY_LEVEL
    assert on_event({"action": "state", "namespace": NAMESPACE}, OURS)["status"] == "planned"


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("arn", [ARN, f"{ARN}:$LATEST", f"{ARN}:7", f"{ARN}:live"])
def test_other_invocations_serve_every_namespace(arn: str) -> None:
    assert on_event(FORGED[1], Context(arn))["status"] == "applied"


@pytest.mark.parametrize("alias", ["ns-", "ns-a_x", "ns-7"])
def test_an_alias_that_names_no_namespace_serves_none(store: Store, alias: str) -> None:
    (error,) = on_event({"action": "state", "namespace": NAMESPACE}, by(alias))["errors"]
    assert error["code"] == "not_delegated"
    assert error["message"].startswith(f"the alias '{alias}' names no namespace: `zae-limiter delegation add`")
    assert store.seen == []


@pytest.mark.usefixtures("store")
def test_history_and_audit_say_the_principal_and_the_alias(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "my-app-limits-provisioner")
    on_event({"action": "apply", "manifest": EVERY_LEVEL.to_dict(), "principal": "alice"}, OURS)
    told = on_event({"action": "history", "namespace": NAMESPACE}, OURS)
    assert [each["principal"] for each in told["history"]] == [f"alice (by alias {alias_of(NAMESPACE)})"]
    events = world.repository().get_audit_events("$RESOURCE:gpt-4").events
    said = f"my-app-limits-provisioner:{alias_of(NAMESPACE)} (claimed: alice)"
    assert {each.principal for each in events} == {said}


def test_a_stack_by_the_alias_owns_its_own_namespace(stack: Stack, world: World) -> None:
    told = stack.send(stack.event("Create", EVERY_LEVEL), OURS)
    assert told["Status"] == "SUCCESS"
    stack.physical_id = told["PhysicalResourceId"]
    assert stack.send(stack.event("Update", manifest(resources={"gpt-4": limits(9)})), OURS)["Status"] == "SUCCESS"
    assert stack.send(stack.event("Delete", EVERY_LEVEL), OURS)["Status"] == "SUCCESS"
    assert world.live() == manifest()


def test_a_stack_by_the_alias_neither_creates_nor_moves_to_another_namespace_and_is_rolled_back(
    stack: Stack, world: World
) -> None:
    foreign = manifest(OTHER, resources={"gpt-4": limits(1)})
    world.apply(foreign)
    told = stack.send(stack.event("Create", foreign, TakeOver=True), OURS)
    assert told["Status"] == "FAILED"
    assert f"serves the namespace {NAMESPACE} alone, not {OTHER}" in told["Reason"]
    stack.physical_id = told["PhysicalResourceId"]
    assert stack.send(stack.event("Delete", foreign), OURS)["Status"] == "SUCCESS"  # the rollback of the Create

    stack.physical_id = None
    stack.physical_id = stack.send(stack.event("Create", EVERY_LEVEL), OURS)["PhysicalResourceId"]
    assert stack.send(stack.event("Update", foreign, TakeOver=True), OURS)["Status"] == "FAILED"
    assert stack.send(stack.event("Update", EVERY_LEVEL), OURS)["Status"] == "SUCCESS"
    assert world.ask("export", OTHER).manifest == foreign
    assert world.live() == EVERY_LEVEL


def test_an_event_that_claims_the_stack_of_another_namespace_empties_nothing(stack: Stack, world: World) -> None:
    """Whoever may invoke the alias can send any event, with the ids of anybody's stack."""
    foreign = manifest(OTHER, resources={"gpt-4": limits(1)})
    stack.do("Create", foreign)
    for kind, wanted in (("Delete", foreign), ("Delete", EVERY_LEVEL), ("Update", EVERY_LEVEL)):
        stack.send(stack.event(kind, wanted), OURS)
        assert world.ask("export", OTHER).manifest == foreign


UNREADABLE = [
    *(object(), {}, "context", MagicMock()),
    *(Context(arn) for arn in ("", "$LATEST", "my-app-limits-provisioner:ns-tenant-alpha", f"{ARN}:", f"{ARN}:a:b")),
    Context(ARN.replace(":lambda:", ":states:")),
    Context(ARN.replace("my-app-limits-provisioner", "")),
    Context(f" {ARN}"),
]


@pytest.mark.parametrize("context", UNREADABLE)
def test_a_context_that_cannot_be_read_serves_no_namespace(store: Store, context: Any) -> None:
    request = {"manifest": manifest(resources={"gpt-4": limits(1)}).to_dict()}
    for act, action in ((on_event, "plan"), (on_plan_event, "plan"), (on_event, "apply")):
        (error,) = act({"action": action, **request}, context)["errors"]
        assert error["code"] == "not_delegated"
    assert store.seen == []


@pytest.mark.parametrize("context", UNREADABLE)
def test_a_stack_event_with_such_a_context_fails(stack: Stack, world: World, context: Any) -> None:
    stack.do("Create", EVERY_LEVEL)
    for kind, wanted in (("Update", manifest(resources={"gpt-4": limits(9)})), ("Delete", EVERY_LEVEL)):
        told = stack.send(stack.event(kind, wanted), context)
        assert told["Status"] == "FAILED"
        assert told["Reason"].startswith("nothing is done: the context has no ARN of a Lambda function")
    assert world.live() == EVERY_LEVEL


@pytest.mark.usefixtures("store")
def test_a_program_that_calls_without_a_context_is_served() -> None:
    request = {"manifest": manifest(resources={"gpt-4": limits(1)}).to_dict()}
    for act in (on_event, on_plan_event):
        assert act({"action": "plan", **request}, None)["status"] == "planned"
    assert on_event({"action": "apply", **request}, None)["status"] == "applied"


@pytest.mark.usefixtures("store")
def test_the_history_names_a_record_that_it_skips(world: World) -> None:
    on_event({"action": "apply", "manifest": EVERY_LEVEL.to_dict(), "principal": "alice"}, OURS)
    on_event({"action": "apply", "manifest": manifest(NAMESPACE).to_dict(), "principal": "bob"}, OURS)
    first = on_plan_event({"action": "history", "namespace": NAMESPACE}, OURS)["history"][-1]["serial"]
    key = Key(keys.pk_applies(world.repository().namespace_id), keys.sk_apply(first))
    world.memory.execute(Update(key, set={"at": 7}))
    told = on_plan_event({"action": "history", "namespace": NAMESPACE}, OURS)
    assert len(told["history"]) == 1
    assert told["unreadable"] == [{"pk": key.pk, "sk": key.sk, "problem": "at is not text"}]
