import pytest

from zae_limiter import ValidationError
from zae_limiter_aggregator.settings import Settings


def test_the_stack_is_all_that_has_to_be_said() -> None:
    settings = Settings.read({"ZAEL_STACK": "demo"})
    assert settings == Settings(stack="demo")
    assert (settings.refill_after_seconds, settings.usage_days("hourly"), settings.usage_days("daily")) == (
        3600,
        90,
        730,
    )
    assert settings.archive_bucket is None


def test_everything_can_be_said() -> None:
    environment = {
        "ZAEL_STACK": "demo",
        "ZAEL_REFILL_AFTER_SECONDS": "0",
        "ZAEL_USAGE_HOURLY_DAYS": "1",
        "ZAEL_USAGE_DAILY_DAYS": "0",
        "ZAEL_ARCHIVE_BUCKET": "demo-audit",
        "ZAEL_ARCHIVE_PREFIX": "",
        "ZAEL_DEAD_LETTERS_URL": "https://sqs.eu-west-1.amazonaws.com/123456789012/dead",
    }
    assert Settings.read(environment) == Settings(
        stack="demo",
        refill_after_seconds=0,
        hourly_days=1,
        daily_days=0,
        archive_bucket="demo-audit",
        archive_prefix="",
        dead_letters_url="https://sqs.eu-west-1.amazonaws.com/123456789012/dead",
    )


def test_what_is_empty_is_not_said() -> None:
    empty = dict.fromkeys(("ZAEL_REFILL_AFTER_SECONDS", "ZAEL_USAGE_HOURLY_DAYS", "ZAEL_ARCHIVE_BUCKET"), "")
    assert Settings.read({"ZAEL_STACK": "demo", **empty}) == Settings(stack="demo")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ZAEL_STACK", ""),
        ("ZAEL_REFILL_AFTER_SECONDS", "an hour"),
        ("ZAEL_REFILL_AFTER_SECONDS", "-1"),
        ("ZAEL_USAGE_DAILY_DAYS", "1.5"),
        ("ZAEL_USAGE_DAILY_DAYS", "\u00b2"),
    ],
)
def test_what_is_wrong_is_named(name: str, value: str) -> None:
    with pytest.raises(ValidationError) as refused:
        Settings.read({"ZAEL_STACK": "demo", name: value})
    assert refused.value.field == name
