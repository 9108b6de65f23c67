"""The question before a command destroys something."""

import sys

import click

from .errors import CommandError


def can_ask() -> bool:
    """Whether somebody is there who can answer."""
    return sys.stdin.isatty()


def is_watched() -> bool:
    """Whether somebody sees what is asked, even where the answers cannot come from him."""
    return sys.stderr.isatty()


def confirm(question: str) -> None:
    """Ask on the terminal. Raises ``click.Abort`` for a no, and ``CommandError`` where there is nobody to ask."""
    if not can_ask():
        raise CommandError(f"{question} There is no terminal to answer on: pass --yes to confirm")
    click.confirm(question, abort=True, err=True)
