from typing import Any

import pytest
from click.testing import CliRunner, Result

from support.cli.by_hand import opened
from support.cli.tables import Table
from zae_limiter import Limit, SyncRateLimiter
from zae_limiter.maintenance import pk_audit
from zae_limiter.operations.values import Put, Query
from zae_limiter_cli.main import main


def run(*args: str) -> Result:
    return CliRunner().invoke(main, ["audit", "-n", "my-app", "list", *args])


def rows(*args: str) -> Any:
    done = run("-o", "json", *args)
    assert done.exit_code == 0, done.output
    return opened(done.stdout)


def refused(done: Result) -> str:
    """The one line that says what was wrong."""
    (line,) = done.stderr.splitlines()
    assert (done.exit_code, done.stdout, line[:7]) == (1, "", "Error: ")
    return line[7:]


def test_changes_of_an_entity_are_told_newest_first_with_what_is_different(table: Table) -> None:
    table.repository.create_entity("key-abc", "A key", principal="ann")
    table.repository.set_limits("key-abc", [Limit.per_minute("rpm", 60)], "gpt-4")
    table.repository.set_limits("key-abc", [Limit.per_minute("rpm", 60, burst=90)], "gpt-4", principal="bob")
    done = run("--entity", "key-abc")
    assert done.exit_code == 0
    header, *told = (line.split(maxsplit=4) for line in done.stdout.splitlines())
    assert header == ["TIME", "(UTC)", "PRINCIPAL", "ACTION", "RESOURCE  CHANGED"]
    assert [each[1:] for each in told] == [
        ["bob", "limits_set", "gpt-4", "limits.rpm 60/min -> 60/min burst 90"],
        [
            *("-", "limits_set", "gpt-4"),
            "limits.rpm 60/min",
        ],
        ["ann", "entity_created", "-", 'cascade false, name "A key"'],
    ]
    times = [each[0] for each in told]
    assert times == sorted(times, reverse=True)
    assert all(time.endswith("Z") for time in times)


def test_a_stored_event_forges_no_line_and_no_colour(table: Table) -> None:
    table.repository.set_limits("e", [Limit.per_minute("rpm", 60)], "gpt-4", principal="mallory")
    (item,) = table.store.perform(Query(pk_audit(table.repository.namespace_id, "e"))).items
    forged = "\n2026-01-01T00:00:00.000Z  alice  limits_deleted\x1b[8m"
    table.store.perform(Put({**item, "principal": f"mallory{forged}", "before": {forged: 1}}))
    done = run("--entity", "e")
    assert (done.exit_code, len(done.stdout.splitlines())) == (0, 2)
    assert "\x1b" not in done.stdout
    assert r"mallory\x0a2026-01-01" in done.stdout


@pytest.mark.parametrize(
    ("at", "problem"),
    [
        ("", "the audit event has no time"),
        ("2020-01-01T00:00:00.000Z", "the id of the audit event is not its time and a serial"),
    ],
)
@pytest.mark.parametrize("subject", [["--entity", "e"], []])
def test_no_event_hides_those_before_it(table: Table, subject: list[str], at: str, problem: str) -> None:
    table.repository.set_limits("e", [Limit.per_minute("rpm", 60)], "gpt-4", principal="ann")
    (item,) = table.store.perform(Query(pk_audit(table.repository.namespace_id, "e"))).items
    last = "2999-01-01T00:00:00.000Z-00000001-0000000000000000-00000"
    moved = {"event_id": last, "SK": f"#AUDIT#{last}", "GSI4SK": f"AUDIT#{last}"}
    table.store.perform(Put({**item, **moved, "at": at}))
    done = run(*subject, "--since", "1d")
    (told,) = done.stderr.splitlines()
    assert (done.exit_code, "  ann  " in done.stdout) == (0, True)
    assert told.endswith(f"'#AUDIT#{last}' cannot be read: {problem}; correct it, or delete it")


