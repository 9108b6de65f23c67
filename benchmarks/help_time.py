"""What `--help` costs, of every command, against an import of boto3.

Lives here: fresh interpreters, in turns. Never: a command that is run.
"""

from collections.abc import Iterator
from statistics import median

import click

from zae_limiter_cli.main import main

from .import_time import THEIRS, bytecode_apart, cpu_ms
from .measure import pin_client
from .report import Row

ROUNDS = 3


def measure() -> list[Row]:
    pin_client()
    helps = {" ".join(("zae-limiter", *path)): _help_of(path) for path in _paths(main, ())}
    with bytecode_apart() as environment:
        for statement in (THEIRS, *helps.values()):
            cpu_ms(statement, environment)
        taken = [[cpu_ms(statement, environment) for statement in (THEIRS, *helps.values())] for _ in range(ROUNDS)]
    theirs, *ours = (median(column) for column in zip(*taken, strict=True))
    slowest, name = max(zip(ours, helps, strict=True))
    return [
        Row(f"the slowest, {name} --help / import boto3", slowest / theirs, at_most=0.67),
        Row(f"{name} --help", slowest, "ms"),
        Row(f"the median of {len(helps)} commands", median(ours), "ms"),
        Row("import boto3", theirs, "ms"),
    ]


def _paths(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The command, and all that are under it."""
    yield path
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _paths(inner, (*path, name))


def _help_of(path: tuple[str, ...]) -> str:
    args = [*path, "--help"]
    return f"import sys; sys.argv[1:] = {args!r}; from zae_limiter_cli.main import main; main(standalone_mode=False)"
