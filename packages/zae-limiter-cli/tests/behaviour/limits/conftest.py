from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cli.limits_stack import Stack, serving
from zae_limiter_provisioner import handler


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    for name in ("ZAEL_STACK", "ZAEL_NAMESPACE", "ZAEL_PRINCIPAL", "ZAEL_SOURCE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "us-east-1")
    with serving(tmp_path) as stack:
        monkeypatch.setattr(handler, "table_of_environment", stack.table)
        monkeypatch.setattr(handler, "log_as_json", lambda *_, **__: None)
        yield stack
