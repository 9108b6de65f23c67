"""What a disable refused is counted as that, and by no limit, also when it has ended."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from support.cli.by_hand import opened
from zae_limiter import Limit, RateLimitExceeded, SyncRateLimiter, SyncRepository
from zae_limiter_cli.main import main


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "limits.db"
    with SyncRepository.sqlite(path) as repository:
        repository.set_resource_defaults("gpt-4", [Limit.per_day("rpm", 99), Limit.per_day("tpm", 99)])
        repository.create_entity("team")
        repository.create_entity("key", parent_id="team", cascade=True)
    return path


def call(file: Path, tpm: int = 1) -> bool:
    with SyncRepository.sqlite(file) as repository:
        try:
            with SyncRateLimiter(repository).acquire("key", "gpt-4", {"rpm": 1, "tpm": tpm}):
                return True
        except RateLimitExceeded:
            return False


def told(file: Path, *words: str) -> str:
    done = CliRunner(env={"COLUMNS": "200"}).invoke(main, [*words, "--store", f"sqlite:///{file}"])
    assert done.exit_code == 0, done.output
    return " ".join(done.stdout.split())


@pytest.mark.parametrize("how", [(), ("--for", "2h")], ids=["switch", "override"])
@pytest.mark.parametrize("who", ["key", "team"])
def test_every_command_says_disabled(file: Path, who: str, how: tuple[str, ...]) -> None:
    assert call(file)
    told(file, "disable", who, "-r", "gpt-4", "--yes", *how)
    assert [call(file) for _ in range(3)] == [False, False, False]
    for has_ended in (False, True):
        if has_ended:
            told(file, "enable", who)
        assert f"1 acquire admitted, 3 refused (3 by {who} (disabled))" in told(file, "why", "key", "-r", "gpt-4")
        assert f"{who} (disabled) 3 " in told(file, "why", "key")
        assert f"SHADOWED OF BELOW BY {who}/disabled rpm" in told(file, "usage", "list")
        (row,) = opened(told(file, "usage", "top", "-r", "gpt-4", "-o", "json"))["entities"][:1]
        assert row["refused_by"] == [{"entity_id": who, "limit_name": "disabled", "refused": 3}]
        buckets = opened(told(file, "top", "--once", "-o", "json"))["buckets"]
        assert [each["blocked_by"] for each in buckets if each["entity_id"] == "key"] == [f"{who}/disabled"]
        never = opened(told(file, "usage", "list", "--never", "refused", "-o", "json"))["limits"]
        of_resource = [each for each in never if each["level"] == "resource"]
        assert [(each["limit_name"], each["may_have_refused"]) for each in of_resource] == [("rpm", 0), ("tpm", 0)]


def test_what_a_limit_refuses_next_is_of_the_limit(file: Path) -> None:
    assert call(file)
    told(file, "disable", "key", "-r", "gpt-4", "--yes")
    assert not call(file)
    told(file, "enable", "key")
    assert not call(file, tpm=99)
    done = told(file, "why", "key", "-r", "gpt-4")
    assert "1 acquire admitted, 2 refused (1 by key (disabled), 1 by key/tpm, 1 by team/tpm)" in done


def test_no_limit_has_the_name_under_which_a_disable_counts(file: Path) -> None:
    words = ["resource", "set-defaults", "gpt-4", "-l", "disabled: 5/min", "--store", f"sqlite:///{file}"]
    done = CliRunner().invoke(main, words)
    assert (done.exit_code, "'disabled'" in done.stderr, "is reserved" in done.stderr) == (1, True, True), done.stderr
