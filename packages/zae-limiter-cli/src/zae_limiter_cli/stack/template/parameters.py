"""Options as parameters of the template, and the conditions on them."""

from collections.abc import Iterator, Mapping
from dataclasses import Field, fields
from typing import Any, Final

from ..options import NAME_FORMAT, NAME_PART, PLACE, StackOptions
from .language import Value, both, differs, equals, filled


def _any(one: str, other: str) -> Value:
    return {"Fn::Not": [both(equals(one, "0"), equals(other, "0"))]}


CONDITIONS: Final[dict[str, Value]] = {
    "HasAggregator": equals("Aggregator", "true"),
    "HasProvisioner": equals("Provisioner", "true"),
    "HasIam": equals("Iam", "true"),
    "HasPlanner": both("HasProvisioner", {"Fn::Not": [both(equals("Iam", "false"), equals("PlannerRoleArn", ""))]}),
    "HasArchive": both("HasAggregator", equals("Archive", "true")),
    "HasGlacier": both("HasArchive", differs("ArchiveGlacierDays", "0")),
    "HasArchiveEnd": both("HasArchive", differs("ArchiveDays", "0")),
    "HasLock": both("HasArchive", differs("ArchiveLock", "off")),
    "HasCompliance": both("HasLock", equals("ArchiveLock", "compliance")),
    "HasKey": differs("KmsKeyArn", ""),
    "IsProvisioned": equals("Capacity", "provisioned"),
    "CapsReads": differs("MaxReads", "0"),
    "CapsWrites": differs("MaxWrites", "0"),
    "HasReadMaximum": both(equals("Capacity", "on-demand"), "CapsReads"),
    "HasWriteMaximum": both(equals("Capacity", "on-demand"), "CapsWrites"),
    "HasMaximum": both(equals("Capacity", "on-demand"), _any("MaxReads", "MaxWrites")),
    "HasMinIndexReads": differs("MinIndexReads", "0"),
    "HasMinIndexWrites": differs("MinIndexWrites", "0"),
    "WarmsReads": differs("WarmReads", "0"),
    "WarmsWrites": differs("WarmWrites", "0"),
    "HasWarmth": _any("WarmReads", "WarmWrites"),
    "HasInsights": differs("ContributorInsights", "off"),
    "HasFullInsights": equals("ContributorInsights", "all"),
    "HasTracing": equals("Tracing", "true"),
    "HasRecovery": equals("PointInTimeRecovery", "true"),
    "HasProtection": equals("DeletionProtection", "true"),
    "HasAlarmTopic": differs("AlarmTopicArn", ""),
    "AlarmsTable": equals("Alarms", "true"),
    "AlarmsAggregator": both("HasAggregator", equals("Alarms", "true")),
    "AlarmsRefusals": both("AlarmsAggregator", differs("AlarmRefusals", "0")),
    "HasDashboard": both("AlarmsAggregator", equals("Dashboard", "true")),
    "AlarmsProvisioner": both("HasProvisioner", equals("Alarms", "true")),
    "ReservesAggregator": differs("AggregatorConcurrency", "0"),
    "ReservesProvisioner": differs("ProvisionerConcurrency", "0"),
    "GivenAggregatorRole": differs("AggregatorRoleArn", ""),
    "GivenProvisionerRole": differs("ProvisionerRoleArn", ""),
    "GivenPlannerRole": differs("PlannerRoleArn", ""),
    "OwnAggregatorRole": both("HasAggregator", "HasIam", equals("AggregatorRoleArn", "")),
    "OwnProvisionerRole": both("HasProvisioner", "HasIam", equals("ProvisionerRoleArn", "")),
    "OwnPlannerRole": both("HasPlanner", "HasIam", equals("PlannerRoleArn", "")),
    "HasAlertBus": both("HasAggregator", differs("AlertBusArn", "")),
    "NamesRole": filled("RoleNamePrefix", "RoleNameSuffix"),
    "NamesPolicy": filled("PolicyNamePrefix", "PolicyNameSuffix"),
    "HasResponseHost": differs("ResponseHost", ""),
    "TrustsAccounts": differs("TrustedAccounts", ""),
    "TrustsOrganization": differs("TrustedOrganization", ""),
    "TrustsOthers": filled("TrustedAccounts", "TrustedOrganization"),
    "HasVpc": differs("SubnetIds", ""),
    "HasVpcPolicy": both("HasIam", "HasVpc"),
    "HasCodeBucket": differs("CodeBucket", ""),
    "HasBoundary": differs("PermissionBoundaryArn", ""),
    "HasPolicies": both("HasIam", equals("Policies", "true")),
    "HasInvokePolicy": both("HasPolicies", "HasProvisioner"),
    "HasInvokePlannerPolicy": both("HasPolicies", "HasPlanner"),
    "HasAppRoles": both("HasPolicies", equals("AppRoles", "true")),
}


