"""What the error of a command shows: each of its lines, whatever is in them."""

from base64 import b64encode

import click
import pytest
from botocore.exceptions import ClientError, ProxyConnectionError
from click.testing import CliRunner

from zae_limiter import RateLimiterUnavailable, ValidationError
from zae_limiter_cli.errors import CommandError, Commands, debug_option

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


ECHO = f"you sent user:hunter2 to http://user:hunter2@proxy, {b64encode(b'user:hunter2').decode()}"
ECHOED = {"Error": {"Code": "407", "Message": ECHO}}


@pytest.mark.parametrize("options", [[], ["--debug"]], ids=["short", "debug"])
@pytest.mark.parametrize(
    "error",
    [ClientError(ECHOED, "Invoke"), ProxyConnectionError(proxy_url="x", error=ECHO), ValueError(ECHO)],
    ids=lambda error: type(error).__name__,
)
def test_no_error_shows_the_password_of_a_proxy(
    error: Exception, options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://user:hunter2@127.0.0.1:3128")
    try:
        raise OSError(ECHO)
    except OSError as cause:
        error.__cause__ = cause
    shown = "\n".join(errors_of(error, *options))
    assert shown
    assert "hunter2" not in shown
    assert b64encode(b"user:hunter2").decode() not in shown
    assert ("Traceback" in shown) == (bool(options) or isinstance(error, ValueError))


def errors_of(error: Exception, *options: str) -> list[str]:
    """The lines on standard error of a command that ends with this error."""

    @click.command(cls=Commands)
    @debug_option
    def group() -> None:
        pass

    @group.command("act")
    def act() -> None:
        raise error

    result = CliRunner().invoke(group, [*options, "act"])
    assert result.exit_code == 1
    return result.stderr.splitlines()
