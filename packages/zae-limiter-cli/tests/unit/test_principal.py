import getpass
import socket
from pathlib import Path
from typing import Any

import pytest

from zae_limiter import maintenance
from zae_limiter_cli.connection import Connection
from zae_limiter_cli.principal import author

ARN = "arn:aws:sts::123456789012:assumed-role/admin/ann"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """How often AWS was asked who the caller is."""
    asked: list[Any] = []

    def caller_arn(**options: Any) -> str | None:
        asked.append(options)
        return ARN if options["profile"] == "known" else None

    monkeypatch.setattr(maintenance, "caller_arn", caller_arn)
    monkeypatch.setenv("LOGNAME", "ann")
    return asked


def test_who_is_named_is_not_asked_for(asked: list[Any]) -> None:
    assert author("bob", Connection("my-app", profile="known")) == "bob"
    assert asked == []


def test_a_caller_of_aws_is_known_there(asked: list[Any]) -> None:
    assert author(None, Connection("my-app", "us-east-1", "known")) == ARN
    assert asked == [{"region": "us-east-1", "profile": "known"}]


def test_anybody_else_is_the_user_and_the_machine(asked: list[Any]) -> None:
    ann = f"ann@{socket.gethostname()}"[:100]
    assert author(None, Connection("my-app")) == ann
    asked.clear()
    assert author(None, Connection("sqlite:///x.db", file=Path("x.db"))) == ann
    assert author(None, Connection("my-app", endpoint_url="http://localhost:4566", profile="known")) == ann
    assert asked == []


def test_a_user_without_a_name_is_unknown(asked: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise KeyError("uid not found")

    monkeypatch.setattr(getpass, "getuser", nobody)
    assert author(None, Connection("my-app")).startswith("unknown@")
