"""The planner reads and writes nothing: its role, the policy to invoke it, and the calls that it really makes."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest

from support.cli.calls import Call, RecordingStore, allows, recorded
from support.cli.granted import (
    MANIFEST,
    OPTIONS,
    idle,
    properties,
    role_statements,
    statements,
    the_provisioner_at_work,
)
from zae_limiter_cli.main import main
from zae_limiter_manifest import LimitsManifest, Request
from zae_limiter_provisioner import handler
from zae_limiter_provisioner.actions import perform, read
from zae_limiter_provisioner.handler import on_event as provision
from zae_limiter_provisioner.handler import on_plan_event as plan
from zae_limiter_provisioner.table import Table, _table

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=OPTIONS)
def resources(request: pytest.FixtureRequest) -> dict[str, Any]:
    return properties(OPTIONS[request.param])


@pytest.fixture
def stack(aws: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A deployed stack, and the environment of its Lambdas."""
    main(["deploy", "--yes", "-n", "my-app", "--quiet"], standalone_mode=False)
    monkeypatch.setenv("ZAEL_STACK", "my-app")
    monkeypatch.setattr(handler, "log_as_json", lambda *_, **__: None)
    _table.cache_clear()  # a client of an earlier test may not be the SDK's, which is recorded


@cache
def the_planner_at_work() -> frozenset[Call]:
    """What the planner asks of a table without limits, and of one with many."""
    store = RecordingStore("my-app")
    table, wanted = Table(store, "my-app"), LimitsManifest.from_dict(MANIFEST)
    many = {f"key-{number:05d}-{'x' * 200}": {"resources": MANIFEST["resources"]} for number in range(2_000)}
    made: set[Call] = set()
    for before in (None, LimitsManifest.from_dict({**MANIFEST, "entities": many})):
        if before is not None:
            perform(table, Request.of("apply", before))
        store.calls.clear()
        for request in READING:
            read(table, request)
        for action in ("plan", "diff"):
            assert read(table, Request.of(action, wanted)).errors == ()
        made |= set(store.calls)
    return frozenset(made)


READING = (
    *(Request(action, "tenant-alpha") for action in ("export", "state", "watch", "history")),
    Request("show", "tenant-alpha", serial=2),
)
WRITING = (
    {"action": "apply", "manifest": MANIFEST},
    {"action": "unlock", "namespace": "tenant-alpha", "lock_id": "a"},
    {"action": "stop", "namespace": "tenant-alpha"},
)


@pytest.mark.long(keep=1)
def test_the_planners_role_allows_what_its_contract_calls_and_nothing_else(resources: Mapping[str, Any]) -> None:
    granted, calls = role_statements(resources, "Planner"), the_planner_at_work()
    assert [call for call in calls if not allows(granted, call, {})] == []
    assert idle(granted, calls) == []


def test_the_planners_role_reads_the_table_and_writes_its_own_log(resources: Mapping[str, Any]) -> None:
    granted = role_statements(resources, "Planner")
    on_data = {action for each in granted for action in each["Action"] if action.startswith("dynamodb:")}
    assert on_data == {"dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:Query"}
    others = {action for each in granted for action in each["Action"]} - on_data
    assert others <= {
        *("logs:CreateLogStream", "logs:PutLogEvents", "kms:Decrypt"),
        *("xray:PutTelemetryRecords", "xray:PutTraceSegments"),
    }


@pytest.mark.long(keep=1)
def test_the_planners_role_refuses_every_write_of_an_apply(resources: Mapping[str, Any]) -> None:
    granted, calls = role_statements(resources, "Planner"), the_provisioner_at_work()
    written = [call for call in calls if call.action.endswith(("PutItem", "UpdateItem", "DeleteItem", "WriteItem"))]
    assert len({call.action for call in written}) == 4
    assert [call for call in written if allows(granted, call, {})] == []


@pytest.mark.usefixtures("stack")
def test_the_planner_writes_nothing_through_its_handler_and_refuses_what_would() -> None:
    with recorded() as calls:
        assert provision({"action": "apply", "manifest": MANIFEST}, None)["status"] == "applied"
        calls.clear()
        for request in READING:
            assert plan(request.to_dict(), None)["status"] == "planned"
        for action in ("plan", "diff"):
            assert plan({"action": action, "manifest": {**MANIFEST, "resources": {}}}, None)["status"] == "planned"
        assert {call.action for call in calls} <= {"dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:Query"}
        asked = len(calls)
        assert [plan(request, None)["errors"][0]["code"] for request in WRITING] == ["read_only"] * 3
    assert (asked > 0, len(calls)) == (True, asked)


INVOKE = {
    "InvokePlannerPolicy": {"LimitsPlannerFunction"},
    "InvokeProvisionerPolicy": {"LimitsPlannerFunction", "LimitsProvisionerFunction"},
}


@pytest.mark.parametrize(("policy", "functions"), INVOKE.items())
def test_a_policy_to_invoke_allows_that_and_nothing_else(
    policy: str, functions: set[str], resources: Mapping[str, Any]
) -> None:
    granted = statements(resources[policy]["PolicyDocument"])
    assert [each["Action"] for each in granted] == [["lambda:InvokeFunction"]]
    names = ("LimitsPlannerFunction", "LimitsProvisionerFunction", "AggregatorFunction")
    assert {each for each in names if allows(granted, Call("lambda:InvokeFunction", each), {})} == functions
