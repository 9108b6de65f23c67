"""What lives here: the scenario of docs/operate/refused.md: a key that its parent refuses, and `why` says so.
What never does: what `why` shows in other cases (the CLI), what `explain` finds (core's test_explaining).
"""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from support.integration.targets import Target
from zae_limiter import Limit, RateLimitExceeded, SyncRateLimiter, SyncRepository
from zae_limiter_cli.main import main

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "operate" / "refused.md").read_text(encoding="utf-8")
SHOWN = re.compile(r"^```sh\n(.*?)\n```$\n\n^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"-?[0-9][0-9,.:]*")
WAIT = re.compile(r"N (min|h)( N (s|min))?")


def suffer(repository: SyncRepository) -> None:
    """What the page tells: a limit of the parent is halved, another key uses it up, and the key is refused 5 times."""
    limiter = SyncRateLimiter(repository)
    limiter.create_entity("acme-corp", principal="ann")
    for key in ("key-1", "key-2"):
        limiter.create_entity(key, parent_id="acme-corp", cascade=True)
    limiter.set_resource_defaults("gpt-4", [Limit.per_minute("rpm", 25)])
    for capacity in (60, 30):
        limiter.set_limits("acme-corp", [Limit.per_minute("rpm", capacity)], "gpt-4", principal="ann")
    with limiter.acquire("key-1", "gpt-4", {"rpm": 10}):
        pass
    with limiter.acquire("key-2", "gpt-4", {"rpm": 20}) as lease:
        lease.adjust(rpm=60)  # in debt for two minutes, so that a slow machine sees no other answer
    for _ in range(5):
        with pytest.raises(RateLimitExceeded), limiter.acquire("key-1", "gpt-4", {"rpm": 1}):
            pass


def why(*words: str, columns: int = 80) -> str:
    done = CliRunner(env={"COLUMNS": str(columns)}).invoke(main, ["why", "key-1", "-r", "gpt-4", *words])
    assert (done.exit_code, done.stderr) == (0, ""), done.output
    return done.stdout


def told(repository: SyncRepository) -> dict[str, Any]:
    """What `why` tells programs once the process that was refused has ended, which writes its refusals."""
    suffer(repository)
    repository.close()
    document: dict[str, Any] = json.loads(why("-o", "json"))
    return document


def check(document: dict[str, Any]) -> None:
    own, parent = document["buckets"]
    assert document["binding"] == {"entity_id": "acme-corp", "resource": "gpt-4", "limit_name": "rpm"}
    assert 90 < document["wait_seconds"] <= 122
    assert (own["entity_id"], own["source"], own["limits"]["rpm"]["refuses"]) == ("key-1", "resource", False)
    assert own["refused_by"] == [{"entity_id": "acme-corp", "limit_name": "rpm", "refused": 5}]
    assert (own["admitted"], own["refused"], own["limits"]["rpm"]["available"] >= 15) == (1, 5, True)
    assert (parent["entity_id"], parent["limits"]["rpm"]["available"] < 0) == ("acme-corp", True)


@pytest.mark.needs("endpoint", "atomic")
def test_a_key_that_its_parent_refuses_is_explained_on_a_table(
    target: Target, table_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZAEL_STACK", table_name)
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", str(target.endpoint_url))
    check(told(SyncRepository.builder().stack(table_name).create_table().build()))
    assert why(columns=60).startswith("key-1 on gpt-4, 1 rpm: refused by acme-corp/rpm: too fast.\n")


def test_it_is_explained_on_a_file_as_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ZAEL_STORE", "sqlite:///limits.db")
    document = told(SyncRepository.open())
    check(document)
    assert document["usage"]["refused_by"] == document["buckets"][0]["refused_by"]  # of the last hour
    ((command, shown),) = SHOWN.findall(PAGE)
    assert shlex.split(command) == ["zae-limiter", "why", "key-1", "-r", "gpt-4"]
    assert words(why()) == words(shown)
    reset = CliRunner().invoke(main, ["bucket", "reset", "--yes", *shlex.split(document["next"][1]["command"])[3:]])
    assert reset.exit_code == 0, reset.output
    assert why().startswith("key-1 on gpt-4, 1 rpm: passes now.\nRefused before, most often by acme-corp/rpm.\n")


def words(text: str) -> list[str]:
    """The words without their numbers, units of time and line ends, which depend on the time."""
    return WAIT.sub("N s", NUMBER.sub("N", text)).split()
