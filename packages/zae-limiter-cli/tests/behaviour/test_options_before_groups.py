"""The options of a connection before the name of a group or a command: taken, or refused where they mean nothing."""

import pytest
from click.testing import CliRunner

from support.cli.tables import making
from zae_limiter_cli.main import main


def run(*args: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(main, args)
    return done.exit_code, done.stdout, done.stderr


@pytest.mark.parametrize("name", ["--name", "-n"])
def test_a_stack_and_a_region_before_a_command_are_those_of_the_command(aws: str, name: str) -> None:
    code, _, told = run(name, "other-app", "--region", "eu-west-1", "upgrade", "--yes")
    assert (code, "there is no stack other-app in eu-west-1" in told) == (1, True)


def test_the_rightmost_of_several_wins(aws: str) -> None:
    with making():
        for args in (
            ("--name", "my-app", "system", "show"),
            ("--name", "nothing", "system", "--name", "my-app", "show"),
            ("--name", "nothing", "system", "show", "--name", "my-app"),
        ):
            assert run(*args)[0] == 0
        code, _, told = run("--name", "my-app", "system", "--name", "nothing", "show")
    assert (code, "'nothing'" in told) == (1, True)


@pytest.mark.parametrize(
    ("args", "option", "command"),
    [
        (["--name", "app", "demo"], "--name", "demo"),
        (["--region", "eu-west-1", "-n", "app", "local", "status"], "--name and --region", "local"),
        (["--endpoint-url", "http://localhost:1", "lambda-export", "aggregator"], "--endpoint-url", "lambda-export"),
        (["--profile", "p", "lambda-export", "planner"], "--profile", "lambda-export"),
    ],
    ids=str,
)
def test_an_option_that_would_mean_nothing_is_refused(args: list[str], option: str, command: str) -> None:
    told = f"{option} before `{command}` would mean nothing: see `zae-limiter {command} --help` for what it takes"
    assert run(*args) == (1, "", f"Error: {told}\n")


def test_the_stack_of_the_environment_is_no_mistake_before_such_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZAEL_STACK", "app")
    assert run("--version")[0] == 0