def test_json_has_everything(table: Table) -> None:
    table.repository.set_limits("e", [Limit.per_minute("rpm", 60)], "gpt-4", principal="bob")
    (stored,) = table.repository.get_audit_events("e").events
    assert rows("--entity", "e") == [
        {
            "event_id": stored.event_id,
            "entity_id": "e",
            "action": "limits_set",
            "principal": "bob",
            "at": stored.at,
            "resource": "gpt-4",
            "before": None,
            "after": {
                "limits": {"rpm": {"capacity": 60, "burst": 60, "refill_amount": 60, "refill_period": 60}},
                "config_version": 1,
            },
        }
    ]


def test_changes_of_the_system_and_of_a_resource_are_apart(table: Table) -> None:
    table.repository.set_system_defaults([Limit.per_minute("rpm", 60)], principal="sys")
    table.repository.set_resource_defaults("gpt-4", [Limit.per_minute("rpm", 60)], principal="res")
    assert [each["principal"] for each in rows("--system")] == ["sys"]
    assert [each["principal"] for each in rows("--resource", "gpt-4")] == ["res"]


def test_a_credit_tells_what_was_given_and_a_reset_what_is_available_now(table: Table) -> None:
    table.repository.set_system_defaults([Limit.per_day("rpd", 60)])
    with SyncRateLimiter(table.repository).acquire("e", "gpt-4", {"rpd": 9}):
        table.repository.credit_bucket("e", "gpt-4", {"rpd": 2})
        table.repository.reset_bucket("e", "gpt-4")
    reset, credited = (line.split(maxsplit=4)[2:] for line in run("--entity", "e").stdout.splitlines()[1:])
    assert credited == ["bucket_credited", "gpt-4", "available.rpd 51 -> 53, credited.rpd 2"]
    assert reset == ["bucket_reset", "gpt-4", "available.rpd 53 -> 60"]


def test_more_changes_than_the_limit_are_told_beside_the_result(table: Table) -> None:
    for amount in (1, 2, 3):
        table.repository.set_system_defaults([Limit.per_minute("rpm", amount)])
    done = run("--system", "--rows", "2", "-o", "json")
    assert [each["after"]["limits"]["rpm"]["capacity"] for each in opened(done.stdout)] == [3, 2]
    last = opened(done.stdout)[-1]["event_id"]
    assert done.stderr == f"There are more: pass --next {last}, or raise --rows.\n"
    assert [each["after"]["limits"]["rpm"]["capacity"] for each in rows("--system", "--next", last)] == [1]
    assert run("--system", "--rows", "3").stderr == ""


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("subject", [[], ["--entity", "e"]])
@pytest.mark.parametrize("wanted", [[], ["--by", "ann"], ["--kind", "limits"]])
def test_pages_of_changes_follow_one_another(table: Table, subject: list[str], wanted: list[str]) -> None:
    table.repository.create_entity("e", principal="bob")
    for amount, principal in ((1, "ann"), (2, "bob"), (3, "ann"), (4, "ann")):
        table.repository.set_limits("e", [Limit.per_minute("rpm", amount)], principal=principal)
    found: list[Any] = []
    behind: list[str] = []
    while True:
        done = run(*subject, *wanted, "--rows", "2", *behind, "-o", "json")
        found += opened(done.stdout)
        if not done.stderr:
            break
        behind = ["--next", found[-1]["event_id"]]
    assert found == rows(*subject, *wanted)
    assert len(found) == {"": 5, "--by": 3, "--kind": 4}[wanted[0] if wanted else ""]


