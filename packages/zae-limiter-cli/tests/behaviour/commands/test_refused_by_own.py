"""After the fact, commands name the limit of a key itself that refused it, and a key that was never admitted."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from zae_limiter import Limit, RateLimitExceeded, SyncRateLimiter, SyncRepository
from zae_limiter_cli.main import main


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A file with a key that its own `tpm` refused three times, and a key that its team refused from the first call."""
    url = f"sqlite:///{tmp_path / 'limits.db'}"
    with SyncRepository.open(store=url) as repository, SyncRateLimiter(repository) as limiter:
        limiter.create_entity("team")
        limiter.set_limits("team", [Limit.per_day("rpm", 1)])
        limiter.create_entity("key-b", parent_id="team", cascade=True)
        limiter.set_resource_defaults("gpt-4", [Limit.per_minute("rpm", 60), Limit.per_day("tpm", 100)])
        for entity_id, amounts in ("key-a", {"rpm": 1, "tpm": 90}), ("team", {"rpm": 1}):
            with limiter.acquire(entity_id, "gpt-4", amounts):
                pass
        for entity_id, times in ("key-a", 3), ("key-b", 2):
            for _ in range(times):
                with pytest.raises(RateLimitExceeded), limiter.acquire(entity_id, "gpt-4", {"rpm": 1, "tpm": 20}):
                    pass
    return url


def run(store: str, *args: str) -> str:
    done = CliRunner().invoke(main, [*args, "--store", store], env={"COLUMNS": "160"})
    assert done.exit_code in (0, 1), done.output
    return done.stdout


def test_why_names_it(store: str) -> None:
    told = run(store, "why", "key-a", "-r", "gpt-4")
    assert "1 acquire admitted, 3 refused (3 by key-a/tpm)" in told
    assert "0 acquires admitted, 2 refused (2 by team/rpm)" in run(store, "why", "key-b", "-r", "gpt-4")


def test_the_top_by_refusals_names_it(store: str) -> None:
    told = run(store, "usage", "top", "--by", "refused", "--since", "1h")
    assert "BY key-a/tpm" in told
    rows = {line.split()[0]: line.split() for line in told.splitlines()[1:] if line.split()}
    assert ("3" in rows["key-a"], "2" in rows["key-b"]) == (True, True)


def test_the_screen_names_what_blocks(store: str) -> None:
    told = run(store, "top", "--once")
    assert any("key-a" in line and "key-a/tpm" in line for line in told.splitlines()), told
    assert any("key-b" in line and "team/rpm" in line for line in told.splitlines()), told
