"""The template that `cfn-template` prints, on the local AWS, with parameters and a condition as any tool sends it."""

import json
from ast import literal_eval
from typing import Any

import pytest

from support.cli.account import Account
from zae_limiter_cli.stack.options import StackOptions
from zae_limiter_cli.stack.template.build import parametrized

KEY = "arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Unable to delete:UserWarning")  # moto has made none
@pytest.mark.parametrize("key", ["", KEY], ids=["without a key", "with a key"])
def test_it_deploys_and_its_policies_have_the_statements_that_its_options_ask_for(key: str, account: Account) -> None:
    name = f"printed-{len(key)}"
    options = StackOptions(kms_key_arn=key, dashboard=True, alarm_refusals=1)
    client = account.client("cloudformation")
    client.create_stack(
        StackName=name,
        TemplateBody=json.dumps(parametrized(options), separators=(",", ":")),
        Capabilities=["CAPABILITY_NAMED_IAM"],
        Parameters=[{"ParameterKey": "AlarmRefusals", "ParameterValue": "500"}],
    )
    (stack,) = client.describe_stacks(StackName=name)["Stacks"]
    assert stack["StackStatus"] == "CREATE_COMPLETE"
    outputs = {each["OutputKey"]: each["OutputValue"] for each in stack["Outputs"]}
    made = client.list_stack_resources(StackName=name)["StackResourceSummaries"]
    roles = {each["LogicalResourceId"]: each["PhysicalResourceId"] for each in made if each["ResourceType"] == ROLE}
    assert {*roles} == {"AggregatorRole", "ProvisionerRole", "PlannerRole"}
    for statements in (
        of_policy(account, outputs["ReadPolicyArn"]),
        *(of_role(account, each) for each in roles.values()),
    ):
        assert all(each["Effect"] == "Allow" for each in statements)
        assert any(each["Resource"] == KEY for each in statements) is bool(key)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Unable to delete:UserWarning")  # moto has made none
@pytest.mark.filterwarnings("ignore:Tried to parse AWS..ApplicationAutoScaling:UserWarning")
def test_one_that_is_provisioned_deploys_too(account: Account) -> None:
    options = StackOptions(capacity="provisioned", min_reads=10, min_writes=20, max_reads=100, max_writes=200)
    client = account.client("cloudformation")
    client.create_stack(
        StackName="provisioned",
        TemplateBody=json.dumps(parametrized(options), separators=(",", ":")),
        Capabilities=["CAPABILITY_NAMED_IAM"],
        Parameters=[{"ParameterKey": "MinWrites", "ParameterValue": "30"}],
    )
    table = account.client("dynamodb").describe_table(TableName="provisioned")["Table"]
    for each in (table, *table["GlobalSecondaryIndexes"]):
        found = each["ProvisionedThroughput"]
        assert (found["ReadCapacityUnits"], found["WriteCapacityUnits"]) == (10, 30)


ROLE = "AWS::IAM::Role"


def of_role(account: Account, role: str) -> list[dict[str, Any]]:
    found = account.client("iam").get_role_policy(RoleName=role, PolicyName="own")["PolicyDocument"]
    return list(literal_eval(found)["Statement"])  # moto keeps what a stack made as a text of Python


def of_policy(account: Account, arn: str) -> list[dict[str, Any]]:
    iam = account.client("iam")
    version = iam.get_policy(PolicyArn=arn)["Policy"]["DefaultVersionId"]
    document = iam.get_policy_version(PolicyArn=arn, VersionId=version)["PolicyVersion"]["Document"]
    return list(document["Statement"])
