import getpass
import socket

import pytest

from zae_limiter_cli.principal import claimed


def test_who_is_named_is_claimed_else_the_user_and_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "ann")
    assert claimed("bob") == "bob"
    assert claimed(None) == f"ann@{socket.gethostname()}"[:100]


def test_a_user_without_a_name_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise KeyError("uid not found")

    monkeypatch.setattr(getpass, "getuser", nobody)
    assert claimed(None).startswith("unknown@")
