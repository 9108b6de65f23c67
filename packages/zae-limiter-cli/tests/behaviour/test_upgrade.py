"""`zae-limiter upgrade` with rehearsed migrations: what it shows, what it refuses, what it leaves behind."""

from collections.abc import Sequence
from typing import Any

import boto3
import pytest
from click.testing import CliRunner, Result

from support.cli.by_hand import opened
from support.core.rehearsal import REHEARSED, SHORTER
from zae_limiter import Limit, SyncRateLimiter, SyncRepository, maintenance
from zae_limiter.flows.records import migrating
from zae_limiter.maintenance import SyncMaintenance, VersionRecord
from zae_limiter.values import versions
from zae_limiter.values.versions import core_version
from zae_limiter_cli.connection import Connection
from zae_limiter_cli.errors import CommandError
from zae_limiter_cli.main import main
from zae_limiter_cli.stack import migration

pytestmark = pytest.mark.slow

BUCKETS = 7
OTHER_ITEMS = 4  # two of the namespace, its limits, the version record


def run(*args: str, **more: Any) -> Result:
    return CliRunner().invoke(main, [args[0], "-n", "my-app", *args[1:]], **more)


def succeed(*args: str) -> str:
    done = run(*args)
    assert done.exit_code == 0, done.output
    return done.stdout


def fail(*args: str) -> str:
    """What a command that fails says: one line."""
    done = run(*args)
    assert done.exit_code == 1, done.output
    assert done.stderr.startswith("Error: ")
    return done.stderr.removeprefix("Error: ").rstrip("\n")


def upgrade(*args: str) -> Any:
    return opened(succeed("upgrade", "--yes", "--output", "json", *args))


def table() -> Any:
    return boto3.resource("dynamodb").Table("my-app")


def items() -> list[dict[str, Any]]:
    found: Sequence[dict[str, Any]] = table().scan()["Items"]
    return sorted(found, key=lambda item: (item["PK"], item["SK"]))


def buckets() -> list[dict[str, Any]]:
    return [item for item in items() if item["SK"] == "#STATE"]


def record() -> VersionRecord | None:
    with SyncRepository.open("default", stack="my-app", check_version=False) as repository:
        return SyncMaintenance(repository).get_version_record()


def set_record(schema_version: int = 1, core: str = "0.1.0", oldest: str = "0.1.0") -> None:
    with SyncRepository.open("default", stack="my-app", check_version=False) as repository:
        SyncMaintenance(repository).set_version_record(VersionRecord(schema_version, core, oldest))


@pytest.fixture
def stack(aws: str) -> None:
    """A stack with some buckets, before there were migrations."""
    succeed("deploy", "--yes", "-q", "--no-alarms")
    with SyncRateLimiter(SyncRepository.open("default", stack="my-app")) as limiter:
        limiter.set_system_defaults([Limit.per_minute("rpm", 10)])
        for number in range(BUCKETS):
            with limiter.acquire(f"key-{number}", "gpt-4", {"rpm": 1}):
                pass
    audit = [item for item in items() if item["SK"].startswith("#AUDIT")]
    for event in audit:
        table().delete_item(Key={"PK": event["PK"], "SK": event["SK"]})
    assert len(items()) == BUCKETS + OTHER_ITEMS


