import json
import uuid
from contextlib import closing
from typing import Any

import pytest
from botocore.exceptions import ClientError

from support.cli.account import Account, addition, at_once
from zae_limiter.schema.table import create_table_request
from zae_limiter_cli.local.moto_items import ITEMS_ACCOUNT

IN_THE_PLANE = ("X-Moto-Account-Id", ITEMS_ACCOUNT)
TEMPLATE = """{"Resources": {"Table": {"Type": "AWS::DynamoDB::Table", "Properties": {
    "TableName": {"Ref": "AWS::StackName"}, "BillingMode": "PAY_PER_REQUEST",
    "AttributeDefinitions": [{"AttributeName": "PK", "AttributeType": "S"}],
    "KeySchema": [{"AttributeName": "PK", "KeyType": "HASH"}],
    "StreamSpecification": {"StreamViewType": "NEW_IMAGE"}}}},
    "Outputs": {"Stream": {"Value": {"Fn::GetAtt": ["Table", "StreamArn"]}}}}"""


@pytest.fixture
def dynamodb(account: Account) -> Any:
    return account.client("dynamodb")


def put(dynamodb: Any, table: str) -> None:
    dynamodb.put_item(TableName=table, Item={"PK": {"S": "a"}})


def test_a_table_holds_items_as_soon_as_it_is_made(account: Account, dynamodb: Any) -> None:
    name, _ = account.table()
    put(dynamodb, name)
    assert dynamodb.get_item(TableName=name, Key={"PK": {"S": "a"}})["Item"] == {"PK": {"S": "a"}}
    assert dynamodb.describe_table(TableName=name)["Table"]["ItemCount"] == 1


def test_core_s_table_has_its_indexes(dynamodb: Any) -> None:
    name = f"core-{uuid.uuid4().hex[:8]}"
    dynamodb.create_table(**create_table_request(name))
    item = {"PK": {"S": "a"}, "SK": {"S": "b"}, "GSI1PK": {"S": "c"}, "GSI1SK": {"S": "d"}}
    dynamodb.put_item(TableName=name, Item=item)
    query = {"KeyConditionExpression": "GSI1PK = :c", "ExpressionAttributeValues": {":c": {"S": "c"}}}
    assert dynamodb.query(TableName=name, IndexName="GSI1", **query)["Items"] == [item]


def test_a_table_of_a_stack_holds_items_and_goes_with_its_stack(account: Account, dynamodb: Any) -> None:
    stacks, name = account.client("cloudformation"), f"stack-{uuid.uuid4().hex[:8]}"
    for _ in range(2):  # nothing is left for the second one
        stacks.create_stack(StackName=name, TemplateBody=TEMPLATE)
        assert dynamodb.scan(TableName=name)["Items"] == []
        put(dynamodb, name)
        stacks.delete_stack(StackName=name)
        with pytest.raises(ClientError, match="ResourceNotFoundException"):
            put(dynamodb, name)


def test_a_stack_s_managed_policies_go_with_it_and_no_others(account: Account) -> None:
    stacks, iam, name = account.client("cloudformation"), account.client("iam"), f"stack-{uuid.uuid4().hex[:8]}"
    document = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}
    policy = {"Type": "AWS::IAM::ManagedPolicy", "Properties": {"ManagedPolicyName": name, "PolicyDocument": document}}
    own = iam.create_policy(PolicyName=f"own-{name}", PolicyDocument=json.dumps(document))["Policy"]["PolicyName"]

    def policies() -> set[str]:
        """But for those that tests of other modules have left."""
        listed = iam.list_policies(Scope="Local")["Policies"]
        return {each["PolicyName"] for each in listed if each["PolicyName"].endswith(name)}

    for _ in range(2):  # a second one of the same name is not in the first one's way
        stacks.create_stack(StackName=name, TemplateBody=json.dumps({"Resources": {"Policy": policy}}))
        assert policies() == {name, own}
        stacks.delete_stack(StackName=name)
        assert policies() == {own}