def test_changes_of_the_whole_namespace_are_those_of_the_last_day(table: Table) -> None:
    limits = [Limit.per_minute("rpm", 60)]
    table.repository.set_system_defaults(limits, principal="ann")
    table.repository.set_resource_defaults("gpt-4", limits, principal="bob")
    table.repository.create_entity("key-abc", principal="ann")
    head, *told = (line.split(maxsplit=5) for line in run().stdout.splitlines())
    assert head == ["TIME", "(UTC)", "PRINCIPAL", "ACTION", "SUBJECT", "RESOURCE  CHANGED"]
    assert [each[1:5] for each in told] == [
        ["ann", "entity_created", "key-abc", "-"],
        ["bob", "limits_set", "(resource)", "gpt-4"],
        ["ann", "limits_set", "(system)", "-"],
    ]
    assert [each["entity_id"] for each in rows("--by", "ann")] == ["key-abc", "$SYSTEM"]
    assert [each["entity_id"] for each in rows("--kind", "limits", "--since", "1h")] == ["$RESOURCE:gpt-4", "$SYSTEM"]
    assert [each["principal"] for each in rows("--kind", "limits", "--by", "bob")] == ["bob"]
    done = run("--rows", "2")
    assert (len(done.stdout.splitlines()), done.stderr) == (
        3,
        f"There are more: pass --next {rows()[1]['event_id']}, or raise --rows.\n",
    )


def test_changes_of_one_subject_are_chosen_alike(table: Table) -> None:
    table.repository.create_entity("e", principal="ann")
    table.repository.set_limits("e", [Limit.per_minute("rpm", 60)], principal="bob")
    assert [each["action"] for each in rows("--entity", "e", "--by", "ann")] == ["entity_created"]
    assert [each["action"] for each in rows("--entity", "e", "--kind", "limits")] == ["limits_set"]
    assert len(rows("--entity", "e", "--since", "1h")) == 2
    assert rows("--entity", "e", "--since", "2999-01-01") == []


@pytest.mark.parametrize("subject", [[], ["-e", "e"]])
def test_changes_are_also_of_who_claimed_them(table: Table, subject: list[str]) -> None:
    by = ("bob", "provisioner (claimed: ann, file limits.yaml)", "provisioner (claimed: annette)", "provisioner", None)
    for number, principal in enumerate(by, 1):
        table.repository.set_limits("e", [Limit.per_minute("rpm", number)], "gpt-4", principal=principal)
    assert [each["principal"] for each in rows(*subject, "--by", "ann")] == [by[1]]
    assert [each["principal"] for each in rows(*subject, "--by", "bob")] == ["bob"]
    assert [each["principal"] for each in rows(*subject, "--by", "provisioner")] == [by[3], by[2], by[1]]
    assert rows(*subject, "--by", "claimed: ann") == []


def test_no_changes_of_the_whole_namespace_are_said(table: Table) -> None:
    assert run().stdout.startswith("No changes of any kind in namespace default since ")
    assert rows() == []


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--entity", "e"], "No changes of e in namespace default.\n"),
        (["--resource", "r"], "No changes of r in namespace default.\n"),
        (["--system"], "No changes of the system defaults in namespace default.\n"),
    ],
)
def test_no_changes_are_said_and_are_empty_json(table: Table, args: list[str], told: str) -> None:
    done = run(*args)
    assert (done.exit_code, done.stdout, done.stderr) == (0, told, "")
    assert rows(*args) == []


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--entity", "e", "--system"], "`audit list` takes one subject at most"),
        (["--entity", "e", "--resource", "r"], "`audit list` takes one subject at most"),
        (["--since", "noon"], "--since 'noon': must be how long ago"),
        (["--kind", "limit"], "Invalid value for '--kind'"),
        (["--by", ""], "principal '': "),
        (["--entity", "$SYSTEM"], "--entity '$SYSTEM': "),
        (["--resource", "a b"], "--resource 'a b': "),
        (["--system", "-N", "nowhere"], "there is no namespace 'nowhere'"),
    ],
)
def test_a_wrong_question_is_one_line_with_the_way_out(table: Table, args: list[str], told: str) -> None:
    assert refused(run(*args)).startswith(told)


def test_a_table_that_is_not_there_is_one_line(aws: str) -> None:
    assert refused(run("--system")).startswith("there is no table 'my-app'")


def test_what_no_list_printed_is_no_next(table: Table) -> None:
    table.repository.set_system_defaults(limits=[Limit.per_minute("rpm", 1)])
    assert refused(run("--next", "garbage")).startswith("--next 'garbage': must be the `event_id`")
