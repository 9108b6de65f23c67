"""Old spellings of commands are answered with the new ones, and no new command is an old one."""

import click
import pytest
from click.testing import CliRunner

from zae_limiter_cli.main import main
from zae_limiter_cli.renamed import COMMANDS, OPTIONS


def command_of(line: str) -> click.Command | None:
    """The command that a line begins with, if it has one."""
    command: click.Command | None = main
    for word in line.split():
        if not isinstance(command, click.Group):
            break
        command = command.get_command(click.Context(command), word)
    return command


@pytest.mark.parametrize("old", COMMANDS)
def test_an_old_spelling_is_answered_with_the_new_one(old: str) -> None:
    done = CliRunner().invoke(main, [*old.split(), "acme", "--by", "2"])
    told = f"Error: No such command '{old}'; use `zae-limiter {COMMANDS[old]}`. See `main"
    assert (done.exit_code, done.stderr[: len(told)]) == (1, told)


@pytest.mark.parametrize("new", COMMANDS.values())
def test_what_to_use_instead_is_a_command(new: str) -> None:
    assert new == "--version" or not isinstance(command_of(new), (click.Group, type(None)))


@pytest.mark.parametrize(("path", "old"), OPTIONS)
def test_an_old_option_is_answered_with_the_new_one(path: str, old: str) -> None:
    new, command = OPTIONS[path, old], command_of(path)
    told = f"Error: No such option '{old}'; use `{new}`. See `main {path} --help`.\n"
    assert CliRunner().invoke(main, [*path.split(), old]).stderr == told
    assert command is not None
    assert new in {name for each in command.params for name in each.opts}
