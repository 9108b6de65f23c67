"""What lives here: each command of docs/operate/on-call.md answers, on a file and on a table.
What never does: what the commands show (the CLI's tests).
"""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from support.integration.targets import Target
from zae_limiter import Limit, RateLimitExceeded, SyncRateLimiter, SyncRepository
from zae_limiter_cli.main import main

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "operate" / "on-call.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\| [^|]+ \| `zae-limiter ([^`]+)` \|", PAGE, re.MULTILINE)
ANSWERS = {
    "why": "refused by acme-corp/rpm",
    "usage list": "GMT|UTC|WINDOW",
    "audit list": "limits_set",
    "lift": "other limits until",
    "usage near": "acme-corp",
    "usage top": "key-1",
    "usage export": "entity",
    "doctor": "clock|table|file",
    "limits plan": "Plan: 1 to create",
    "entity tree": "key-1",
    "limits rollback": "No changes|Applied",
    "block": "is blocked until",
    "bucket list": "SHARDS",
}
OF_A_STACK = {"usage cost": "cost|price"}
MANIFEST = "namespace: default\nresources:\n  gpt-4:\n    limits: {rpm: 25/min}\n"
MORE = MANIFEST + "  gpt-4o:\n    limits: {rpm: 5/min}\n"


def prepare(repository: SyncRepository) -> None:
    """A key is refused by its parent, whose tokens another key has used up."""
    limiter = SyncRateLimiter(repository)
    limiter.create_entity("acme-corp")
    for key in ("key-1", "key-2"):
        limiter.create_entity(key, parent_id="acme-corp", cascade=True)
    limiter.set_limits("acme-corp", [Limit.per_minute("rpm", 30)], "gpt-4")
    for key, amount in (("key-1", 5), ("key-2", 25)):
        with limiter.acquire(key, "gpt-4", {"rpm": amount}) as lease:
            lease.adjust(rpm=20 if amount == 25 else 0)
    with pytest.raises(RateLimitExceeded), limiter.acquire("key-1", "gpt-4", {"rpm": 15}):
        pass
    repository.close()  # which writes the refusals


def run(command: str) -> str:
    agreed = ["--yes"] if command.startswith(("block", "limits rollback")) else []
    done = CliRunner(env={"COLUMNS": "100"}).invoke(main, [*shlex.split(command), *agreed])
    assert done.exit_code == 0 or command == "doctor", (command, done.output, done.exception)
    return done.output


def test_the_page_has_a_command_for_all_but_one_of_the_fifteen() -> None:
    assert len(re.findall(r"^\| [A-Z]", PAGE, re.MULTILINE)) == 15
    named = {" ".join(word for word in command.split()[:2] if word.isalpha()) for command in COMMANDS}
    assert len(COMMANDS) == 14
    assert all(any(command.startswith(name) for name in {*ANSWERS, *OF_A_STACK}) for command in COMMANDS), named


def test_each_command_answers_on_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ZAEL_STORE", "sqlite:///limits.db")
    Path("limits.yaml").write_text(MANIFEST, encoding="utf-8")
    run("limits apply -f limits.yaml --yes")
    Path("limits.yaml").write_text(MORE, encoding="utf-8")
    prepare(SyncRepository.open())
    _answers({command: answer for command, answer in _pairs() if answer})


def _pairs() -> list[tuple[str, str | None]]:
    return [(each, next((ANSWERS[name] for name in ANSWERS if each.startswith(name)), None)) for each in COMMANDS]


def _answers(wanted: dict[str, str]) -> None:
    for command, answer in wanted.items():
        assert re.search(answer, run(command)), (command, run(command))


@pytest.mark.needs("endpoint", "atomic")
def test_each_command_answers_on_a_table(target: Target, table_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZAEL_STACK", table_name)
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", str(target.endpoint_url))
    repository = SyncRepository.builder().stack(table_name).create_table().build()
    repository.set_resource_defaults("gpt-4", [Limit.per_minute("rpm", 25)])
    prepare(repository)
    without_functions = ("usage list", "usage top", "usage export", "usage cost", "limits", "doctor", "audit")
    _answers({each: answer for each, answer in _pairs() if answer and not each.startswith(without_functions)})
