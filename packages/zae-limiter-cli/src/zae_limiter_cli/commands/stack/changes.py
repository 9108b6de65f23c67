"""The changes of a stack: shown, and asked about before they are made."""

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import TYPE_CHECKING

import click

from ...columns import say_columns, say_json
from ...confirmation import check_can_ask, confirm

if TYPE_CHECKING:
    from ...connection import Connection
    from ...options import OutputForm
    from ...stack.deploy import Plan
    from ...stack.preview import Change

dry_run_option = click.option("--dry-run", is_flag=True, help="Show the changes and end.")


def of_plan(connection: "Connection", plan: "Plan", *, code_only: bool = False) -> "list[Change]":
    """Return the changes that a plan makes; ``code_only``: those outside CloudFormation."""
    from ...stack.preview import beside, preview

    if code_only:
        return list(beside(connection, plan))
    return preview(connection.client("cloudformation"), plan, connection)


def rows_of(changes: Sequence["Change"]) -> list[tuple[str, str, str, str]]:
    """Return a row for each change."""
    return [(change["action"], change["what"], change["kind"], change["details"]) for change in changes]


def show(changes: Sequence["Change"], output: "OutputForm") -> None:
    """Print the changes."""
    if output == "json":
        say_json(changes)
    elif changes:
        say_columns(rows_of(changes))
    else:
        click.echo("No changes.")


def check_terminal(command: str, stack: str) -> None:
    """Raise ``CommandError`` without a terminal, before anything is sent: a pipeline must not depend on whether there
    are changes.
    """
    check_can_ask(f"`{command}` asks before it changes stack {stack}.")


def ask(changes: Sequence["Change"], question: str) -> None:
    """Show the changes on standard error, and ask. Raises ``click.Abort``."""
    if changes:
        with redirect_stdout(sys.stderr):  # standard output is for the result
            say_columns(rows_of(changes))
    replaced = ", ".join(change["what"] for change in changes if change["action"] == "-/+")
    confirm(f"{question} It replaces {replaced}, with the loss of the content." if replaced else question)
