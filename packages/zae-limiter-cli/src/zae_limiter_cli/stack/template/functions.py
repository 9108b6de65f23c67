"""The Lambdas, each with its role and its log group, and the stream that feeds the aggregator."""

import json
from importlib.metadata import version
from typing import Final

from zae_limiter.maintenance import AUDIT_PREFIX, sk_state

from ...artifacts.builder import LambdaName, distribution_name
from ...artifacts.requirements import RUNTIME
from ..code import VERSION_TAG, function_name
from .grants import aggregating, in_vpc, logging_to, over_tls, planning, provisioning, reading_stream, telling, with_key
from .language import Resource, Resources, Value, allow, attribute, document, ref, resource, split, text, when
from .names import policy_name, role_name
from .table import STREAM_ARN

FUNCTIONS: Final[dict[LambdaName, str]] = {
    "aggregator": "AggregatorFunction",
    "provisioner": "LimitsProvisionerFunction",
    "planner": "LimitsPlannerFunction",
}
HANDLERS: Final[dict[LambdaName, str]] = {
    "aggregator": "zae_limiter_aggregator.handler.on_event",
    "provisioner": "zae_limiter_provisioner.handler.on_event",
    "planner": "zae_limiter_provisioner.handler.on_plan_event",
}
USAGE_WINDOW_SECONDS: Final = 30  # how long usage may wait where the stream is busy; the state has room for 35
NO_CODE_YET: Final = (
    "# zae-limiter deploy puts code here\n"  # moto reads it as base64, so its letters are a multiple of 4
)


def aggregator() -> Resources:
    """Return the aggregator, with its role, log group and event source mapping."""
    environment = {
        "ZAEL_STACK": ref("AWS::StackName"),
        "ZAEL_ARCHIVE_BUCKET": when("HasArchive", ref("ArchiveBucket")),
        "ZAEL_DEAD_LETTERS_URL": ref("DeadLetters"),
        "ZAEL_REFILL_AFTER_SECONDS": ref("RefillAfterSeconds"),
        "ZAEL_USAGE_HOURLY_DAYS": ref("UsageHourlyDays"),
        "ZAEL_USAGE_DAILY_DAYS": ref("UsageDailyDays"),
        "ZAEL_ALERT_BUS_ARN": when("HasAlertBus", ref("AlertBusArn")),
    }
    return {
        **_function("aggregator", environment, _size("Aggregator")),
        **_role(
            "aggregator",
            [
                *aggregating(),
                *reading_stream(),
                when("HasArchive", allow(["s3:PutObject"], text("${ArchiveBucket.Arn}/*"))),
                when("HasAlertBus", telling()),
                when("HasKey", with_key(["Decrypt", "GenerateDataKey"], "sqs")),
                when("HasKey", with_key(["GenerateDataKey"], "s3")),
            ],
        ),
        "AggregatorStream": _stream(),
        "DeadLetters": resource(
            "SQS::Queue",
            {
                "MessageRetentionPeriod": 14 * 24 * 3600,
                "KmsMasterKeyId": when("HasKey", ref("KmsKeyArn")),
                "SqsManagedSseEnabled": when("HasKey", False, True),
            },
            condition="HasAggregator",
            DeletionPolicy="Delete",
            UpdateReplacePolicy="Delete",
        ),
        "DeadLettersPolicy": resource(
            "SQS::QueuePolicy",
            {"Queues": [ref("DeadLetters")], "PolicyDocument": over_tls("sqs", attribute("DeadLetters", "Arn"))},
            condition="HasAggregator",
        ),
    }


def provisioner() -> Resources:
    """Return the provisioner, with its role and log group."""
    environment = {
        "ZAEL_STACK": ref("AWS::StackName"),
        "ZAEL_AUDIT_RETENTION_DAYS": text("${AuditRetentionDays}"),
        "ZAEL_RESPONSE_HOST": when("HasResponseHost", ref("ResponseHost")),
    }
    return {
        **_function("provisioner", environment, _size("Provisioner")),
        **_role("provisioner", provisioning()),
    }


def planner() -> Resources:
    """Return the planner, with its log group: the provisioner's code, with a role that only reads."""
    size = {key: value for key, value in _size("Provisioner").items() if key != "ReservedConcurrentExecutions"}
    return {
        **_function("planner", {"ZAEL_STACK": ref("AWS::StackName")}, size),
        **_role("planner", planning()),
    }


def vpc() -> Resources:
    """Return the policy of the roles whose Lambdas are in a VPC."""
    ours = text("arn:${AWS::Partition}:lambda:${AWS::Region}:${AWS::AccountId}:function:${AWS::StackName}-*")
    policy = {**policy_name("vpc"), "PolicyDocument": document(in_vpc(ours))}
    return {"VpcPolicy": resource("IAM::ManagedPolicy", policy, condition="HasVpcPolicy")}


