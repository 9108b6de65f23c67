"""The options of a stack: each once, with its default, its rule and its help."""

import re
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any, Final, Self
from urllib.parse import urlsplit

from ..errors import CommandError

RETENTION_DAYS: Final = (
    1,
    3,
    5,
    7,
    14,
    30,
    60,
    90,
    120,
    150,
    180,
    365,
    400,
    545,
    731,
    1096,
    1827,
    2192,
    2557,
    2922,
    3288,
    3653,
)
PLACE: Final = "{}"  # where our part of a name stands in a format
NAME_PART: Final = "[A-Za-z0-9+=,.@_-]"
NAME_FORMAT: Final = rf"|{NAME_PART}+\{{\}}{NAME_PART}*|\{{\}}{NAME_PART}+"
AWS_SUFFIXES: Final = (".amazonaws.com", ".amazonaws.com.cn", ".amazonaws.eu", ".api.aws")
HOST: Final = r"|[A-Za-z0-9._-]+(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?"
COMMON: Final = (  # those that a help page shows; `--help-all` shows the rest
    "aggregator",
    "provisioner",
    "alarms",
    "alarm_topic_arn",
    "point_in_time_recovery",
    "deletion_protection",
    "kms_key_arn",
    "archive",
    "iam",
    "permission_boundary_arn",
)
PRODUCTION: Final = ("point_in_time_recovery", "deletion_protection", "alarms", "archive")
GRANTED: Final = {"reads": 12_000, "writes": 4_000}  # the warm throughput of a new table on demand
QUOTA: Final = 40_000  # AWS's default of the quotas of a table, which an account may have raised
LONGEST_NAME: Final = 45  # that of the provisioner has 64 characters at most

_OFF: Final = (False, 0, "", "off", "on-demand")  # what switches an option off
NAME: Final = rf"[A-Za-z][A-Za-z0-9-]{{2,{LONGEST_NAME - 1}}}"
_NAME: Final = re.compile(NAME)


_FORMAT: Final = {
    "like": NAME_FORMAT,
    "form": "a name with one {} and at least one more character, such as 'corp-{}'",
}


_PROVISIONED: Final = {"least": 0, "most": 10**9, "needs": ("capacity",)}


def _arn(service: str) -> dict[str, str]:
    return {"like": rf"|arn:aws[a-z-]*:{service}:.+", "form": "an ARN of that service"}


def _list(like: str, what: str) -> dict[str, str]:
    return {"like": rf"|{like}(,{like}){{0,19}}", "form": f"at most 20 {what}, with commas between them"}


def _choice(default: Any, told: str, **rule: Any) -> Any:
    """Return a field with its rule: ``least`` and ``most`` bound a number, ``among`` lists values, ``like`` is an
    expression.

    ``form`` says what the expression admits, ``needs`` names the options without which this one has no effect.
    """
    return field(default=default, metadata={"help": told, **rule})


