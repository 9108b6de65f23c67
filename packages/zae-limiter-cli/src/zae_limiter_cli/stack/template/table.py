"""The table, with the keys, indexes and attributes of core's schema."""

from collections.abc import Sequence

from zae_limiter.maintenance import TTL, create_table_request

from .capacity import billing, capacity
from .language import Resources, Value, attribute, document, ref, resource, text, when


def table(policy: Sequence[Value]) -> Resources:
    """Return the table; ``policy`` has the statements for principals of other accounts."""
    schema = create_table_request("")
    indexes = [{**each, **capacity(index=True)} for each in schema["GlobalSecondaryIndexes"]]
    return {
        "Table": resource(
            "DynamoDB::Table",
            {
                **{name: value for name, value in schema.items() if name not in {"TableName", "StreamSpecification"}},
                "BillingMode": billing(),
                **capacity(),
                "GlobalSecondaryIndexes": indexes,
                "TableName": ref("AWS::StackName"),
                "StreamSpecification": {"StreamViewType": schema["StreamSpecification"]["StreamViewType"]},
                "TimeToLiveSpecification": {"AttributeName": TTL, "Enabled": True},
                "PointInTimeRecoverySpecification": {
                    "PointInTimeRecoveryEnabled": when("HasRecovery", True, False),
                    "RecoveryPeriodInDays": when("HasRecovery", ref("RecoveryDays")),
                },
                "DeletionProtectionEnabled": when("HasProtection", True, False),
                "SSESpecification": when(
                    "HasKey", {"SSEEnabled": True, "SSEType": "KMS", "KMSMasterKeyId": ref("KmsKeyArn")}
                ),
                "ResourcePolicy": when("TrustsOthers", {"PolicyDocument": document(policy)}),
            },
            DeletionPolicy="Delete",
            UpdateReplacePolicy="Retain",
        )
    }


TABLE_ARN = attribute("Table", "Arn")
STREAM_ARN = attribute("Table", "StreamArn")


def index_arn(name: str) -> dict[str, str]:
    """Return the ARN of an index, or of all of them for ``*``."""
    return text(f"${{Table.Arn}}/index/{name}")  # type: ignore[no-any-return]
