"""CloudFormation, here moto's, resolves parameters and conditions of the one template; the other was resolved by us."""

import json
from collections.abc import Callable
from typing import Any

import boto3
import pytest

from support.cli.granted import OPTIONS
from zae_limiter_cli.stack.options import StackOptions
from zae_limiter_cli.stack.template.build import parametrized, plain


def what_there_is() -> dict[str, Any]:
    """What the stack in this account came to, without what every stack has of its own: ids, times, suffixes."""
    table = boto3.client("dynamodb").describe_table(TableName="my-app")["Table"]
    functions = boto3.client("lambda").list_functions()["Functions"]
    (mapping,) = boto3.client("lambda").list_event_source_mappings()["EventSourceMappings"]
    iam = boto3.client("iam")
    policies = [
        iam.get_policy_version(PolicyArn=each["Arn"], VersionId="v1")["PolicyVersion"]["Document"]
        for each in iam.list_policies(Scope="Local")["Policies"]
    ]
    roles = [
        [
            iam.get_role_policy(RoleName=each["RoleName"], PolicyName=name)["PolicyDocument"]
            for name in sorted(iam.list_role_policies(RoleName=each["RoleName"])["PolicyNames"])
        ]
        for each in iam.list_roles()["Roles"]
    ]
    queue = boto3.client("sqs").list_queues()["QueueUrls"][0]
    bucket = boto3.client("s3").list_buckets()["Buckets"][0]["Name"]
    found = {
        "table": {name: table[name] for name in ("KeySchema", "AttributeDefinitions", "GlobalSecondaryIndexes")},
        "functions": [
            {
                name: each[name]
                for name in ("FunctionName", "Handler", "Runtime", "MemorySize", "Timeout", "Environment")
            }
            for each in functions
        ],
        "mapping": {
            name: mapping[name]
            for name in ("BatchSize", "MaximumRetryAttempts", "FilterCriteria", "BisectBatchOnFunctionError")
        },
        "policies": policies,
        "roles": roles,
        "queue": boto3.client("sqs").get_queue_attributes(QueueUrl=queue, AttributeNames=["MessageRetentionPeriod"]),
        "logs": [each.get("retentionInDays") for each in boto3.client("logs").describe_log_groups()["logGroups"]],
    }
    del found["queue"]["ResponseMetadata"]
    text = json.dumps(found, default=str, sort_keys=True)
    stream = table["LatestStreamLabel"]
    for own, instead in ((bucket, "BUCKET"), (stream, "STREAM"), (queue.rsplit("/", 1)[1], "QUEUE")):
        text = text.replace(own, instead)
    parts: dict[str, Any] = json.loads(text)
    return {name: sorted(part, key=json.dumps) if isinstance(part, list) else part for name, part in parts.items()}


def deployed(template: dict[str, Any]) -> set[str]:
    """The resources that a stack of this template came to, by name."""
    client = boto3.client("cloudformation")
    client.create_stack(StackName="my-app", TemplateBody=json.dumps(template), Capabilities=["CAPABILITY_NAMED_IAM"])
    summaries = client.list_stack_resources(StackName="my-app")["StackResourceSummaries"]
    return {each["LogicalResourceId"] for each in summaries}


@pytest.mark.long(keep=1)
@pytest.mark.slow
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_both_templates_come_to_the_same_stack(options: StackOptions, aws: str, forget: Callable[[], None]) -> None:
    first, there = deployed(plain("my-app", options)), what_there_is()
    forget()
    assert deployed(parametrized(options)) == first
    assert what_there_is() == there


def test_names_by_a_format_are_the_same_from_both_templates(aws: str, forget: Callable[[], None]) -> None:
    options = StackOptions(role_name_format="corp-{}-role", policy_name_format="{}-policy")
    deployed(plain("my-app", options))
    there = names()
    assert there[0] == [f"corp-my-app-{name}-role" for name in ("aggregator", "planner", "provisioner")]
    forget()
    deployed(parametrized(options))
    assert names() == there


def names() -> tuple[list[str], list[str]]:
    """Of the roles and the policies."""
    iam = boto3.client("iam")
    roles = sorted(each["RoleName"] for each in iam.list_roles()["Roles"])
    return roles, sorted(each["PolicyName"] for each in iam.list_policies(Scope="Local")["Policies"])