@dataclass(frozen=True, slots=True, kw_only=True)
class StackOptions:
    """The options of a stack. An empty text, or 0 where the help says so, means: none. Raises ``CommandError``."""

    aggregator: bool = _choice(True, "The Lambda on the table's stream: usage, refill, shards, archive.")
    aggregator_memory: int = _choice(256, "Memory of the aggregator, MB.", least=128, most=10_240)
    aggregator_timeout: int = _choice(60, "Time-out of the aggregator, seconds.", least=1, most=900)
    aggregator_concurrency: int = _choice(
        0, "Reserved concurrency of the aggregator; 0 reserves none.", least=0, most=10_000
    )
    batch_size: int = _choice(
        1_000, "Maximum number of stream records in a batch of the aggregator.", least=1, most=10_000
    )
    batch_window: int = _choice(2, "Maximum wait to fill a batch, seconds.", least=0, most=300)
    retry_attempts: int = _choice(
        -1, "Number of retries of a failing batch; -1 until its records expire.", least=-1, most=10_000
    )
    refill_after_seconds: int = _choice(
        3600, "Maximum age of a used bucket's anchor, seconds; 0 never moves it.", least=0, most=10**9
    )
    usage_hourly_days: int = _choice(90, "Retention of hourly usage, days; 0 for ever.", least=0, most=36_500)
    usage_daily_days: int = _choice(730, "Retention of daily usage, days; 0 for ever.", least=0, most=36_500)
    audit_retention_days: int = _choice(
        90, "Days that the provisioner's audit events stay in the table; 0 for ever.", least=0, most=36_500
    )
    alert_bus_arn: str = _choice(
        "",
        "EventBridge bus for crossed thresholds of limits; without, none is reported.",
        **_arn("events"),
        needs=("aggregator",),
    )
    provisioner: bool = _choice(True, "The Lambda that applies manifests of limits, and the planner beside it.")
    provisioner_memory: int = _choice(512, "Memory of provisioner and planner, MB.", least=128, most=10_240)
    provisioner_timeout: int = _choice(300, "Time-out of provisioner and planner, seconds.", least=1, most=900)
    provisioner_concurrency: int = _choice(
        0, "Reserved concurrency of the provisioner; 0 reserves none.", least=0, most=10_000
    )
    response_host: str = _choice(
        "",
        "Host of an emulator's CloudFormation, to which the provisioner may reply, too.",
        like=HOST,
        form="a host, or host:port",
    )
    architecture: str = _choice("x86_64", "Architecture of the Lambdas.", among=("x86_64", "arm64"))
    log_retention_days: int = _choice(30, "Retention of the logs of the Lambdas, days.", among=RETENTION_DAYS)
    tracing: bool = _choice(False, "Trace the Lambdas with X-Ray.")
    alarms: bool = _choice(True, "Alarms on table, aggregator, provisioner and dead letters.")
    read_quota: int = _choice(
        QUOTA, "Read units a second that the account grants a table: its alarm is at 80 %.", least=1, most=10**9
    )
    write_quota: int = _choice(
        QUOTA, "Write units a second that the account grants a table: its alarm is at 80 %.", least=1, most=10**9
    )
    alarm_topic_arn: str = _choice("", "SNS topic for the alarms.", **_arn("sns"))
    alarm_refusals: int = _choice(
        0,
        "Refused acquires in five minutes from which an alarm fires; 0 has no such alarm.",
        least=0,
        most=10**9,
        needs=("aggregator", "alarms"),
    )
    dashboard: bool = _choice(
        False,
        "CloudWatch dashboard of acquires, throttles, aggregator, dead letters and alarms.",
        needs=("aggregator", "alarms"),
    )
    capacity: str = _choice(
        "on-demand",
        "Pay for each request, or for provisioned units, which autoscaling adapts.",
        among=("on-demand", "provisioned"),
    )
    max_reads: int = _choice(
        0, "Maximum of read units a second of the table, and of each index; 0 for none.", least=0, most=10**9
    )
    max_writes: int = _choice(
        0, "Maximum of write units a second of the table, and of each index; 0 for none.", least=0, most=10**9
    )
    min_reads: int = _choice(0, "Provisioned minimum of read units a second of the table.", **_PROVISIONED)
    min_writes: int = _choice(0, "Provisioned minimum of write units a second of the table.", **_PROVISIONED)
    min_index_reads: int = _choice(0, "The same of each index; 0 for that of the table.", **_PROVISIONED)
    min_index_writes: int = _choice(0, "The same of each index; 0 for that of the table.", **_PROVISIONED)
    target_utilization: int = _choice(
        70, "Part of the provisioned units that autoscaling aims at, %.", least=20, most=90, needs=("capacity",)
    )
    warm_reads: int = _choice(
        0, "Read units a second that table and indexes take at once; 0 for what AWS grants.", least=0, most=10**9
    )
    warm_writes: int = _choice(
        0, "Write units a second that table and indexes take at once; 0 for what AWS grants.", least=0, most=10**9
    )
    contributor_insights: str = _choice(
        "off", "CloudWatch shows the keys that are throttled, or all that are busy.", among=("off", "throttled", "all")
    )
    point_in_time_recovery: bool = _choice(False, "Continuous backups of the table.")
    recovery_days: int = _choice(
        35, "Days back to which the backups reach.", least=1, most=35, needs=("point_in_time_recovery",)
    )
    deletion_protection: bool = _choice(False, "Refuse to delete the stack and its table.")
    kms_key_arn: str = _choice(
        "",
        "Customer key that encrypts table, dead letters, archive, and logs and variables of the Lambdas.",
        **_arn("kms"),
    )
    archive: bool = _choice(True, "Bucket for expired audit events. Needs the aggregator.", needs=("aggregator",))
    archive_glacier_days: int = _choice(
        0, "Days until archived events move to Glacier; 0 never.", least=0, most=36_500, needs=("archive",)
    )
    archive_days: int = _choice(
        0,
        "Days until archived events are removed, and earlier versions as many later; 0 never.",
        least=0,
        most=36_500,
        needs=("archive",),
    )
    archive_lock: str = _choice(
        "off",
        "Object Lock of a new archive: until the retention ends, compliance lets no one delete an event.",
        among=("off", "governance", "compliance"),
        needs=("archive",),
    )
    archive_lock_days: int = _choice(
        365, "Retention of each locked event, days.", least=1, most=36_500, needs=("archive_lock",)
    )
    template_bucket: str = _choice(
        "",
        "Bucket that `deploy` sends a template through which is too large for a request.",
        like=r"|[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]",
        form="the name of a bucket",
    )
    iam: bool = _choice(True, "Create roles and policies; without, the Lambdas need existing roles.")
    aggregator_role_arn: str = _choice("", "Existing role for the aggregator.", **_arn("iam"))
    provisioner_role_arn: str = _choice("", "Existing role for the provisioner.", **_arn("iam"))
    planner_role_arn: str = _choice("", "Existing role for the planner.", **_arn("iam"))
    policies: bool = _choice(True, "Managed policies to attach to applications and people.")
    app_roles: bool = _choice(False, "Roles with these policies, which the account may assume.")
    trusted_accounts: str = _choice(
        "", "Other accounts, with commas between them, whose principals may acquire.", **_list("[0-9]{12}", "accounts")
    )
    trusted_organization: str = _choice(
        "",
        "Organization of AWS, such as o-a1b2c3d4e5, whose principals may acquire.",
        like="|o-[a-z0-9]{10,32}",
        form="the id of an organization, such as o-a1b2c3d4e5",
    )
    subnet_ids: str = _choice(
        "", "Subnets for the Lambdas, with commas between them.", **_list("subnet-[0-9a-f]{8,17}", "subnets")
    )
    security_group_ids: str = _choice(
        "",
        "Security groups of the Lambdas in these subnets.",
        **_list("sg-[0-9a-f]{8,17}", "security groups"),
        needs=("subnet_ids",),
    )
    code_bucket: str = _choice(
        "",
        "Buckets that have the code of the Lambdas, one a region: 'acme' stands for acme-us-east-1 there.",
        like="|[a-z0-9][a-z0-9-]{1,44}",
        form="the beginning of a bucket's name",
    )
    resource_name: str = _choice(
        "",
        "Name of table and Lambdas in the stacks of a stack set, whose own names are too long.",
        like=rf"|{NAME}",
        form=f"a letter, then letters, digits and hyphens, 3 to {LONGEST_NAME} characters",
    )
    permission_boundary_arn: str = _choice("", "Permission boundary of all roles.", **_arn("iam"))
    role_name_format: str = _choice(
        "", "Name format of the roles, such as 'corp-{}'; without, CloudFormation names them.", **_FORMAT
    )
    policy_name_format: str = _choice(
        "", "Name format of the policies, such as 'corp-{}'; without, CloudFormation names them.", **_FORMAT
    )

    def __post_init__(self) -> None:
        for each in fields(self):
            _check(each, getattr(self, each.name))
        for name in ("aggregator", "provisioner"):
            if getattr(self, name) and not self.iam and not getattr(self, f"{name}_role_arn"):
                raise CommandError(f"--no-iam: the {name} needs a role: pass --{name}-role-arn, or --no-{name}")
        for name in ("usage_hourly_days", "usage_daily_days"):
            if getattr(self, name) == 1:
                raise CommandError(
                    f"{flag(name)} 1: must be 0 for ever, or at least 2: the stream keeps its records for a day"
                )
        if 0 < self.archive_days <= self.archive_glacier_days:
            raise CommandError(
                f"--archive-days {self.archive_days}: must be 0, or more than --archive-glacier-days "
                f"{self.archive_glacier_days}"
            )
        if bool(self.subnet_ids) != bool(self.security_group_ids):
            missing = "security-group-ids" if self.subnet_ids else "subnet-ids"
            raise CommandError(f"--{missing}: Lambdas in a VPC need subnets and security groups: pass it, too")
        if self.trusted_accounts and self.trusted_organization:
            raise CommandError(
                "--trusted-accounts and --trusted-organization exclude each other: pass '' for one of them"
            )
        if self.app_roles and not (self.iam and self.policies):
            raise CommandError(
                "--app-roles: these roles need the managed policies, which --no-iam and --no-policies leave out"
            )

        self._check_capacity()

    def _check_capacity(self) -> None:
        """Raise ``CommandError`` for units that DynamoDB would refuse, or that contradict each other."""
        for kind in ("reads", "writes"):
            most, least, of_index, warm = (
                getattr(self, f"{each}_{kind}") for each in ("max", "min", "min_index", "warm")
            )
            quota, granted = getattr(self, f"{kind[:-1]}_quota"), GRANTED[kind]
            provisioned = self.capacity == "provisioned"
            if provisioned and not 0 < least <= most:
                raise CommandError(
                    f"--capacity provisioned: --min-{kind} {least} must be at least 1, and at most --max-{kind} {most}"
                )
            if provisioned and of_index > most:
                raise CommandError(f"--min-index-{kind} {of_index}: must be at most --max-{kind} {most}")
            if max(most, warm) > quota:
                given = f"--max-{kind} {most}" if most > quota else f"--warm-{kind} {warm}"
                raise CommandError(
                    f"{given}: must be at most --{kind[:-1]}-quota {quota}, what AWS grants a table of the account"
                )
            if 0 < warm < granted:
                raise CommandError(f"--warm-{kind} {warm}: must be 0, or at least {granted}, which every table takes")
            if 0 < most < warm:
                raise CommandError(f"--warm-{kind} {warm}: must be at most --max-{kind} {most}, which refuses the rest")

    @property
    def planner(self) -> bool:
        """Whether the stack has a planner: beside its provisioner, if there is a role for it."""
        return self.provisioner and (self.iam or self.planner_role_arn != "")

    def changed(self, **given: Any) -> Self:
        """Return these options with the given ones replaced; ``None`` stands for one that was left out.

        Raises ``CommandError`` if a given one has no effect beside the others.
        """
        asked = {name: value for name, value in given.items() if value is not None}
        changed = replace(self, **asked)
        for each in fields(self):
            for needed in each.metadata.get("needs", ()):
                if asked.get(each.name, False) not in _OFF and getattr(changed, needed) in _OFF:
                    raise CommandError(_in_vain(each.name, asked[each.name], needed))
        return changed

    def chosen(self) -> dict[str, Any]:
        """Return the options that differ from the defaults, to be stored with the stack."""
        return {each.name: value for each in fields(self) if (value := getattr(self, each.name)) != each.default}

    @classmethod
    def kept(cls, chosen: Mapping[str, Any]) -> Self:
        """Return the options that ``chosen`` came from; ignore those that this release does not know."""
        known = {each.name for each in fields(cls)}
        return cls(**{name: value for name, value in chosen.items() if name in known})


