import subprocess
import sys
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from zae_limiter_cli.commands.groups import bucket
from zae_limiter_cli.lazy import Entry, LazyCommands
from zae_limiter_cli.main import main


def paths(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The command, and all that are under it."""
    yield path
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            assert inner.name == name
            assert inner.help
            assert inner.short_help or isinstance(inner, click.Group)
            yield from paths(inner, (*path, name))


ASK = """
import sys
from contextlib import redirect_stdout
from io import StringIO
from zae_limiter_cli.main import main
for path in {paths!r}:
    with redirect_stdout(StringIO()) as said:
        main([*path, "--help"], standalone_mode=False)
    assert said.getvalue().startswith(" ".join(("Usage: -c", *path))), path
    found = {{"boto3", "botocore", "aioboto3", "yaml", "moto", "asyncio", "zae_limiter"}} & set(sys.modules)
    assert not found, (path, found)
"""


@pytest.mark.slow
def test_the_help_of_a_command_imports_neither_a_client_nor_the_library() -> None:
    known = list(paths(main))
    assert len(known) > 70
    done = subprocess.run([sys.executable, "-c", ASK.format(paths=known)], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_groups_help_imports_none_of_its_commands() -> None:
    group = LazyCommands("tools", sections={"Cut": {"saw": Entry("not.there:saw", "Cut.")}})
    done = CliRunner().invoke(group, ["--help"])
    assert done.exit_code == 0
    assert "saw  Cut." in done.stdout


def test_a_group_has_the_commands_that_its_modules_define_in_the_order_of_the_modules() -> None:
    context = click.Context(bucket)
    known = bucket.list_commands(context)
    assert known[:3] == ["reset", "credit", "merge"]
    assert known[-1] == "invalidate"
    assert bucket.get_command(context, "empty") is None
