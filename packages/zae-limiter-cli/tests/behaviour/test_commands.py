"""How many commands there are, how help lists them, and what answers to their old spellings."""

from collections.abc import Iterator

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


def main_commands() -> list[tuple[str, click.Command]]:
    context = click.Context(main)
    found = ((name, main.get_command(context, name)) for name in main.list_commands(context))
    return [(name, each) for name, each in found if each is not None]


def every(command: click.Command = main) -> Iterator[click.Command]:
    if not isinstance(command, click.Group):
        yield command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        child = command.get_command(context, name)
        assert child is not None
        yield from every(child)


def test_there_are_not_more_commands_than_these() -> None:
    """A new one takes the place of another, or is an option of it."""
    assert len([*every()]) <= 72


def test_help_has_commands_in_the_order_of_use() -> None:
    assert main.list_commands(click.Context(main))[:4] == ["demo", "local", "deploy", "limits"]


def test_options_in_help_are_options_alone() -> None:
    assert "\n  [ENTITY_ID]" not in CliRunner().invoke(main, ["disable", "--help"]).stdout


@pytest.mark.parametrize("group", [name for name, each in main_commands() if isinstance(each, click.Group)])
def test_each_command_of_a_group_has_one_line(group: str) -> None:
    """In a terminal of 80 columns, and not cut."""
    shown = CliRunner(env={"COLUMNS": "80"}).invoke(main, [group, "--help"]).stdout
    lines = shown.partition("\nCommands:\n")[2].partition("\n\n")[0].splitlines()
    assert all(line[:2] == "  " and line[2] != " " and not line.endswith("...") for line in lines), shown


@pytest.mark.parametrize(("name", "command"), main_commands())
def test_each_command_at_the_top_has_one_line(name: str, command: click.Command) -> None:
    assert len(command.get_short_help_str(200)) <= 80 - len("  lambda-export  "), name


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