def test_a_stack_s_stream_is_read_by_the_name_that_the_stack_has_for_it(account: Account, dynamodb: Any) -> None:
    stacks, name = account.client("cloudformation"), f"stack-{uuid.uuid4().hex[:8]}"
    stacks.create_stack(StackName=name, TemplateBody=TEMPLATE)
    arn = stacks.describe_stacks(StackName=name)["Stacks"][0]["Outputs"][0]["OutputValue"]
    put(dynamodb, name)
    streams = account.client("dynamodbstreams")
    (shard,) = streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]
    start = {"StreamArn": arn, "ShardId": shard["ShardId"], "ShardIteratorType": "TRIM_HORIZON"}
    page = streams.get_records(ShardIterator=streams.get_shard_iterator(**start)["ShardIterator"])
    assert [record["dynamodb"]["NewImage"] for record in page["Records"]] == [{"PK": {"S": "a"}}]


def test_what_moto_says_of_a_table_is_there(account: Account, dynamodb: Any) -> None:
    name, _ = account.table()
    dynamodb.update_time_to_live(TableName=name, TimeToLiveSpecification={"Enabled": True, "AttributeName": "expires"})
    dynamodb.update_continuous_backups(
        TableName=name, PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True}
    )
    ttl = dynamodb.describe_time_to_live(TableName=name)["TimeToLiveDescription"]
    assert ttl == {"TimeToLiveStatus": "ENABLED", "AttributeName": "expires"}
    backups = dynamodb.describe_continuous_backups(TableName=name)["ContinuousBackupsDescription"]
    assert backups["PointInTimeRecoveryDescription"]["PointInTimeRecoveryStatus"] == "ENABLED"


def test_the_data_plane_is_told_what_expires(account: Account, dynamodb: Any) -> None:
    name, _ = account.table()
    data_plane = account.aws.connection("any").client("dynamodb")
    data_plane.meta.events.register("before-sign", lambda request, **_: request.headers.add_header(*IN_THE_PLANE))
    with closing(data_plane):
        for enabled, status in ((True, "ENABLED"), (False, "DISABLED")):
            dynamodb.update_time_to_live(
                TableName=name, TimeToLiveSpecification={"Enabled": enabled, "AttributeName": "expires"}
            )
            told = data_plane.describe_time_to_live(TableName=name)["TimeToLiveDescription"]
            assert told["TimeToLiveStatus"] == status


def test_a_table_that_nobody_made_is_refused_by_its_name(dynamodb: Any) -> None:
    with pytest.raises(ClientError, match="ResourceNotFoundException"):
        put(dynamodb, "nowhere")
    with pytest.raises(ClientError, match="ResourceNotFoundException"):
        dynamodb.describe_table(TableName="nowhere")


@pytest.mark.long
def test_transactions_at_once_lose_nothing(account: Account, dynamodb: Any) -> None:
    name, _ = account.table()
    refused = {"TableName": name, "Key": {"PK": {"S": "no"}}, "ConditionExpression": "attribute_exists(PK)"}

    def fail() -> None:
        for _ in range(20):
            with pytest.raises(ClientError, match="TransactionCanceledException"):
                dynamodb.transact_write_items(
                    TransactItems=[{"Update": addition(name, "b")}, {"ConditionCheck": refused}]
                )

    def count() -> None:
        for _ in range(40):
            account.update(name, "a")

    at_once(fail, fail, count, count)
    assert dynamodb.scan(TableName=name)["Items"] == [{"PK": {"S": "a"}, "n": {"N": "80"}}]


def test_a_transaction_that_comes_again_is_done_once(account: Account, dynamodb: Any) -> None:
    name, _ = account.table()
    request = {"TransactItems": [{"Update": addition(name, "a")}], "ClientRequestToken": uuid.uuid4().hex}
    for _ in range(2):
        dynamodb.transact_write_items(**request)
    assert dynamodb.scan(TableName=name)["Items"] == [{"PK": {"S": "a"}, "n": {"N": "1"}}]
    with pytest.raises(ClientError, match="IdempotentParameterMismatchException"):
        dynamodb.transact_write_items(**{**request, "TransactItems": [{"Update": addition(name, "b")}]})


def test_other_services_answer_too(account: Account) -> None:
    buckets, name = account.client("s3"), f"bucket-{uuid.uuid4().hex[:8]}"
    buckets.create_bucket(Bucket=name)
    buckets.put_object(Bucket=name, Key="key", Body=b"content")
    assert buckets.get_object(Bucket=name, Key="key")["Body"].read() == b"content"
