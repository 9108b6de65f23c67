from typing import Any

import pytest

from zae_limiter_cli.errors import CommandError
from zae_limiter_cli.stack.options import (
    LONGEST_NAME,
    PRODUCTION,
    StackOptions,
    check_stack_name,
    emulator_host,
    in_production,
)

ROLE = "arn:aws:iam::123456789012:role/lambda"


@pytest.mark.parametrize("name", ["abc", "my-app", "A1-", "x" * LONGEST_NAME])
def test_a_name_that_stack_table_and_lambdas_can_have_passes(name: str) -> None:
    assert check_stack_name(name) == name


@pytest.mark.parametrize(
    "name", ["", "ab", "1app", "-app", "my_app", "my.app", "my app", "äpp", "x" * (LONGEST_NAME + 1)]
)
def test_another_name_is_refused_with_the_rule(name: str) -> None:
    with pytest.raises(CommandError) as refused:
        check_stack_name(name)
    told = str(refused.value)
    assert told == f"stack name {name!r}: must be 3 to 45 characters: a letter, then letters, digits and hyphens"


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("aggregator_memory", 100, "--aggregator-memory 100: must be 128 to 10240"),
        ("aggregator_memory", "256", "--aggregator-memory '256': must be a whole number"),
        ("log_retention_days", 4, "--log-retention-days 4: must be one of 1, 3, 5, 7, 14"),
        ("architecture", "mips", "--architecture 'mips': must be one of x86_64, arm64"),
        ("tracing", 1, "--tracing 1: must be true or false"),
        ("kms_key_arn", "alias/mine", "--kms-key-arn 'alias/mine': must be an ARN of that service"),
        ("alert_bus_arn", ROLE, f"--alert-bus-arn {ROLE!r}: must be an ARN of that service"),
        ("alarm_topic_arn", ROLE, f"--alarm-topic-arn {ROLE!r}: must be an ARN of that service"),
        ("role_name_format", "corp", "--role-name-format 'corp': must be a name with one {}"),
        (
            "role_name_format",
            "{}",
            "--role-name-format '{}': must be a name with one {} and at least one more character",
        ),
        ("role_name_format", "{}{}", "--role-name-format '{}{}': must be a name with one {}"),
        ("template_bucket", "s3://mine", "--template-bucket 's3://mine': must be the name of a bucket"),
        ("recovery_days", 36, "--recovery-days 36: must be 1 to 35"),
        ("archive_lock", "on", "--archive-lock 'on': must be one of off, governance, compliance"),
        ("response_host", "http://localhost", "--response-host 'http://localhost': must be a host, or host:port"),
        ("audit_retention_days", -1, "--audit-retention-days -1: must be 0 to 36500"),
        ("usage_daily_days", 1, "--usage-daily-days 1: must be 0 for ever, or at least 2"),
    ],
)
def test_a_bad_value_names_the_option_the_value_and_the_way_out(option: str, value: Any, told: str) -> None:
    with pytest.raises(CommandError) as refused:
        StackOptions(**{option: value})
    assert str(refused.value).startswith(told)


def test_without_iam_a_lambda_needs_a_role_or_is_off() -> None:
    with pytest.raises(CommandError, match="--no-iam: the aggregator needs a role"):
        StackOptions(iam=False)
    with pytest.raises(CommandError, match="--no-iam: the provisioner needs a role"):
        StackOptions(iam=False, aggregator_role_arn=ROLE)
    assert StackOptions(iam=False, aggregator_role_arn=ROLE, provisioner=False).iam is False


def test_roles_of_applications_need_the_policies_that_they_carry() -> None:
    with pytest.raises(CommandError, match="--app-roles"):
        StackOptions(app_roles=True, policies=False)


def test_what_was_not_given_stays_what_it_was() -> None:
    earlier = StackOptions(aggregator_memory=512, tracing=True)
    assert earlier.changed(tracing=False, alarms=None) == StackOptions(aggregator_memory=512)


def test_what_is_kept_with_a_stack_is_what_was_chosen_and_comes_back() -> None:
    options = StackOptions(aggregator_memory=512, alarms=False)
    assert options.chosen() == {"aggregator_memory": 512, "alarms": False}
    assert StackOptions.kept({**options.chosen(), "of_another_release": 1}) == options


