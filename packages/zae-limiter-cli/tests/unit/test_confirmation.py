import io
import sys

import click
import pytest

from zae_limiter_cli.confirmation import confirm
from zae_limiter_cli.errors import CommandError


class Keyboard(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_yes_goes_on_and_no_aborts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", Keyboard("y\nn\n"))
    confirm("Delete it?")
    with pytest.raises(click.Abort):
        confirm("Delete it?")
    assert capsys.readouterr().err.count("Delete it? [y/N]") == 2


def test_off_a_terminal_nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    with pytest.raises(CommandError, match=r"Delete it\? There is no terminal to answer on: pass --yes to confirm"):
        confirm("Delete it?")
