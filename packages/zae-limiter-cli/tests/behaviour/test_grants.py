"""Least privilege: what roles and policies allow is held against the calls that code really makes."""

import copy
import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import boto3
import pytest

from support.cli.calls import Call, RecordingStore, allows, calls_of, calls_of_key, recorded
from support.cli.granted import (
    BUS,
    KEY,
    MANIFEST,
    OPTIONS,
    idle,
    properties,
    role_statements,
    statements,
    tells_alerts,
    the_provisioner_at_work,
)
from support.cli.iam import listed
from support.core.copies import Killed, table_over
from zae_limiter import Limit, Options, SyncRateLimiter, SyncRepository, maintenance
from zae_limiter.engines.dynamodb.render import render
from zae_limiter.flows.bucket.splitting import split_shard
from zae_limiter.maintenance import SyncMaintenance
from zae_limiter.operations.values import WRITES, changing_nothing
from zae_limiter.schema.items import BucketId
from zae_limiter.testing import ManualClock
from zae_limiter_aggregator.handler import LOGGERS
from zae_limiter_aggregator.handler import on_event as aggregate
from zae_limiter_cli.doctor.rights import NEEDS, OF_INDEXES, TABLE, Need
from zae_limiter_cli.main import main
from zae_limiter_cli.stack.template.grants import NAMESPACE_TAG
from zae_limiter_provisioner import handler
from zae_limiter_provisioner.handler import on_event as provision
from zae_limiter_provisioner.table import _table

pytestmark = pytest.mark.slow

RPM = [Limit.per_minute("rpm", 100)]
ALERTING = [Limit.per_minute("rpm", 100), Limit.total("credits", 2, alert=(80,))]
USED_BY_PEOPLE = tuple(
    f"{use}Policy" for use in ("Acquire", "Read", "Full", "Own", "Purge", "InvokeProvisioner", "InvokePlanner")
)
SERVICES = {"dynamodb", "s3", "sqs"}


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
    monkeypatch.setenv("ZAEL_ARCHIVE_BUCKET", "archive")
    url = boto3.client("sqs").create_queue(QueueName="dead-letters")["QueueUrl"]
    monkeypatch.setenv("ZAEL_DEAD_LETTERS_URL", url)


def test_the_provisioners_role_allows_every_call_of_its_handler(stack: None, resources: Mapping[str, Any]) -> None:
    with recorded() as calls:
        for manifest in (MANIFEST, {**MANIFEST, "resources": {}}, {"namespace": "tenant-alpha"}):
            assert provision({"action": "apply", "manifest": manifest}, None)["status"] == "applied"
    granted = role_statements(resources, "Provisioner")
    assert calls
    assert [call for call in calls if not allows(granted, call, {})] == []


def test_the_provisioners_role_allows_what_its_contract_calls_and_nothing_else(resources: Mapping[str, Any]) -> None:
    granted, calls = role_statements(resources, "Provisioner"), the_provisioner_at_work()
    assert [call for call in calls if not allows(granted, call, {})] == []
    assert idle(granted, calls) == []


@pytest.fixture
def batch(stack: None) -> dict[str, Any]:
    """A batch with all that the aggregator cares for.

    It has use, an old anchor, a hot bucket, a quiet one that is split, an audit event that expired, a record that can
    never be read.
    """
    with SyncRateLimiter(repository=SyncRepository.open(stack="my-app")) as limiter:
        limiter.set_system_defaults(ALERTING)
        state = limiter.repository.namespace_state
        for resource in ("gpt-5", "gpt-4", "gpt-4"):
            with limiter.acquire("key-abc", resource, {"rpm": 1, "credits": 1}):
                pass
            if resource == "gpt-5":
                split = split_shard(state, BucketId(state.namespace_id, "key-abc", resource))
                limiter.repository.driver.run(split)
    records = stream_of("my-app")
    [quiet, *_] = [each for each in records if "wa" in each["dynamodb"].get("NewImage", {})]
    found = {record["dynamodb"]["Keys"]["SK"]["S"][:6]: record for record in records}
    bucket, audit = found["#STATE"], found["#AUDIT"]
    quiet["dynamodb"]["NewImage"]["rf"]["N"] = str(int(quiet["dynamodb"]["NewImage"]["rf"]["N"]) - 700_000)
    image = bucket["dynamodb"]["NewImage"]
    image["b_wcu_tc"]["N"] = str(int(image["b_wcu_tc"]["N"]) + 1_000_000)
    image["rf"]["N"] = str(int(image["rf"]["N"]) - 86_400_000)
    audit |= {"eventName": "REMOVE", "userIdentity": {"principalId": "dynamodb.amazonaws.com"}}
    audit["dynamodb"]["OldImage"] = audit["dynamodb"].pop("NewImage")
    boto3.client("s3").create_bucket(Bucket="archive")
    damaged = copy.deepcopy(bucket)
    damaged["dynamodb"]["NewImage"]["shard_count"]["N"] = str(10**12)
    return {
        "Records": [quiet, bucket, audit, damaged | {"dynamodb": damaged["dynamodb"] | {"SequenceNumber": "9" * 30}}]
    }


