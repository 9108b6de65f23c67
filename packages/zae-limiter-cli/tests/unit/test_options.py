import click
import pytest
from click.testing import CliRunner

from zae_limiter_cli.connection import Connection
from zae_limiter_cli.errors import Commands
from zae_limiter_cli.options import connected, connection_options, in_namespace, namespace_options


@click.group(cls=Commands)
@namespace_options
@connection_options
def group() -> None:
    """A group with the options of its commands."""


@group.command()
@in_namespace
@connected
def show(connection: Connection, namespace: str) -> None:
    click.echo(f"{connection.name} {connection.region} {connection.profile} {connection.endpoint_url} {namespace}")


def run(*args: str, **environment: str) -> str:
    done = CliRunner().invoke(group, args, env={"ZAEL_STACK": "", "ZAEL_NAMESPACE": "", **environment})
    return done.output.strip()


def test_without_options_the_rest_is_left_to_the_sdk() -> None:
    assert run("show") == "zae-limiter None None None default"


def test_the_environment_names_stack_and_namespace() -> None:
    assert run("show", ZAEL_STACK="app", ZAEL_NAMESPACE="team") == "app None None None team"


def test_an_option_may_stand_before_or_behind_the_command() -> None:
    options = ["-n", "app", "-N", "team", "--region", "r", "--profile", "p", "--endpoint-url", "http://localhost:1"]
    told = "app r p http://localhost:1 team"
    assert run(*options, "show") == told
    assert run("show", *options) == told


def test_what_stands_further_to_the_right_wins_and_both_win_over_the_environment() -> None:
    assert run("-n", "one", "show", "-n", "two", ZAEL_STACK="three").split()[0] == "two"
    assert run("-n", "one", "show", ZAEL_STACK="three").split()[0] == "one"


@pytest.mark.parametrize("url", ["localhost:4566", "http://", "ftp://host", "http://a b"])
def test_an_endpoint_that_is_no_address_is_refused_with_an_example(url: str) -> None:
    assert run("show", "--endpoint-url", url) == (
        f"Error: endpoint URL {url!r}: must be an address like http://localhost:4566"
    )
