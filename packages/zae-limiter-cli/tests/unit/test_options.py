from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from zae_limiter_cli.connection import Connection
from zae_limiter_cli.errors import Commands
from zae_limiter_cli.options import (
    connected,
    connected_to_stack,
    connection_options,
    in_namespace,
    namespace_options,
)


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


@group.command()
@connected_to_stack
def deploy(connection: Connection) -> None:
    click.echo(f"{connection.name} {connection.file}")


def run(*args: str, **environment: str) -> str:
    nothing = dict.fromkeys(("ZAEL_STACK", "ZAEL_STORE", "ZAEL_NAMESPACE"), "")
    done = CliRunner().invoke(group, args, env={**nothing, **environment}, prog_name="zae-limiter")
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


@pytest.mark.parametrize("name", ["a;id", "$(id)", "a b", "`id`"])
def test_a_name_that_a_shell_would_run_is_in_no_command_to_paste(name: str) -> None:
    told = f"Error: stack name {name!r}: may have letters, digits, hyphens, dots and underscores only"
    assert run("show", "-n", name) == run("show", ZAEL_STACK=name) == told


URL = "sqlite:///folder/limits.db"
PLACE = f"sqlite:///{Path('folder/limits.db').absolute()}"


def test_a_file_is_named_by_an_option_or_by_the_environment_and_by_its_whole_path() -> None:
    told = f"{PLACE} None None None default"
    assert run("--store", URL, "show") == told
    assert run("show", "--store", URL) == told
    assert run("show", ZAEL_STORE=URL) == told
    assert run("show", ZAEL_STORE=URL, ZAEL_STACK="app") == told
    assert run("--store", "sqlite:///other.db", "show", "--store", URL, ZAEL_STORE="sqlite:///third.db") == told


@pytest.mark.parametrize(
    ("args", "environment", "told"),
    [
        (["--store", URL, "show", "-n", "app"], {}, "--store names a file, for which --name"),
        (["--region", "r", "show", "--store", URL], {}, "--store names a file, for which --region"),
        (
            ["show", "-n", "app", "--endpoint-url", "http://x"],
            {"ZAEL_STORE": URL},
            "ZAEL_STORE names a file, for which",
        ),
    ],
    ids=["behind a file", "before it", "beside the environment's"],
)
def test_a_file_and_a_stack_together_are_refused(args: list[str], environment: dict[str, str], told: str) -> None:
    line = run(*args, **environment)
    assert line.startswith(f"Error: {told}")
    assert line.endswith(" would mean nothing: pass the one or the other")


@pytest.mark.parametrize("url", ["limits.db", "sqlite:limits.db", "sqlite:///", "sqlite:///a.db?mode=ro", "redis://x"])
@pytest.mark.parametrize("source", ["--store", "ZAEL_STORE"])
def test_a_url_of_another_form_is_refused_with_the_name_of_its_source(url: str, source: str) -> None:
    line = run("show", "--store", url) if source == "--store" else run("show", **{source: url})
    assert line.startswith(f"Error: {source} {url!r}: ")
    assert ("must be " in line, "\n" in line) == (True, False)


def test_a_command_for_stacks_refuses_a_file_unless_a_stack_is_named_beside_the_environments() -> None:
    told = "Error: `deploy` is for a stack in AWS, and {} names a file: pass --name instead"
    assert run("--store", URL, "deploy") == told.format("--store")
    assert run("deploy", "--store", URL, "-n", "app") == told.format("--store")
    assert run("deploy", ZAEL_STORE=URL) == told.format("ZAEL_STORE")
    assert run("deploy", "-n", "app", ZAEL_STORE=URL) == "app None"
    assert run("deploy", ZAEL_STACK="app", ZAEL_STORE=URL) == "app None"
