"""What lives here: every Python block of every README and of the docs is run, its prints held to its comments.
What never does: an example of its own.
"""

import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.integration.targets import Target
from zae_limiter_aggregator import handler as aggregator
from zae_limiter_provisioner import handler as provisioner

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", *ROOT.glob("packages/*/README.md"), *ROOT.glob("docs/**/*.md")])
BLOCK = re.compile(r"^( *)```python[^\n]*\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
CLIENT = re.compile(r"^from (openai|anthropic|langchain_openai|zae_limiter\.integrations\.litellm) ", re.MULTILINE)
PROMISE = re.compile(r"^\s*print\(.*\)  # (.+)$", re.MULTILINE)

UNTYPED = "[mypy]\n[mypy-boto3.*,botocore.*]\nignore_missing_imports = true\n"


@dataclass(frozen=True, slots=True)
class Block:
    """One block: where it stands, and its code."""

    place: str
    code: str

    @property
    def needs_a_table(self) -> bool:
        """Whether it connects."""
        return ".open(" in self.code or ".builder(" in self.code

    @property
    def needs_a_client(self) -> bool:
        """Whether it calls a language model: core's tests run it where the clients are, in `just test-llm`."""
        return CLIENT.search(self.code) is not None

    @property
    def needs_a_stack(self) -> bool:
        """Whether it connects to what `deploy` has made, rather than to a table of its own making."""
        return self.needs_a_table and "create_table" not in self.code

    @property
    def needs_another_account(self) -> bool:
        """Whether it names a table or a role of another account, which no emulator has: mypy alone reads it."""
        return "arn:aws:" in self.code


def blocks() -> Iterator[Block]:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for found in BLOCK.finditer(text):
            line = text.count("\n", 0, found.start(2)) + 1
            # Blank lines in front, so that a traceback names the page's own lines.
            yield Block(f"{page.relative_to(ROOT)}:{line}", "\n" * (line - 1) + _dedented(found))


def _dedented(found: re.Match[str]) -> str:
    return re.sub(f"^{found[1]}", "", found[2], flags=re.MULTILINE)


def run(block: Block, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    # The handler of a Lambda, which another test of this process may have called, writes log lines to standard output
    for name in ("", *aggregator.LOGGERS, *provisioner.LOGGERS):
        monkeypatch.setattr(logging.getLogger(name), "handlers", [])
    capsys.readouterr()  # what a thread of another test has logged meanwhile
    exec(compile(block.code, block.place, "exec"), {"__name__": "__main__"})
    promised = PROMISE.findall(block.code)
    if promised:
        assert capsys.readouterr().out.splitlines() == promised


ALL = [block for block in blocks() if not block.needs_a_client]


def test_there_are_examples() -> None:
    assert len(ALL) >= 8


@pytest.mark.parametrize("block", [block for block in ALL if not block.needs_a_table], ids=lambda block: block.place)
def test_an_example_in_memory_does_what_it_says(
    block: Block, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)  # where an example may leave a file
    run(block, capsys, monkeypatch)


@pytest.mark.long
def test_every_example_has_types_that_mypy_accepts(tmp_path: Path) -> None:
    for number, block in enumerate(ALL):
        (tmp_path / f"example_{number}.py").write_text(block.code.lstrip("\n"), encoding="utf-8")
    (tmp_path / "mypy.ini").write_text(UNTYPED, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "."]
    done = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True)
    places = {f"example_{number}.py": block.place for number, block in enumerate(ALL)}
    assert done.returncode == 0, re.sub(r"^\w+\.py", lambda name: places[name[0]], done.stdout, flags=re.MULTILINE)


MAKES_A_TABLE = [block for block in ALL if block.needs_a_table and not block.needs_a_stack]


@pytest.mark.needs("endpoint")
@pytest.mark.parametrize("block", MAKES_A_TABLE, ids=lambda block: block.place)
def test_an_example_over_a_table_does_what_it_says(
    block: Block, target: Target, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert target.endpoint_url is not None
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", target.endpoint_url)
    run(block, capsys, monkeypatch)


OVER_A_STACK = [block for block in ALL if block.needs_a_stack and not block.needs_another_account]


@pytest.mark.needs("endpoint", "lambda")
@pytest.mark.parametrize("block", OVER_A_STACK, ids=lambda block: block.place)
def test_an_example_over_a_stack_does_what_it_says(
    block: Block, target: Target, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert target.endpoint_url is not None
    assert target.stack is not None
    monkeypatch.setenv("AWS_ENDPOINT_URL", target.endpoint_url)
    monkeypatch.setenv("ZAEL_STACK", target.stack)
    run(block, capsys, monkeypatch)
