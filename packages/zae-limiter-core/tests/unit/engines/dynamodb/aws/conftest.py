"""What the tests of the configuration of AWS run over: no setting of this machine."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

Configure = Callable[[str], None]


@pytest.fixture(autouse=True)
def configure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Configure:
    """Take all settings away; returns what writes the file of the profiles."""
    for name in [name for name in os.environ if name.startswith("AWS_") or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")

    def write(text: str) -> None:
        (tmp_path / "config").write_text(text)

    return write