def stream_of(table: str) -> list[dict[str, Any]]:
    """The records of a table's stream, as a Lambda gets them."""
    client = boto3.client("dynamodbstreams")
    (stream,) = client.list_streams(TableName=table)["Streams"]
    (shard,) = client.describe_stream(StreamArn=stream["StreamArn"])["StreamDescription"]["Shards"]
    iterator = client.get_shard_iterator(
        StreamArn=stream["StreamArn"], ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
    )
    found = client.get_records(ShardIterator=iterator["ShardIterator"])["Records"]
    for record in found:
        record["eventSourceARN"] = stream["StreamArn"]
        change = record["dynamodb"]
        change["ApproximateCreationDateTime"] = change["ApproximateCreationDateTime"].timestamp()
    return list(found)


@pytest.fixture
def _loggers() -> Iterator[None]:
    """The loggers as they were: the aggregator's handler takes them for itself."""
    before = [
        (logger, logger.propagate, logger.level, [*logger.handlers]) for logger in map(logging.getLogger, LOGGERS)
    ]
    yield
    for logger, propagate, level, handlers in before:
        logger.propagate, logger.handlers = propagate, handlers
        logger.setLevel(level)


@pytest.mark.long(keep=1)
@pytest.mark.usefixtures("_loggers")
def test_the_aggregators_role_allows_what_its_handler_calls_and_nothing_else(
    batch: Mapping[str, Any], resources: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    if tells_alerts(resources):
        monkeypatch.setenv("ZAEL_ALERT_BUS_ARN", BUS)
    registry = {"PK": {"S": "_/SYSTEM#"}, "SK": {"S": "#VERSION"}}
    boto3.client("dynamodb").delete_item(TableName="my-app", Key=registry)
    strange = json.loads(json.dumps(batch).replace(batch["Records"][0]["dynamodb"]["Keys"]["PK"]["S"][:11], "A" * 11))
    with recorded() as calls:
        assert aggregate(batch, None) == {"batchItemFailures": []}
        aggregate(strange, None)  # of a namespace that nobody knows: it looks whether the table is ours
    granted = role_statements(resources, "Aggregator")
    assert [call for call in calls if not allows(granted, call, {})] == []
    assert idle(granted, calls) == []
    assert next(call.resource for call in calls if call.action == "s3:PutObject").startswith("archive/audit/")
    assert Call("sqs:SendMessage", "dead-letters") in calls
    told = Call("events:PutEvents", BUS, source="zae-limiter") in calls
    assert told is tells_alerts(resources)


def test_the_aggregator_writes_to_the_archive_and_to_dead_letters_and_does_nothing_else_there(
    resources: Mapping[str, Any],
) -> None:
    granted = role_statements(resources, "Aggregator")
    besides = [each for each in granted if each["Action"][0].split(":")[0] not in {"dynamodb", "kms", "xray"}]
    told = {BUS: ["events:PutEvents"]} if tells_alerts(resources) else {}
    assert {each["Resource"]: each["Action"] for each in besides} == {
        **told,
        "AggregatorLogs": ["logs:CreateLogStream", "logs:PutLogEvents"],
        "archive/*": ["s3:PutObject"],
        "dead-letters": ["sqs:SendMessage"],
    }


@pytest.mark.parametrize("name", ["Aggregator", "Provisioner", "Planner"])
def test_no_role_has_a_wildcard_where_there_is_a_name(name: str, resources: Mapping[str, Any]) -> None:
    for each in role_statements(resources, name):
        assert not [action for action in each["Action"] if "*" in action]
        assert each["Resource"] != "*" or each["Action"] == ["xray:PutTelemetryRecords", "xray:PutTraceSegments"]


@pytest.mark.parametrize("name", ["Aggregator", "Provisioner", "Planner"])
def test_a_role_uses_the_customers_key_for_what_its_calls_need_and_nothing_else(
    name: str, resources: Mapping[str, Any]
) -> None:
    granted = role_statements(resources, name)
    made = [Call(each["Action"][0], "") for each in granted if each["Action"][0].split(":")[0] in SERVICES]
    needed = calls_of_key(made, KEY) | {Call("kms:Decrypt", KEY, via="lambda")}  # the variables of a Lambda
    of_key = [each for each in granted if each["Resource"] == KEY]
    keyed = bool(of_key)
    assert keyed is ("SSESpecification" in resources["Table"])
    assert [call for call in needed if allows(granted, call, {}) is not keyed] == []
    ways = [len(listed(each["Condition"]["StringEquals"]["kms:ViaService"])) for each in of_key]
    assert sum(len(each["Action"]) * by for each, by in zip(of_key, ways, strict=True)) == len(needed) * keyed


# Policies for applications and people


class Tenant:
    """A namespace of a table in memory, and the tag of a principal that belongs to it."""

    def __init__(self) -> None:
        self.store = RecordingStore("my-app")
        self.repository = SyncRepository.over(self.store, Options(namespace="tenant-alpha", stack="my-app"))
        self.tags = {NAMESPACE_TAG: self.repository.namespace_state.namespace_id}
        self.store.calls.clear()

    def acquire(self) -> None:
        self.repository.create_entity("project")
        self.repository.create_entity("key-abc", parent_id="project", cascade=True)
        self.repository.set_system_defaults(RPM)
        SyncMaintenance(self.repository).invalidate_live_buckets("gpt-4")
        self.store.calls.clear()
        self.store.operations.clear()
        reopened = SyncRepository.over(self.store, Options(namespace="tenant-alpha", stack="my-app", register=False))
        limiter = SyncRateLimiter(repository=reopened)
        for _ in range(3):
            with limiter.acquire("key-abc", "gpt-4", {"rpm": 1}) as lease:
                lease.adjust(rpm=-1)
        limiter.available("key-abc", "gpt-4")
        assert reopened.ping()
        limiter.repository.driver.run(
            split_shard(
                reopened.namespace_state, BucketId(reopened.namespace_state.namespace_id, "key-abc", "gpt-4", 0)
            )
        )

    def read(self) -> None:
        self.repository.get_system_defaults()
        self.repository.get_limits("key-abc", "gpt-4")
        self.repository.get_buckets("key-abc")
        self.repository.get_children("project")
        self.repository.get_resource_capacity("gpt-4")
        self.repository.list_entities_with_custom_limits("gpt-4")
        SyncMaintenance(self.repository).count_live_buckets("gpt-4")
        self.repository.get_audit_events("key-abc")

    def write(self) -> None:
        self.repository.create_entity("key-def")
        self.repository.set_limits("key-def", RPM)
        self.repository.set_system_defaults(RPM)
        self.repository.delete_limits("key-def")
        self.repository.delete_entity("key-def")


def refused(resources: Mapping[str, Any], policy: str, calls: Iterable[Call], tags: Mapping[str, str]) -> list[Call]:
    granted = statements(resources[policy]["PolicyDocument"])
    return [call for call in calls if not allows(granted, call, tags)]


@pytest.mark.parametrize(
    ("policy", "does"),
    [
        ("Acquire", Tenant.acquire),
        ("Read", Tenant.read),
        ("Full", Tenant.acquire),
        ("Full", Tenant.read),
        ("Full", Tenant.write),
    ],
    ids=["acquire", "read", "full to acquire", "full to read", "full to write"],
)
def test_a_policy_allows_what_it_is_for_on_the_table_and_in_ones_own_namespace(
    policy: str, does: Any, resources: Mapping[str, Any]
) -> None:
    tenant = Tenant()
    does(tenant)
    assert tenant.store.calls
    assert refused(resources, f"{policy}Policy", tenant.store.calls, {}) == []
    assert refused(resources, f"{policy}OwnPolicy", tenant.store.calls, tenant.tags) == []


@pytest.mark.parametrize("policy", ["AcquireOwnPolicy", "ReadOwnPolicy", "FullOwnPolicy"])
@pytest.mark.parametrize("tags", [{NAMESPACE_TAG: "another-one"}, {}], ids=["another's", "nobody's"])
def test_in_anothers_namespace_one_reads_and_writes_nothing(
    policy: str, tags: Mapping[str, str], resources: Mapping[str, Any]
) -> None:
    tenant = Tenant()
    tenant.acquire()
    tenant.read()
    tenant.write()
    inside = [call for call in tenant.store.calls if call.keys != ("_/SYSTEM#",)]
    assert refused(resources, policy, inside, tags) == inside


def test_who_may_acquire_writes_buckets_and_nothing_else(resources: Mapping[str, Any]) -> None:
    tenant = Tenant()
    tenant.write()
    written = [call for call in tenant.store.calls if call.action not in {"dynamodb:GetItem", "dynamodb:BatchGetItem"}]
    assert written
    for policy in ("AcquirePolicy", "AcquireOwnPolicy"):
        assert refused(resources, policy, written, tenant.tags) == written


@pytest.mark.parametrize(("policy", "does"), [("Acquire", Tenant.acquire), ("Full", Tenant.write)])
def test_a_probe_of_failed_writes_is_allowed_wherever_the_write_was(
    policy: str, does: Any, resources: Mapping[str, Any]
) -> None:
    tenant = Tenant()
    tenant.store.operations.clear()
    does(tenant)
    probes = [changing_nothing(each) for each in tenant.store.operations if isinstance(each, WRITES)]
    calls = [call for probe in probes for call in calls_of("dynamodb", *render(probe, "my-app"))]
    assert calls
    assert refused(resources, f"{policy}Policy", calls, {}) == []
    assert refused(resources, f"{policy}OwnPolicy", calls, tenant.tags) == []


def test_who_may_read_writes_nothing(resources: Mapping[str, Any]) -> None:
    tenant = Tenant()
    tenant.acquire()
    tenant.write()
    written = [call for call in tenant.store.calls if call.action.endswith(("PutItem", "UpdateItem", "DeleteItem"))]
    for policy in ("ReadPolicy", "ReadOwnPolicy"):
        assert refused(resources, policy, written, tenant.tags) == written


def everyone(resources: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The statements of every policy and every role of the stack, by name."""
    managed = {name: each["PolicyDocument"] for name, each in resources.items() if name.endswith(USED_BY_PEOPLE)}
    assert len(managed) == 9
    return {
        **{name: statements(policy) for name, policy in managed.items()},
        **{name: role_statements(resources, name) for name in ("Aggregator", "Provisioner")},
    }


def of_events(action: str, *more: str) -> Call:
    return Call(f"dynamodb:{action}", "my-app", ("tenant-alpha-id/AUDIT#key-abc", *more))


REMOVALS = [
    of_events("DeleteItem"),
    of_events("UpdateItem"),
    of_events("BatchWriteItem"),
    of_events("BatchWriteItem", "tenant-alpha-id/ENTITY#key-abc"),
    Call("dynamodb:DeleteItem", "my-app", ("tenant-alpha-id/AUDIT#$SYSTEM",)),
    Call("dynamodb:DeleteItem", "my-app", ("tenant-alpha-id/AUDIT#$RESOURCE:a/b",)),
    *(Call(f"dynamodb:PartiQL{verb}", "my-app", ("tenant-alpha-id/AUDIT#key-abc",)) for verb in ("Delete", "Update")),
]
OWN = {NAMESPACE_TAG: "tenant-alpha-id"}


@pytest.mark.parametrize("call", REMOVALS, ids=lambda call: f"{call.action} {call.keys[-1]}")
def test_nothing_but_the_purge_policy_changes_or_removes_an_audit_event(
    call: Call, resources: Mapping[str, Any]
) -> None:
    able = {name for name, granted in everyone(resources).items() if allows(granted, call, OWN)}
    assert able == ({"PurgePolicy"} if call.action in {"dynamodb:DeleteItem", "dynamodb:BatchWriteItem"} else set())


def test_who_writes_no_audit_events_cannot_put_one_over_another(resources: Mapping[str, Any]) -> None:
    able = {name for name, granted in everyone(resources).items() if allows(granted, of_events("PutItem"), OWN)}
    assert able == {"FullPolicy", "FullOwnPolicy", "Provisioner"}


def test_nothing_removes_what_is_in_the_archive(resources: Mapping[str, Any]) -> None:
    calls = [Call(f"s3:{verb}", "archive/audit/x") for verb in ("DeleteObject", "DeleteObjectVersion", "GetObject")]
    for granted in everyone(resources).values():
        assert not [call for call in calls if allows(granted, call, OWN)]


def test_the_purge_policy_allows_a_purge_with_the_audit_events_and_the_full_one_does_not(
    resources: Mapping[str, Any],
) -> None:
    tenant = Tenant()
    tenant.write()
    tenant.repository.delete_namespace("tenant-alpha")
    tenant.store.calls.clear()
    assert SyncMaintenance(tenant.repository).purge_namespace(tenant.tags[NAMESPACE_TAG]) > 0
    assert any("/AUDIT#" in key for call in tenant.store.calls for key in call.keys)
    assert refused(resources, "PurgePolicy", tenant.store.calls, {}) == []
    assert {call.action for call in refused(resources, "FullPolicy", tenant.store.calls, {})} == {
        "dynamodb:BatchWriteItem"
    }


def killed(_: int) -> None:
    raise Killed


def test_a_copy_needs_the_full_and_the_purge_policy_of_the_target_and_a_scan_of_the_source(
    resources: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zae_limiter.flows.records.registry.SETTLE_SECONDS", 0)
    tenant, written = Tenant(), RecordingStore("my-app")
    tenant.acquire()
    tenant.store.calls.clear()
    source, target = (table_over(store, ManualClock()) for store in (tenant.store, written))
    forecasts = maintenance.forecast_copy(source, target, ["tenant-alpha"])
    with pytest.raises(Killed):
        maintenance.copy(source, target, forecasts, report=killed)
    assert maintenance.copy(source, target, forecasts, report=lambda _: None)
    assert {call.action for call in refused(resources, "ReadPolicy", tenant.store.calls, {})} == {"dynamodb:Scan"}
    granted = [each for use in ("Full", "Purge") for each in statements(resources[f"{use}Policy"]["PolicyDocument"])]
    assert [call for call in written.calls if not allows(granted, call, {})] == []
    assert {call.action for call in refused(resources, "FullPolicy", written.calls, {})} == {"dynamodb:BatchWriteItem"}


def test_the_index_of_whole_namespaces_is_for_the_whole_table_only(resources: Mapping[str, Any]) -> None:
    tenant = Tenant()
    tenant.repository.list_resources_with_defaults()
    tenant.repository.list_entities()
    tenant.repository.list_buckets()
    tenant.repository.get_usage_snapshots()
    patterns = [call for call in tenant.store.calls if call.resource != "my-app/index/GSI4"]  # in the system's config
    assert {(call.action, call.resource) for call in patterns} == {("dynamodb:GetItem", "my-app")}
    of_index = [call for call in tenant.store.calls if call not in patterns]
    assert {call.resource for call in of_index} == {"my-app/index/GSI4"}
    for use in ("Read", "Full"):
        assert refused(resources, f"{use}Policy", tenant.store.calls, {}) == []
        assert refused(resources, f"{use}OwnPolicy", tenant.store.calls, tenant.tags) == of_index


@pytest.mark.parametrize("need", [need for need in NEEDS if need.policy and need.actions.keys() <= {TABLE, OF_INDEXES}])
def test_the_doctor_asks_for_what_the_policy_that_it_names_allows(resources: Mapping[str, Any], need: Need) -> None:
    places = {TABLE: ["my-app"], OF_INDEXES: [f"my-app/index/{name}" for name in maintenance.INDEXES]}
    calls = [
        Call(action, place) for kind, actions in need.actions.items() for action in actions for place in places[kind]
    ]
    assert refused(resources, need.policy, calls, {}) == []


@pytest.mark.parametrize(
    "does",
    [
        SyncRepository.list_namespaces,
        lambda repository: SyncMaintenance(repository).list_orphan_namespaces(),
    ],
)
def test_nobody_lists_the_namespaces_who_belongs_to_one(does: Any, resources: Mapping[str, Any]) -> None:
    tenant = Tenant()
    does(tenant.repository)
    assert tenant.store.calls
    for use in ("Read", "Full"):
        assert refused(resources, f"{use}Policy", tenant.store.calls, {}) == []
        assert refused(resources, f"{use}OwnPolicy", tenant.store.calls, tenant.tags) == tenant.store.calls


@pytest.mark.parametrize("policy", ["AcquireOwnPolicy", "ReadOwnPolicy", "FullOwnPolicy"])
def test_who_belongs_to_a_namespace_opens_it_by_its_key_in_the_registry(
    policy: str, resources: Mapping[str, Any]
) -> None:
    tenant = Tenant()
    SyncRepository.over(tenant.store, Options(namespace="tenant-alpha", stack="my-app", register=False))
    assert "_/SYSTEM#" in {key for call in tenant.store.calls for key in call.keys}
    assert refused(resources, policy, tenant.store.calls, tenant.tags) == []


def test_the_registry_is_read_by_tenants_and_written_by_admins(resources: Mapping[str, Any]) -> None:
    tenant = Tenant()
    tenant.repository.register_namespace("tenant-beta")
    written = [call for call in tenant.store.calls if call.action == "dynamodb:PutItem"]
    assert written
    assert refused(resources, "FullPolicy", written, {}) == []
    assert refused(resources, "FullOwnPolicy", written, tenant.tags) == written
