"""The examples of docs/guides/llm.md, each run as its page says, before a provider on this machine."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("openai", reason="openai is not installed: `just test-llm newest` has it")

from support.core.llm.provider import providing
from support.core.llm.proxy import OFFLINE

pytestmark = pytest.mark.slow
PAGE = Path(__file__).resolve().parents[4] / "docs/guides/llm.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
PROMISE = re.compile(r"print\(.*\)  # (.+)$", re.MULTILINE)


def test_the_page_has_an_example_of_each_client() -> None:
    clients = ("openai", "anthropic", "langchain_openai", "zae_limiter.integrations.litellm")
    assert [client for client, code in zip(clients, EXAMPLES, strict=True) if f"from {client} import" in code] == [
        *clients
    ]


def test_every_example_has_types_that_mypy_accepts(tmp_path: Path) -> None:
    for number, code in enumerate(EXAMPLES):
        (tmp_path / f"example_{number}.py").write_text(code, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "."]
    done = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("code", EXAMPLES, ids=["openai", "anthropic", "langchain", "litellm"])
def test_an_example_does_what_it_says(code: str, tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(code, encoding="utf-8")
    with providing() as provider:
        addresses = {"OPENAI_BASE_URL": f"{provider.url}/v1", "ANTHROPIC_BASE_URL": provider.url}
        keys = {"OPENAI_API_KEY": "sk-1", "ANTHROPIC_API_KEY": "sk-1"}
        done = subprocess.run(
            [sys.executable, "main.py"],
            check=False,
            cwd=tmp_path,
            env=os.environ | OFFLINE | addresses | keys,
            capture_output=True,
            text=True,
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == PROMISE.findall(code)
    assert len(provider.asked) == (0 if "litellm" in code else 2)
