"""The template, with parameters and without."""

import json
from typing import Any

from ...errors import CommandError
from ..options import StackOptions, check_stack_name
from .access import acquiring_elsewhere, policies, roles
from .alarms import alarms
from .archive import archive
from .capacity import scaling
from .dashboard import dashboard
from .functions import FUNCTIONS, aggregator, planner, provisioner, vpc
from .language import Resource, Resources, attribute, ref, text
from .names import check_lengths
from .parameters import CONDITIONS, OPEN, parameters, values
from .resolve import resolve
from .table import STREAM_ARN, TABLE_ARN, table

METADATA = "ZaeLimiter"


def parametrized(options: StackOptions) -> dict[str, Any]:
    """Return the template for tools that pass parameters: the options decide what is in it, and each number or text
    that something in it uses is a parameter, whose default is the given one.
    """
    decided = {name: value for name, value in values(options).items() if (name, value) != OPEN}
    declared = _declared(options)
    if options.resource_name:  # a parameter in place of the stack's name, wherever that names something
        declared = json.loads(json.dumps(declared).replace("AWS::StackName", "ResourceName"))
    return resolve(declared, {}, decided)


def plain(name: str, options: StackOptions) -> dict[str, Any]:
    """Return the template for one stack, with the parameters and conditions resolved as CloudFormation would.

    Raises ``CommandError`` for a name that something in it cannot have.
    """
    if options.resource_name not in ("", name):
        raise CommandError("--resource-name is for the printed template: a stack that is deployed has its own name")
    pseudo = {"AWS::StackName": check_stack_name(name)}
    template = resolve(_declared(options), {**values(options), **pseudo})
    check_lengths(template["Resources"])
    return template


def _declared(options: StackOptions) -> dict[str, Any]:
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": "zae-limiter: rate limits in one DynamoDB table, with the Lambdas that look after it",
        "Metadata": {METADATA: {"Options": options.chosen()}},
        "Parameters": parameters(options),
        "Conditions": CONDITIONS,
        "Resources": _resources(),
        "Outputs": _outputs(),
    }


def _resources() -> Resources:
    return {
        **table(acquiring_elsewhere()),
        **scaling(),
        **aggregator(),
        **provisioner(),
        **planner(),
        **vpc(),
        **archive(),
        **policies(),
        **roles(),
        **alarms(),
        **dashboard(),
    }


def _outputs() -> Resources:
    provisioner_arn = attribute(FUNCTIONS["provisioner"], "Arn")
    return {
        "TableName": _output(ref("Table")),
        "TableArn": _output(TABLE_ARN),
        "StreamArn": _output(STREAM_ARN),
        "AggregatorArn": _output(attribute(FUNCTIONS["aggregator"], "Arn"), "HasAggregator"),
        "DeadLettersUrl": _output(ref("DeadLetters"), "HasAggregator"),
        "LimitsProvisionerArn": {
            **_output(provisioner_arn, "HasProvisioner"),
            "Export": {"Name": text("${AWS::StackName}-LimitsProvisionerArn")},
        },
        "LimitsPlannerArn": _output(attribute(FUNCTIONS["planner"], "Arn"), "HasPlanner"),
        "ArchiveBucketName": _output(ref("ArchiveBucket"), "HasArchive"),
        **{f"{name}Arn": _output(ref(name), made["Condition"]) for name, made in policies().items()},
        **{f"{name}Arn": _output(attribute(name, "Arn"), made["Condition"]) for name, made in roles().items()},
    }


def _output(value: Any, condition: str | None = None) -> Resource:
    return {"Value": value} if condition is None else {"Condition": condition, "Value": value}
