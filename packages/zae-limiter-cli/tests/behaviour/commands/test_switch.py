"""`switch`, and where else a switch is named: `why`, `entity show`, `audit list`."""

from contextlib import ExitStack

import pytest

from support.cli.by_hand import document, opened, refused, run, told
from support.cli.tables import Table
from zae_limiter import AccessDisabled, Limit, Options, SyncRateLimiter, SyncRepository

RPM = Limit.per_minute("rpm", 100)


def at_work(table: Table, until: ExitStack) -> SyncRateLimiter:
    """A process that has read the limits and written the bucket of ``key``."""
    table.repository.set_resource_defaults("gpt-4", [RPM])
    other = until.enter_context(SyncRepository.over(table.store, Options(stack="my-app", read_timeout=30)))
    limiter = SyncRateLimiter(other)
    with limiter.acquire("key", "gpt-4", {"rpm": 1}):
        return limiter


def disabled(limiter: SyncRateLimiter) -> bool:
    """Whether the next acquire is refused."""
    try:
        with limiter.acquire("key", "gpt-4", {"rpm": 1}):
            return False
    except AccessDisabled:
        return True


def test_a_switch_that_is_not_given_stays_and_inherit_ends_it(table: Table) -> None:
    run("switch", "key", "-r", "gpt-4", "--no-cascade")
    assert opened(run("switch", "key", "-r", "gpt-4", "--bypass", "-o", "json").stdout)["switches"] == {
        "disabled": None,
        "bypass": True,
        "cascade": "off",
        "reason": None,
    }
    run("switch", "key", "-r", "gpt-4", "--inherit", "cascade", "--inherit", "bypass")
    assert not table.repository.get_switches("key", "gpt-4")


def test_each_subject_shows_its_own_levels(table: Table) -> None:
    table.repository.set_system_switches(bypass=True)
    for args, levels in (
        (("key", "-r", "gpt-4"), ["entity", "entity_default", "resource", "system"]),
        (("key",), ["entity_default", "system"]),
        (("-r", "gpt-4"), ["resource", "system"]),
        (("--system",), ["system"]),
    ):
        shown = opened(run("switch", *args, "-o", "json").stdout)
        assert (list(shown["levels"]), shown["bypass"]["source"]) == (levels, "system")


def test_show_has_every_level_and_what_holds(table: Table) -> None:
    repository = table.repository
    repository.set_system_switches(bypass=True)
    repository.set_resource_switches("gpt-4", disabled=True, reason="down")
    repository.set_switches("key", disabled=False)
    lines = told("switch", "key", "-r", "gpt-4")
    assert " ".join(lines[0]) == "key bypasses its limits on gpt-4 by the system's config."
    assert lines[1:] == [
        ["LEVEL", "DISABLED", "BYPASS", "CASCADE", "REASON"],
        ["entity", "inherit", "inherit", "inherit", "-"],
        ["entity_default", "no", "inherit", "inherit", "-"],
        ["resource", "yes", "inherit", "inherit", "down"],
        ["system", "inherit", "yes", "inherit", "-"],
    ]
    shown = document("switch", "key", "-r", "gpt-4")
    assert shown["disabled"] == {"value": False, "source": "entity_default", "reason": None}
    assert told("switch", "other", "-r", "s")[0] == [
        "other",
        "bypasses",
        "its",
        "limits",
        "on",
        "s",
        "by",
        "the",
        "system's",
        "config.",
    ]


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (("--bypass",), "pass ENTITY_ID"),
        (("key", "--reason", "x"), "nothing to set"),
        (("key", "--system", "--bypass"), "--system is all"),
        (("key", "--bypass", "--now"), "--now is for"),
        (("key", "--bypass", "--inherit", "bypass"), "--inherit bypass contradicts"),
        (("key", "--inherit", "bypass", "--reason", "x"), "reason"),
    ],
)
def test_mistakes_change_nothing(table: Table, args: tuple[str, ...], problem: str) -> None:
    assert problem in refused("switch", *args)
    assert not table.repository.get_switches("key")


def test_why_names_the_switch_its_level_and_how_to_end_it(table: Table) -> None:
    with ExitStack() as until:
        at_work(table, until)
        table.repository.create_entity("acme")
        table.repository.create_entity("child", parent_id="acme", cascade=True)
        table.repository.set_switches("acme", disabled=True, reason="unpaid", principal="bob")
        shown = run("why", "child", "-r", "gpt-4").stdout
        assert "child on gpt-4, 1 rpm: refused, because acme is disabled.\nPath: child -> acme\n" in shown
        assert "acme is disabled on gpt-4 by its own config on all resources (unpaid)." in shown
        assert "bob  switches_set on _default_" in shown
        assert "zae-limiter enable acme --name my-app" in shown
        plain = document("why", "child", "-r", "gpt-4")
        assert (plain["passes"], plain["disabled"], plain["binding"]) == (False, "acme", None)
        table.repository.set_switches("child", "gpt-4", cascade="off")
        assert "not asked: a switch is off." in run("why", "child", "-r", "gpt-4").stdout


def test_the_command_that_why_shows_ends_what_a_resource_disables(table: Table) -> None:
    with ExitStack() as until:
        limiter = at_work(table, until)
        table.repository.set_resource_switches("gpt-4", disabled=True)
        steps = [step["command"].split()[1:] for step in document("why", "key", "-r", "gpt-4")["next"]]
        assert steps[1][:2] == ["enable", "key"]
        group, *args = steps[0]
        assert run(group, *args).exit_code == 0
        assert not disabled(limiter)


def test_entity_show_and_audit_have_the_switches(table: Table) -> None:
    with ExitStack() as until:
        at_work(table, until)
        table.repository.set_switches("key", "gpt-4", bypass=True, reason="trial")
        shown = run("entity", "show", "key").stdout.splitlines()
        assert "key bypasses its limits on gpt-4 by its own config (trial)." in shown
        (bucket,) = document("entity", "show", "key")["buckets"]
        assert bucket["switches"]["bypass"] == {"value": True, "source": "entity", "reason": "trial"}
        assert "switches.bypass true" in run("audit", "list", "--entity", "key").stdout
