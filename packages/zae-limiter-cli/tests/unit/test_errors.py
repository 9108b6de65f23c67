"""What the error of a command shows: each of its lines, whatever is in them."""

import click
import pytest
from botocore.exceptions import ClientError
from click.testing import CliRunner

from zae_limiter import RateLimiterUnavailable, ValidationError
from zae_limiter_cli.errors import CommandError, Commands

FORGED = "x\r\nError: all is well\x1b[2J\u202e\u2028Error: so it is"
REFUSED = {"Error": {"Code": FORGED, "Message": FORGED}}
TITLE = "could not be made"


@pytest.mark.parametrize(
    "error",
    [
        CommandError(f"--name {FORGED}: there is none"),
        ClientError(REFUSED, "DescribeStacks"),
        RateLimiterUnavailable(FORGED),
        ValidationError("name", FORGED, "must be a name"),
        FileNotFoundError(2, FORGED, FORGED),
        click.BadParameter(FORGED),
        click.UsageError(FORGED),
    ],
    ids=lambda error: type(error).__name__,
)
def test_text_of_others_begins_no_line_of_its_own(error: Exception) -> None:
    shown = errors_of(error)
    assert len(shown) == 1
    assert shown[0].startswith("Error: ")
    assert shown[0].isprintable()


def test_an_error_with_lines_shows_each_on_one() -> None:
    assert errors_of(CommandError(TITLE, f"  {FORGED}", "  try again")) == [
        f"Error: {TITLE}",
        "  x Error: all is well\\x1b[2J\\u202e Error: so it is",
        "  try again",
    ]


def errors_of(error: Exception) -> list[str]:
    """The lines on standard error of a command that ends with this error."""

    @click.command(cls=Commands)
    def group() -> None:
        pass

    @group.command("act")
    def act() -> None:
        raise error

    result = CliRunner().invoke(group, ["act"])
    assert result.exit_code == 1
    return result.stderr.splitlines()