@pytest.fixture
def migrations(stack: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of the first schema; the release that is installed now has two migrations."""
    set_record()
    monkeypatch.setattr(maintenance, "MIGRATIONS", REHEARSED)
    monkeypatch.setattr(migrating, "ITEMS_PER_PAGE", 3)
    monkeypatch.setattr(versions, "SCHEMA_VERSION", 3)
    monkeypatch.setattr(versions, "OLDEST_CLIENT", "0.0.5")
    monkeypatch.setattr(migration, "REPORT_SECONDS", 0)


def test_it_migrates_the_table_and_says_so(migrations: None) -> None:
    before = buckets()
    done = run("upgrade", "--yes")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[0] == "Table my-app migrated to schema 3."
    assert [line.split()[0] for line in done.stdout.splitlines()[1:]] == ["shorten-cascade", "shorten-again"]
    assert "migration shorten-cascade: 6 of about 11 items read," in done.stderr
    after = [{name: value for name, value in item.items() if name != SHORTER} for item in buckets()]
    assert after == [{name: value for name, value in item.items() if name != "cascade"} for item in before]
    assert all(SHORTER in item for item in buckets())
    assert record() == VersionRecord(3, core_version(), "0.1.0")
    assert succeed("upgrade", "--yes") == "No changes: stack my-app is up to date.\n"
    assert succeed("status").splitlines()[-1] == "Stack and release match."


@pytest.mark.long
def test_programs_read_what_was_migrated(migrations: None) -> None:
    found = upgrade("--yes")
    assert [(each["name"], each["schema_version"], each["changed"]) for each in found["migrations"]] == [
        ("shorten-cascade", 1, BUCKETS),
        ("shorten-again", 2, BUCKETS),
    ]
    assert upgrade("--code-only")["migrations"] == []


@pytest.mark.long
def test_a_dry_run_says_what_would_be_done_and_what_it_costs_and_does_nothing(migrations: None) -> None:
    before = items()
    told = opened(succeed("upgrade", "--dry-run", "--output", "json"))
    assert (told["changes"], told["refused"]) == ([], None)
    total = BUCKETS + OTHER_ITEMS
    assert [(each["name"], each["items"], each["changed"], each["write_units"]) for each in told["migrations"]] == [
        ("shorten-cascade", total, BUCKETS, BUCKETS),
        ("shorten-again", total, BUCKETS, BUCKETS),
    ]
    told = " ".join(succeed("upgrade", "--dry-run").split())
    assert "migration shorten-again schema 2 to 3, 7 of 11 items, 4 read units, 7 write units: A still" in told
    assert items() == before


def test_a_dry_run_without_anything_to_do_says_so(stack: None) -> None:
    assert succeed("upgrade", "--dry-run") == "No changes.\n"
    assert succeed("upgrade", "--dry-run", "--code-only") == "No changes.\n"
    set_record(core="0.0.9")
    assert "version record" in succeed("upgrade", "--dry-run", "--code-only")


def test_nobody_is_asked_where_nobody_can_answer_and_nothing_is_changed(migrations: None) -> None:
    set_record(core="0.0.9")
    before = items()
    told = fail("upgrade")
    assert told.startswith("`upgrade` asks before it changes stack my-app.")
    assert told.endswith("pass --yes to confirm")
    assert items() == before


def test_a_no_changes_nothing(migrations: None, on_a_terminal: None) -> None:
    before = items()
    done = run("upgrade", input="n\n")
    assert (done.exit_code, "Upgrade stack my-app, and migrate its table from schema 1 to 3?" in done.stderr) == (
        1,
        True,
    )
    assert items() == before
    assert run("upgrade", input="y\n").exit_code == 0
    assert record() == VersionRecord(3, core_version(), "0.1.0")


@pytest.mark.long
def test_while_older_clients_are_let_in_the_stack_is_upgraded_and_the_table_is_not(migrations: None) -> None:
    set_record(core="0.0.9", oldest="0.0.7")
    before = buckets()
    done = run("upgrade", "--yes")
    assert done.exit_code == 1
    assert "Stack my-app" in done.stdout
    assert "0.0.7, which does not know the new schema. Run `zae-limiter upgrade --name my-app" in done.stderr
    assert (buckets(), record()) == (before, VersionRecord(1, core_version(), "0.0.7"))
    assert "It would be refused now: stack 'my-app' admits" in succeed("upgrade", "--dry-run")
    # as the error says
    assert "admits no client before zae-limiter-core 0.1.0" in succeed("upgrade", "--oldest-client", "0.1.0")
    assert buckets() == before
    assert upgrade("--yes")["migrations"] != []
    assert record() == VersionRecord(3, core_version(), "0.1.0")


def test_the_bound_is_raised_once_and_never_above_the_stack_itself(stack: None) -> None:
    set_record(core=core_version(), oldest="0.0.7")
    told = opened(succeed("upgrade", "--oldest-client", "0.0.9", "--output", "json"))
    assert told == {"stack": "my-app", "oldest_client": "0.0.9", "changed": True}
    assert succeed("upgrade", "--oldest-client", "0.0.8").startswith("No changes: stack my-app admits no client before")
    assert f"Lambdas of zae-limiter-core {core_version()}" in fail("upgrade", "--oldest-client", "9.0.0")
    assert "--oldest-client" in fail("upgrade", "--oldest-client", "new")
    assert record() == VersionRecord(1, core_version(), "0.0.9")


def test_a_deployment_does_not_lower_a_bound_and_a_check_does_not_mind_it(
    stack: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "OLDEST_CLIENT", "0.0.5")
    set_record(versions.SCHEMA_VERSION, core=core_version(), oldest="0.1.0")
    assert succeed("status").splitlines()[-1] == "Stack and release match."
    assert succeed("deploy", "--yes") == "No changes: stack my-app is up to date.\n"
    assert succeed("deploy", "--dry-run") == "No changes.\n"
    assert record() == VersionRecord(versions.SCHEMA_VERSION, core_version(), "0.1.0")


@pytest.mark.long
def test_new_buckets_have_suffixes_behind_an_upgrade_and_none_moves(stack: None) -> None:
    assert all("#" in item["GSI4PK"] for item in buckets())
    set_record()
    with SyncRateLimiter(SyncRepository.open("default", stack="my-app")) as limiter:
        for name in ("before", "behind"):
            with limiter.acquire(name, "gpt-4", {"rpm": 1}):
                pass
            if name == "before":
                kept = buckets()
                assert "migration spread-indexes schema 1 to 2, 0 of 0 items" in " ".join(
                    succeed("upgrade", "--dry-run").split()
                )
                assert [each["name"] for each in upgrade("--yes")["migrations"]] == ["spread-indexes"]
        with SyncRateLimiter(SyncRepository.open("default", stack="my-app")) as later:
            with later.acquire("later", "gpt-4", {"rpm": 1}):
                pass
            assert later.repository.get_resource_capacity("gpt-4").entities == BUCKETS + 3
    found = {item["entity_id"]: item["GSI4PK"] for item in buckets()}
    assert all(found[item["entity_id"]] == item["GSI4PK"] for item in kept)
    assert ["#" in found[name] for name in ("before", "behind", "later")] == [False, False, True]
    assert succeed("upgrade", "--yes") == "No changes: stack my-app is up to date.\n"


@pytest.mark.long
def test_a_run_that_is_stopped_is_continued_by_the_next(migrations: None) -> None:
    told: list[str] = []

    def stop(line: str) -> None:
        told.append(line)
        if len(told) == 3:
            raise KeyboardInterrupt

    with pytest.raises(CommandError, match="upgrade --name my-app` again, which goes on where this run ended"):
        migration.migrate(Connection("my-app"), stop)
    assert 0 < sum("cascade" not in item for item in buckets()) < BUCKETS
    done = run("upgrade", "--yes")
    assert done.exit_code == 0, done.output
    assert done.stderr.splitlines()[0].startswith("migration shorten-cascade: 6 of about")
    assert all(SHORTER in item for item in buckets())


def test_a_new_stack_has_the_newest_schema_at_once(aws: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "MIGRATIONS", REHEARSED)
    succeed("deploy", "--yes", "-q", "--no-alarms")
    assert record() == VersionRecord(3, core_version(), "0.1.0")
    assert upgrade()["migrations"] == []


def test_a_table_in_use_without_a_version_record_is_migrated_from_the_first_schema(migrations: None) -> None:
    table().delete_item(Key={"PK": "_/SYSTEM#", "SK": "#VERSION"})
    assert "0.0.5, which does not know the new schema" in run("upgrade", "--yes").stderr
    assert record() == VersionRecord(1, core_version(), "0.0.5")
    succeed("upgrade", "--oldest-client", "0.1.0")
    assert len(upgrade("--yes")["migrations"]) == 2


@pytest.mark.long(keep=1)
@pytest.mark.parametrize(
    "command", [["deploy"], ["upgrade"], ["upgrade", "--allow-downgrade"], ["upgrade", "--dry-run"]]
)
def test_from_a_table_of_another_implementation_no_path_leads(stack: None, command: list[str]) -> None:
    table().put_item(Item={"PK": "_/SYSTEM#", "SK": "#VERSION", "schema_version": "0.7.0", "lambda_version": "0.7.0"})
    before = items()
    assert fail(*command) == (
        "no upgrade leads from table 'my-app' to this release, nothing was changed: its version record cannot "
        "be read: it has no 'core_version'. Tables of other implementations are not converted: deploy a new stack, and "
        "set its limits"
    )
    table().delete_item(Key={"PK": "_/SYSTEM#", "SK": "#VERSION"})
    for item in items():
        if item["SK"].startswith("#N"):
            table().delete_item(Key={"PK": item["PK"], "SK": item["SK"]})
    assert "it has items, and neither a version record nor a namespace of ours" in fail(*command)
    assert len(items()) < len(before)


def test_a_schema_before_the_first_migration_is_not_skipped(stack: None) -> None:
    set_record(0)
    assert "its items have schema 0, and the migrations of this release begin at schema 1" in fail("upgrade", "--yes")


def test_a_release_that_is_shut_out_does_not_come_back_by_a_downgrade(stack: None) -> None:
    set_record(core="99.0.0", oldest="99.0.0")
    assert "needs zae-limiter-core 99.0.0 or newer" in fail("deploy", "--yes", "--allow-downgrade")
