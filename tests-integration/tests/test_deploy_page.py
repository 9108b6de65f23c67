"""What lives here: the commands of docs/operate/deploy.md and upgrade.md, run in their order against moto.
What never does: what the commands do in detail (the CLI's own tests).
"""

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from click.testing import CliRunner

from support.integration.empty_account import empty_account
from zae_limiter_cli import confirmation
from zae_limiter_cli.main import main

OPERATE = Path(__file__).resolve().parents[2] / "docs" / "operate"
PAGE = OPERATE / "deploy.md"
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty account at moto, an empty directory, and somebody at a terminal."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(confirmation, "can_ask", lambda: True)
    with empty_account(monkeypatch):
        yield


def commands(page: Path) -> list[str]:
    return [line for block in BLOCK.findall(page.read_text(encoding="utf-8")) for line in block.splitlines()]


def run(line: str) -> None:
    words = shlex.split(line, comments=True)
    if words[0] == "export":
        name, value = words[1].split("=")
        os.environ[name] = value
    elif words[:3] == ["aws", "cloudformation", "deploy"]:
        given = dict(zip(words[3::2], words[4::2], strict=True))
        boto3.client("cloudformation").create_stack(
            StackName=given["--stack-name"],
            TemplateBody=Path(given["--template-file"]).read_text(encoding="utf-8"),
            Capabilities=[given["--capabilities"]],
        )
    else:
        assert words[0] == "zae-limiter"
        _zae_limiter(words[1:])


def _zae_limiter(words: list[str]) -> None:
    """Run the command; ``> file`` takes its output."""
    end = words.index(">") if ">" in words else len(words)
    done = CliRunner().invoke(main, words[:end], input="y\n")
    assert done.exit_code == 0, f"{words}: {done.output}"
    for name in words[end + 1 :]:
        Path(name).write_text(done.stdout, encoding="utf-8")


@pytest.mark.long
def test_every_command_of_the_page_does_what_the_page_says(account: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZAEL_STACK", "")  # what the page exports ends with the test
    lines = commands(PAGE)
    assert len(lines) > 10
    for line in lines:
        run(line)


@pytest.mark.long
def test_every_command_of_an_upgrade_works_on_a_deployed_stack(account: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZAEL_STACK", "my-app")
    lines = commands(OPERATE / "upgrade.md")
    assert len(lines) > 5
    for line in ["zae-limiter deploy", *lines]:
        run(line)