def is_stack_name(name: str) -> bool:
    """Return whether a stack, its table and its Lambdas can have this name."""
    return _NAME.fullmatch(name) is not None


def check_stack_name(name: str) -> str:
    """Return the name. Raises ``CommandError`` if no stack can have it."""
    if is_stack_name(name):
        return name
    rule = f"must be 3 to {LONGEST_NAME} characters: a letter, then letters, digits and hyphens"
    raise CommandError(f"stack name {name!r}: {rule}")


def flag(name: str) -> str:
    """Return the option's name on the command line."""
    return f"--{name.replace('_', '-')}"


def without(name: str) -> str:
    """Return the option that switches this one off on the command line."""
    return f"--no-{flag(name)[2:]}"


def in_production(chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return the chosen options, and those that `--production` adds."""
    return {**chosen, **{name: True for name in PRODUCTION if chosen.get(name) is None}}


def emulator_host(endpoint_url: str) -> str | None:
    """Return the host of an emulator's endpoint; ``None`` for one of AWS."""
    host = urlsplit(endpoint_url).hostname or ""
    if host.endswith(AWS_SUFFIXES):
        return None
    return f"[{host}]" if ":" in host else host


def _in_vain(name: str, value: object, needed: str) -> str:
    given = flag(name) if value is True else f"{flag(name)} {value}"
    asked = f"{given} (which --production asks for, too)" if name in PRODUCTION else given
    instead = f"pass {without(name)}" if value is True else f"leave {flag(name)} out"
    if needed == "capacity":
        return f"{asked} needs --capacity provisioned: pass it, too, or {instead}"
    return f"{asked} needs {flag(needed)}, which is off: turn that on, or {instead}"


def _check(each: Field[Any], value: object) -> None:
    problem = _problem(each.metadata, value, each.default)
    if problem is not None:
        raise CommandError(f"{flag(each.name)} {value!r}: must be {problem}")


def _problem(rule: Mapping[str, Any], value: Any, default: object) -> str | None:
    """Return the rule that the value breaks, as a phrase; ``None`` if it is valid."""
    wrong_type = type(value) is not type(default)
    if wrong_type:
        return {"bool": "true or false", "int": "a whole number", "str": "text"}[type(default).__name__]
    if "among" in rule and value not in rule["among"]:
        return f"one of {', '.join(map(str, rule['among']))}"
    if "least" in rule and not rule["least"] <= value <= rule["most"]:
        return f"{rule['least']} to {rule['most']}"
    if "like" in rule and re.fullmatch(rule["like"], value) is None:
        return str(rule["form"])
    return None
