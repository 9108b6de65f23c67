import subprocess
import sys
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

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
            yield from paths(inner, (*path, name))


@pytest.mark.slow
@pytest.mark.parametrize("path", list(paths(main)), ids=" ".join)
def test_the_help_of_a_command_imports_neither_a_client_nor_the_library(path: tuple[str, ...]) -> None:
    ask = (
        "import sys; from zae_limiter_cli.main import main\n"
        f"main([*{path!r}, '--help'], standalone_mode=False)\n"
        "print({'boto3', 'botocore', 'aioboto3', 'yaml', 'moto', 'asyncio', 'zae_limiter'} & set(sys.modules))"
    )
    answer = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert answer.stdout.startswith(" ".join(("Usage: -c", *path)))
    assert answer.stdout.endswith("\nset()\n")


def test_a_groups_help_imports_none_of_its_commands() -> None:
    group = LazyCommands("tools", entries={"saw": Entry("not.there:saw", "Cut.")})
    done = CliRunner().invoke(group, ["--help"])
    assert done.exit_code == 0
    assert "saw  Cut." in done.stdout
