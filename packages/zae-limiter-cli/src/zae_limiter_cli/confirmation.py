"""Ask before a command destroys something."""

import sys

import click

from .errors import CommandError


def can_ask() -> bool:
    """Return whether somebody can answer a question."""
    return sys.stdin.isatty()


def check_can_ask(question: str) -> None:
    """Raise ``CommandError`` where there is no terminal."""
    if not can_ask():
        raise CommandError(f"{question} There is no terminal to answer on: pass --yes to confirm")


def confirm(question: str) -> None:
    """Ask on the terminal. Raises ``click.Abort`` for a no, and ``CommandError`` where there is no terminal."""
    check_can_ask(question)
    click.confirm(question, abort=True, err=True)
