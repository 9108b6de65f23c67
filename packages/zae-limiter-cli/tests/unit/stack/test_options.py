from typing import Any

import pytest

from zae_limiter_cli.errors import CommandError
from zae_limiter_cli.stack.options import LONGEST_NAME, StackOptions, check_stack_name

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
        ("alarm_topic_arn", ROLE, f"--alarm-topic-arn {ROLE!r}: must be an ARN of that service"),
        ("role_name_format", "corp", "--role-name-format 'corp': must be a name with one {}"),
        (
            "role_name_format",
            "{}",
            "--role-name-format '{}': must be a name with one {} and at least one more character",
        ),
        ("role_name_format", "{}{}", "--role-name-format '{}{}': must be a name with one {}"),
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
