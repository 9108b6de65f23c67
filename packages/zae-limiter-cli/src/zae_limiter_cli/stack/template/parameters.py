"""What lives here: options as parameters of the template, and the conditions on them.
What never does: a resource.
"""

from collections.abc import Mapping
from dataclasses import Field, fields
from typing import Any, Final

from ..options import StackOptions
from .language import Value, both, differs, equals

CONDITIONS: Final[dict[str, Value]] = {
    "HasAggregator": equals("Aggregator", "true"),
    "HasProvisioner": equals("Provisioner", "true"),
    "HasIam": equals("Iam", "true"),
    "HasArchive": both("HasAggregator", equals("Archive", "true")),
    "HasGlacier": both("HasArchive", differs("ArchiveGlacierDays", "0")),
    "HasKey": differs("KmsKeyArn", ""),
    "HasTracing": equals("Tracing", "true"),
    "HasRecovery": equals("PointInTimeRecovery", "true"),
    "HasProtection": equals("DeletionProtection", "true"),
    "HasAlarmTopic": differs("AlarmTopicArn", ""),
    "AlarmsAggregator": both("HasAggregator", equals("Alarms", "true")),
    "AlarmsProvisioner": both("HasProvisioner", equals("Alarms", "true")),
    "ReservesAggregator": differs("AggregatorConcurrency", "0"),
    "ReservesProvisioner": differs("ProvisionerConcurrency", "0"),
    "OwnAggregatorRole": both("HasAggregator", "HasIam", equals("AggregatorRoleArn", "")),
    "OwnProvisionerRole": both("HasProvisioner", "HasIam", equals("ProvisionerRoleArn", "")),
    "AggregatorTraces": both("OwnAggregatorRole", "HasTracing"),
    "ProvisionerTraces": both("OwnProvisionerRole", "HasTracing"),
    "AggregatorArchives": both("OwnAggregatorRole", "HasArchive"),
    "AggregatorUsesKey": both("OwnAggregatorRole", "HasKey"),
    "ProvisionerUsesKey": both("OwnProvisionerRole", "HasKey"),
    "HasBoundary": differs("PermissionBoundaryArn", ""),
    "HasPolicies": both("HasIam", equals("Policies", "true")),
    "HasInvokePolicy": both("HasPolicies", "HasProvisioner"),
    "HasAppRoles": both("HasPolicies", equals("AppRoles", "true")),
}


def parameter_name(option: str) -> str:
    """How the template spells an option."""
    return "".join(part.capitalize() for part in option.split("_"))


def parameters(options: StackOptions) -> dict[str, Value]:
    """A parameter for every option that is not structural, with what was chosen as its default."""
    return {
        parameter_name(each.name): _parameter(each, getattr(options, each.name))
        for each in fields(options)
        if not each.metadata.get("structural")
    }


def values(options: StackOptions) -> dict[str, Any]:
    """What the parameters would be given."""
    return {parameter_name(each.name): getattr(options, each.name) for each in fields(options)}


def options_of(given: Mapping[str, str]) -> dict[str, Any]:
    """The options that these values of parameters stand for."""
    known = {parameter_name(each.name): each for each in fields(StackOptions)}
    return {known[name].name: _read(type(known[name].default), value) for name, value in given.items() if name in known}


def _read(kind: type, value: str) -> Any:
    return value == "true" if kind is bool else kind(value)


def _parameter(each: Field[Any], value: Any) -> Value:
    rule, described = each.metadata, {"Description": each.metadata["help"]}
    if isinstance(value, bool):
        return {"Type": "String", "AllowedValues": ["true", "false"], "Default": str(value).lower(), **described}
    kind = {"Type": "Number" if isinstance(value, int) else "String", "Default": value, **described}
    if "among" in rule:
        return {**kind, "AllowedValues": list(rule["among"])}
    if "least" in rule:
        return {**kind, "MinValue": rule["least"], "MaxValue": rule["most"]}
    return {**kind, "AllowedPattern": f"^({rule['like']})$"}
