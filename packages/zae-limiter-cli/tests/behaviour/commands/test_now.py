"""`--now` and `bucket invalidate`: processes at work obey a resource or the system at once; the cost comes first."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from support.cli.by_hand import opened, refused, run
from support.cli.tables import Table
from zae_limiter import Limit, Options, RateLimitExceeded, SyncRateLimiter, SyncRepository
from zae_limiter_cli.main import main

RPM = Limit.per_minute("rpm", 100)
COUNTED = "2 live buckets of resource gpt-4 to invalidate: 2 writes, about $0.0000 in us-east-1, 0.1 s at 500 a second"


def passes(limiter: SyncRateLimiter, entity: str = "key") -> bool:
    try:
        with limiter.acquire(entity, "gpt-4", {"rpm": 1}):
            return True
    except RateLimitExceeded:
        return False


@pytest.fixture
def other(table: Table) -> Iterator[SyncRateLimiter]:
    """A process at work: it has read the limits, and has two buckets."""
    table.repository.set_resource_defaults("gpt-4", [RPM])
    with SyncRepository.over(table.store, Options(stack="my-app", read_timeout=30)) as repository:
        limiter = SyncRateLimiter(repository)
        assert passes(limiter)
        assert passes(limiter, "key-2")
        yield limiter


def test_a_resource_is_blocked_with_the_next_request(other: SyncRateLimiter) -> None:
    done = run("resource", "set-defaults", "gpt-4", "-l", "rpm:0", "--now", "--yes")
    assert (done.exit_code, done.stderr) == (0, "")
    first, *_, last = done.stdout.splitlines()
    assert (first, last) == (COUNTED, "2 live buckets were invalidated.")
    assert not passes(other)
    assert not passes(other, "key-2")


def test_without_it_processes_keep_their_limits_for_the_life_of_their_cache(other: SyncRateLimiter) -> None:
    assert run("resource", "set-defaults", "gpt-4", "-l", "rpm:0").stderr == ""
    assert passes(other)


def test_the_system_is_told_where_no_resource_has_limits(table: Table, other: SyncRateLimiter) -> None:
    done = run("system", "set-defaults", "-l", "rpm:0", "--now", "-y", "-o", "json")
    assert done.stderr.startswith("0 live buckets of the system's limits to invalidate: 0 writes")
    assert "; 2 buckets with other limits left alone" in done.stderr
    assert opened(done.stdout)["live_buckets"] == {"invalidated": 0, "invalidated_before": 0, "failed": []}
    table.repository.delete_resource_defaults("gpt-4")
    assert run("bucket", "invalidate", "-r", "gpt-4", "-y").stdout.endswith("\n2 live buckets were invalidated.\n")
    assert not passes(other)


def test_limits_that_go_are_obeyed_at_once(table: Table, other: SyncRateLimiter) -> None:
    table.repository.set_system_defaults([Limit.per_minute("rpm", 0)])
    done = run("resource", "delete-defaults", "gpt-4", "--now", "--yes")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        COUNTED,
        "Limits of resource gpt-4 deleted.",
        "2 live buckets were invalidated.",
    ]
    assert not passes(other)


def test_defaults_of_the_system_that_go_are_obeyed_at_once(table: Table) -> None:
    table.repository.set_system_defaults([RPM])
    with SyncRepository.over(table.store, Options(stack="my-app", read_timeout=30)) as repository:
        limiter = SyncRateLimiter(repository, default_limits=[Limit.per_minute("rpm", 0)])
        assert passes(limiter)
        done = run("system", "delete-defaults", "--now", "--yes", "-o", "json")
        assert opened(done.stdout)["action"] == "deleted"
        assert opened(done.stdout)["live_buckets"] == {"invalidated": 1, "invalidated_before": 0, "failed": []}
        assert not passes(limiter)


def test_nothing_is_changed_before_the_question_is_answered(table: Table, other: SyncRateLimiter) -> None:
    done = run("resource", "set-defaults", "gpt-4", "-l", "rpm:0", "--now")
    assert (done.exit_code, done.stdout) == (1, f"{COUNTED}\n")
    assert "pass --yes to confirm" in done.stderr
    assert table.repository.get_resource_defaults("gpt-4") == [RPM]


def test_a_resource_without_buckets_asks_nothing(table: Table) -> None:
    done = run("resource", "set-defaults", "new", "-l", "rpm:5", "--now")
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (0, "0 live buckets were invalidated.")


def test_json_has_the_buckets_that_were_told(other: SyncRateLimiter) -> None:
    done = run("bucket", "invalidate", "-r", "gpt-4", "--yes", "-o", "json")
    assert opened(done.stdout) == {
        "resource": "gpt-4",
        "live_buckets": {"invalidated": 2, "invalidated_before": 0, "failed": []},
    }


def test_mistakes_are_one_line(table: Table) -> None:
    assert refused("bucket", "invalidate") == "pass either --resource NAME or --system"
    assert refused("bucket", "invalidate", "--system", "-r", "gpt-4") == "pass either --resource NAME or --system"
    assert refused("bucket", "invalidate", "--system", "--rate", "0").startswith("Invalid value for '--rate'")
    assert refused("system", "set-defaults", "--on-unavailable", "allow", "--now").endswith("pass --limit, too")
    assert table.repository.get_system_defaults() == ([], None)


class TestApply:
    """`limits apply --now`, on a file."""

    @pytest.fixture
    def apply(self, tmp_path: Path) -> Any:
        url = f"sqlite:///{tmp_path / 'limits.db'}"

        def apply(capacity: int, *args: str) -> Result:
            manifest = tmp_path / "limits.yaml"
            manifest.write_text(
                f"namespace: default\nresources:\n  gpt-4:\n    limits:\n      rpm: {{capacity: {capacity}}}\n"
            )
            given = ["limits", "apply", "--store", url, "-f", str(manifest), *args]
            return CliRunner(env={"ZAEL_PRINCIPAL": "ann"}).invoke(main, given)

        apply.url = url  # type: ignore[attr-defined]
        return apply

    def test_a_process_at_work_obeys_at_once(self, apply: Any) -> None:
        first = apply(100, "--now", "--yes", "-q")
        assert (first.exit_code, first.stderr) == (0, "default: resource gpt-4: 0 live buckets were invalidated.\n")
        with SyncRepository.open(store=apply.url) as repository:
            limiter = SyncRateLimiter(repository)
            assert passes(limiter)
            done = apply(0, "--now", "--yes")
            assert done.exit_code == 0, done.output
            assert done.stderr.splitlines() == [
                "default: 1 live bucket of resource gpt-4 to invalidate: 1 write, 0.1 s at 500 a second",
                "default: resource gpt-4: 1 live bucket was invalidated.",
            ]
            assert not passes(limiter)

    def test_a_changed_tier_is_told_to_nobody_and_the_output_says_so(self, apply: Any, tmp_path: Path) -> None:
        tiers = tmp_path / "tiers.yaml"
        tiers.write_text("tiers: {gold: {resources: {_default_: {limits: {rpm: 9/min}}, gpt-4: {limits: {a: 1/s}}}}}")
        apply(100, "--yes")
        done = apply(100, "-f", str(tiers), "--now", "--yes")
        follows = "processes that know its limits follow within a minute, with --now as without"
        assert (done.exit_code, done.stderr.splitlines()) == (
            0,
            [f"default: tier gold/_default_: {follows}", f"default: tier gold/gpt-4: {follows}"],
        )

    def test_an_apply_without_changes_tells_nobody(self, apply: Any) -> None:
        apply(100, "--yes")
        done = apply(100, "--now", "--yes")
        assert (done.exit_code, done.stderr) == (0, "")