def _size(prefix: str) -> Resource:
    return {
        "MemorySize": ref(f"{prefix}Memory"),
        "Timeout": ref(f"{prefix}Timeout"),
        "ReservedConcurrentExecutions": when(f"Reserves{prefix}", ref(f"{prefix}Concurrency")),
    }


def _function(name: LambdaName, environment: Resources, size: Resource) -> Resources:
    prefix, called = name.capitalize(), function_name("${AWS::StackName}", name)
    function = {
        "FunctionName": text(called),
        "Runtime": RUNTIME,
        "Handler": HANDLERS[name],
        "Code": when("HasCodeBucket", _code_of(name), {"ZipFile": NO_CODE_YET}),
        "Tags": when("HasCodeBucket", [{"Key": VERSION_TAG, "Value": version(distribution_name(name))}]),
        "Role": when(f"Given{prefix}Role", ref(f"{prefix}RoleArn"), attribute(f"{prefix}Role", "Arn")),
        "Architectures": [ref("Architecture")],
        **size,
        "TracingConfig": {"Mode": when("HasTracing", "Active", "PassThrough")},
        "Environment": {"Variables": environment},
        "KmsKeyArn": when("HasKey", ref("KmsKeyArn")),
        "VpcConfig": when("HasVpc", {"SubnetIds": split("SubnetIds"), "SecurityGroupIds": split("SecurityGroupIds")}),
        "LoggingConfig": {"LogGroup": ref(f"{prefix}Logs")},
    }
    logs = {
        "LogGroupName": text(f"/aws/lambda/{called}"),
        "RetentionInDays": ref("LogRetentionDays"),
        "KmsKeyId": when("HasKey", ref("KmsKeyArn")),
    }
    condition = f"Has{prefix}"
    return {
        FUNCTIONS[name]: resource("Lambda::Function", function, condition=condition),
        f"{prefix}Logs": resource(
            "Logs::LogGroup", logs, condition=condition, DeletionPolicy="Delete", UpdateReplacePolicy="Delete"
        ),
    }


def _code_of(name: LambdaName) -> Value:
    """Return the place of the code of this release, in the bucket of the region."""
    distribution = distribution_name(name)
    key = f"zae-limiter/{distribution}-{version(distribution)}.zip"
    return {"S3Bucket": text("${CodeBucket}-${AWS::Region}"), "S3Key": key}


def _role(name: LambdaName, statements: list[Value]) -> Resources:
    prefix = name.capitalize()
    trust = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "lambda.amazonaws.com"}}
    of_all = [
        logging_to(f"{prefix}Logs"),
        when("HasKey", with_key(["Decrypt"], "dynamodb", "lambda")),  # which has its variables
        when("HasTracing", _tracing()),
    ]
    policy = {"PolicyName": "own", "PolicyDocument": document([*of_all, *statements])}
    role = {
        **role_name(name),
        "AssumeRolePolicyDocument": document([trust]),
        "PermissionsBoundary": when("HasBoundary", ref("PermissionBoundaryArn")),
        "ManagedPolicyArns": when("HasVpc", [ref("VpcPolicy")]),
        "Policies": [policy],
    }
    return {f"{prefix}Role": resource("IAM::Role", role, condition=f"Own{prefix}Role")}


def _tracing() -> Value:
    return allow(["xray:PutTelemetryRecords", "xray:PutTraceSegments"], "*")


def _stream() -> Value:
    buckets = {"eventName": ["INSERT", "MODIFY"], "dynamodb": {"Keys": {"SK": {"S": [sk_state()]}}}}
    audit_no_more = {"eventName": ["MODIFY", "REMOVE"], "dynamodb": {"Keys": {"SK": {"S": [{"prefix": AUDIT_PREFIX}]}}}}
    patterns = (buckets, audit_no_more)
    mapping = {
        "EventSourceArn": STREAM_ARN,
        "FunctionName": ref(FUNCTIONS["aggregator"]),
        "StartingPosition": "TRIM_HORIZON",
        "FilterCriteria": {"Filters": [{"Pattern": json.dumps(pattern)} for pattern in patterns]},
        "BatchSize": ref("BatchSize"),
        "MaximumBatchingWindowInSeconds": ref("BatchWindow"),
        "TumblingWindowInSeconds": USAGE_WINDOW_SECONDS,
        "MaximumRetryAttempts": ref("RetryAttempts"),
        "MaximumRecordAgeInSeconds": -1,  # the stream's own 24 hours
        "BisectBatchOnFunctionError": True,
        "FunctionResponseTypes": ["ReportBatchItemFailures"],
        "DestinationConfig": {"OnFailure": {"Destination": attribute("DeadLetters", "Arn")}},
    }
    return resource("Lambda::EventSourceMapping", mapping, condition="HasAggregator")
