"""What lives here: the commands that docs/cli.md shows, run in their order on every store.
What never does: the commands of `limits` on a stack (test_operators_page), the page's lists (tools/lists.py).
"""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from support.integration.targets import Target
from zae_limiter import SyncRateLimiter, SyncRepository
from zae_limiter.maintenance import SyncMaintenance
from zae_limiter_cli.main import main

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
FILE = re.compile(r"^```yaml (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```sh\n(.*?)^```$(?:\n\n^```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
EXAMPLE_ID = "dTq0yW5cX8A"


def run(line: str, namespace_id: str = "") -> str:
    """What a command writes; a comment behind it that ends with a full stop says how that ends."""
    command, _, comment = line.partition("#")
    program, *words = shlex.split(command.replace(EXAMPLE_ID, f"-- {namespace_id}"))
    assert program == "zae-limiter"
    done = CliRunner().invoke(main, words)
    assert (done.exit_code, done.stderr) == (0, ""), (line, done.output, done.exception)
    if comment.endswith("."):
        assert done.stdout.endswith(f"{comment.strip()}\n")
    return done.stdout


@pytest.mark.long(keep=1)
@pytest.mark.needs("endpoint")
@pytest.mark.usefixtures("folder")
def test_the_commands_do_what_the_page_says(target: Target, table_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZAEL_STACK", table_name)
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", str(target.endpoint_url))
    with SyncRepository.builder().stack(table_name).create_table().build() as repository:
        follow_the_page(repository)


@pytest.mark.usefixtures("folder")
def test_the_commands_do_the_same_on_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZAEL_STORE", "sqlite:///page.db")
    with SyncRepository.open() as repository:
        follow_the_page(repository)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The working directory, with the files of the page."""
    for name, content in FILE.findall(PAGE):
        (tmp_path / name).write_text(content)
    monkeypatch.chdir(tmp_path)


def follow_the_page(repository: SyncRepository) -> None:
    told = ""
    for commands, output in BLOCK.findall(PAGE):
        if "bucket credit" in commands:
            use_up(repository)
        for line in commands.splitlines():
            found = re.search(r"recover (?:-- )?(\S+)`", told)
            last = run(line, found[1] if found else "")
            told += last
        assert output in {"", last}
    bucket = repository.get_bucket("customer-7", "gpt-4")
    assert bucket is not None
    assert bucket.available == {"rpm": 60, "tpm": 5000}
    assert [each.name for each in repository.list_namespaces()] == ["default"]
    assert SyncMaintenance(repository).list_orphan_namespaces() == []


def use_up(repository: SyncRepository) -> None:
    repository.invalidate_config_cache()
    with SyncRateLimiter(repository).acquire("customer-7", "gpt-4", {"rpm": 60, "tpm": 5000}):
        pass