def _switches(conditions: Value) -> Iterator[str]:
    """Yield the parameters that 0 or an empty text switches off."""
    match conditions:
        case {"Fn::Equals": [{"Ref": str(name)}, "0" | ""]}:
            yield name
        case dict() | list():
            for part in conditions.values() if isinstance(conditions, dict) else conditions:
                yield from _switches(part)


SWITCHES: Final = frozenset(_switches(CONDITIONS))
# Of an option without a value, the parameter that stays: a topic is mostly made beside the stack, by the same tool.
OPEN: Final = ("AlarmTopicArn", "")


def parameter_name(option: str) -> str:
    """Return the option's name in the template."""
    return "".join(part.capitalize() for part in option.split("_"))


def parameters(options: StackOptions) -> dict[str, Value]:
    """Return a parameter for every option, two for a format of names, with the chosen value as default.

    A value that switches something on cannot be overridden by the one that switches it off, which the template no
    longer has.
    """
    made: dict[str, Value] = {}
    for each in fields(options):
        value = getattr(options, each.name)
        made |= _halves(each, value) if _is_format(each) else {parameter_name(each.name): _parameter(each, value)}
    return made


def values(options: StackOptions) -> dict[str, Any]:
    """Return the values that the parameters would get."""
    given: dict[str, Any] = {}
    for each in fields(options):
        value = getattr(options, each.name)
        named = zip(half_names(each.name), _cut(value), strict=True) if _is_format(each) else ()
        given |= dict(named) or {parameter_name(each.name): value}
    return given


def options_of(given: Mapping[str, str]) -> dict[str, Any]:
    """Return the options that these values of parameters stand for."""
    found: dict[str, Any] = {}
    for each in fields(StackOptions):
        names = half_names(each.name) if _is_format(each) else (parameter_name(each.name),)
        told = [given[name] for name in names if name in given]
        if len(told) == len(names):
            found[each.name] = _joined(*told) if _is_format(each) else _read(type(each.default), *told)
    return found


def half_names(option: str) -> tuple[str, str]:
    """Return the names in the template of the text before and after our part of a name."""
    kind = parameter_name(option).removesuffix("Format")
    return f"{kind}Prefix", f"{kind}Suffix"


def _is_format(each: Field[Any]) -> bool:
    return each.metadata.get("like") == NAME_FORMAT


def _cut(form: str) -> tuple[str, str]:
    before, _, after = form.partition(PLACE)
    return before, after


def _joined(before: str, after: str) -> str:
    return f"{before}{PLACE}{after}" if before or after else ""


def _halves(each: Field[Any], form: str) -> dict[str, Value]:
    """Return two parameters; if both are empty, no name is made with them."""
    pattern = f"^{NAME_PART}*$"
    told = [
        each.metadata["help"].replace("'corp-{}'", example) for example in ("'corp-' before it", "'-corp' behind it")
    ]
    return {
        name: {"Type": "String", "Default": half, "Description": described, "AllowedPattern": pattern}
        for name, half, described in zip(half_names(each.name), _cut(form), told, strict=True)
    }


def _read(kind: type, value: str) -> Any:
    return value == "true" if kind is bool else kind(value)


def _parameter(each: Field[Any], value: Any) -> Value:
    rule, described = each.metadata, {"Description": each.metadata["help"]}
    if isinstance(value, bool):
        return {"Type": "String", "AllowedValues": ["true", "false"], "Default": str(value).lower(), **described}
    kind = {"Type": "Number" if isinstance(value, int) else "String", "Default": value, **described}
    if "among" in rule:
        return {**kind, "AllowedValues": list(rule["among"])}
    on = value not in {0, ""} and parameter_name(each.name) in SWITCHES
    if "least" in rule:
        return {**kind, "MinValue": max(rule["least"], 1) if on else rule["least"], "MaxValue": rule["most"]}
    return {**kind, "AllowedPattern": f"^({rule['like'].removeprefix('|') if on else rule['like']})$"}