@pytest.mark.parametrize(
    ("earlier", "given", "told"),
    [
        (
            {},
            {"recovery_days": 7},
            "--recovery-days 7 needs --point-in-time-recovery, which is off: turn that on, or leave ",
        ),
        ({}, {"archive_lock_days": 7}, "--archive-lock-days 7 needs --archive-lock, which is off"),
        ({"archive": False}, {"archive_lock": "governance"}, "--archive-lock governance needs --archive, which is off"),
        ({"archive": False}, {"archive_glacier_days": 7}, "--archive-glacier-days 7 needs --archive, which is off"),
        (
            {"aggregator": False, "archive": False},
            {"archive": True},
            "--archive (which --production asks for, too) needs --aggregator, which is off: turn that on, or pass",
        ),
    ],
)
def test_what_would_have_no_effect_is_refused_with_what_it_needs(
    earlier: dict[str, Any], given: dict[str, Any], told: str
) -> None:
    with pytest.raises(CommandError) as refused:
        StackOptions(**earlier).changed(**given)
    assert str(refused.value).startswith(told)


UNITS = {"min_reads": 5, "min_writes": 5, "max_reads": 50, "max_writes": 50}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"min_writes": 5}, "--min-writes 5 needs --capacity provisioned: pass it, too, or leave --min-writes out"),
        (
            {"capacity": "provisioned"},
            "--capacity provisioned: --min-reads 0 must be at least 1, and at most --max-reads 0",
        ),
        (
            {"capacity": "provisioned", **UNITS, "min_writes": 51},
            "--capacity provisioned: --min-writes 51 must be at least 1, and at most --max-writes 50",
        ),
        (
            {"capacity": "provisioned", **UNITS, "min_index_reads": 51},
            "--min-index-reads 51: must be at most --max-reads 50",
        ),
        (
            {"max_writes": 40_001},
            "--max-writes 40001: must be at most --write-quota 40000, what AWS grants a table of the account",
        ),
        ({"warm_reads": 50_000}, "--warm-reads 50000: must be at most --read-quota 40000"),
        ({"warm_writes": 3_999}, "--warm-writes 3999: must be 0, or at least 4000, which every table takes"),
        ({"warm_writes": 9_000, "max_writes": 8_000}, "--warm-writes 9000: must be at most --max-writes 8000"),
        ({"capacity": "provisioned", **UNITS, "target_utilization": 95}, "--target-utilization 95: must be 20 to 90"),
    ],
)
def test_units_that_contradict_each_other_or_the_quota_are_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(CommandError) as refused:
        StackOptions().changed(**given)
    assert str(refused.value).startswith(told)


def test_a_raised_quota_admits_more() -> None:
    assert StackOptions().changed(write_quota=90_000, max_writes=80_000, warm_writes=80_000).max_writes == 80_000


def test_what_is_kept_may_rest_while_what_it_needs_is_off() -> None:
    earlier = StackOptions(point_in_time_recovery=True, recovery_days=7)
    off = earlier.changed(point_in_time_recovery=False)
    assert (off.recovery_days, off.changed(point_in_time_recovery=True)) == (7, earlier)
    assert StackOptions().changed(archive=False, archive_lock="off", archive_glacier_days=0).archive is False


def test_production_is_what_was_given_and_else_all_protection() -> None:
    asked = in_production({"recovery_days": 7, "alarms": False, "archive": None})
    assert asked == {
        "recovery_days": 7,
        "point_in_time_recovery": True,
        "deletion_protection": True,
        "alarms": False,
        "archive": True,
    }
    assert set(PRODUCTION) < set(asked)


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://localhost:4566", "localhost"),
        ("http://localhost.localstack.cloud:4566/", "localhost.localstack.cloud"),
        ("http://user@local_stack:4566", "local_stack"),
        ("http://[::1]:4566", "[::1]"),
        ("https://dynamodb.eu-central-1.amazonaws.com", None),
        ("https://lambda.cn-north-1.amazonaws.com.cn", None),
        ("https://cloudformation.eu-west-1.api.aws", None),
    ],
)
def test_the_host_of_an_emulator_is_that_of_its_endpoint(url: str, host: str | None) -> None:
    assert emulator_host(url) == host
    assert host is None or StackOptions(response_host=host).response_host == host
