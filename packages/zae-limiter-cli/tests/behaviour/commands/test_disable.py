"""`disable` and `enable`: who is refused, what the caller gets, and what lets them in again."""

from collections.abc import Iterator
from decimal import Decimal

import pytest

from support.cli.account import eventually
from support.cli.by_hand import document, opened, refused, run
from support.cli.tables import Table
from zae_limiter import AccessDisabled, Limit, Options, RateLimitExceeded, Switches, SyncRateLimiter, SyncRepository

RPM, TPM = Limit.per_minute("rpm", 100), Limit.per_minute("tpm", 5_000)


def verdict(limiter: SyncRateLimiter, resource: str = "gpt-4", **consume: int) -> str:
    """What becomes of an acquire: `passes`, `limited`, or why it is disabled."""
    try:
        with limiter.acquire("key", resource, consume or {"rpm": 1}):
            return "passes"
    except AccessDisabled as refusal:
        return str(refusal.switch_reason)
    except RateLimitExceeded:
        return "limited"


def verdict_of_another(table: Table) -> str:
    """What becomes of an acquire in a process that has refused none: it asks the store."""
    return verdict(SyncRateLimiter(SyncRepository.over(table.store, Options(stack="my-app", read_timeout=30))))


@pytest.fixture
def limiter(table: Table) -> Iterator[SyncRateLimiter]:
    """A process at work, which has read the limits and written the bucket of ``key`` on gpt-4."""
    table.repository.set_resource_defaults("gpt-4", [RPM])
    with SyncRepository.over(table.store, Options(stack="my-app", read_timeout=30)) as other:
        found = SyncRateLimiter(other)
        assert verdict(found) == "passes"
        yield found


def test_a_process_at_work_obeys_at_once(table: Table, limiter: SyncRateLimiter) -> None:
    done = run("disable", "key", "--reason", "unpaid", "--yes").stdout
    assert done == "key on all resources is disabled (unpaid): 1 live bucket was invalidated.\n"
    assert verdict(limiter) == "unpaid"
    assert run("enable", "key").stdout.splitlines() == [
        "key on all resources was disabled: its switch has ended.",
        "1 live bucket was invalidated.",
    ]
    assert verdict_of_another(table) == "passes"


def test_for_a_time_it_is_an_override_that_names_every_limit(table: Table) -> None:
    table.repository.set_resource_defaults("gpt-4", [RPM, TPM])
    done = run("disable", "key", "-r", "gpt-4", "--for", "2h", "--yes").stdout
    assert done.startswith("key is disabled until ")
    assert done.endswith(" (UTC) on gpt-4: 0 live buckets were invalidated.\n")
    override = table.repository.get_override("key", "gpt-4")
    assert override is not None
    assert [(limit.name, limit.capacity) for limit in override.limits] == [("rpm", 0), ("tpm", 0)]
    assert "key on gpt-4 was disabled until 20" in run("enable", "key").stdout
    assert table.repository.get_override("key", "gpt-4") is None


def test_for_a_time_on_all_resources_it_reaches_those_with_own_limits(table: Table) -> None:
    table.repository.set_resource_defaults("gpt-4", [TPM])
    table.repository.set_limits("key", [RPM], "own")
    told = document("disable", "key", "--for", "2h", "--yes")
    assert (told["action"], told["resources"], told["live_buckets"]) == ("disabled", ["own", "_default_"], 0)
    default, own = (table.repository.get_override("key", place) for place in ("_default_", "own"))
    assert default is not None
    assert own is not None
    assert [limit.name for limit in default.limits] == ["tpm"]
    assert document("enable", "key")["resources"] == ["own", "_default_"]
    assert table.repository.get_limits("key", "own") == [RPM]


def test_after_a_time_reset_fills_its_buckets(table: Table, limiter: SyncRateLimiter) -> None:
    assert document("disable", "key", "--for", "2h", "--yes")["live_buckets"] == 1
    assert verdict(limiter) == "limited"
    done = run("enable", "key")
    assert "bucket reset -r gpt-4 -n my-app -- key" in done.stderr.replace("--name", "-n")
    assert verdict_of_another(table) == "limited"
    run("bucket", "reset", "key", "-r", "gpt-4", "--yes")
    assert verdict_of_another(table) == "passes"


QUOTAS = [
    "usd: $250/month UTC",
    "calls: 9/day UTC",
    "tries: 9 per 1h from first use",
    "credits: 9 total",
    "slots: 2 concurrent",
    "rpm: 100/min",
]


def test_for_a_time_a_limit_stays_of_its_kind_and_its_use_counts(table: Table) -> None:
    table.repository.set_resource_defaults("gpt-4", QUOTAS)
    asked: dict[str, int | Decimal] = {"usd": Decimal(100), "calls": 4, "tries": 4, "credits": 4, "slots": 1, "rpm": 1}
    with SyncRateLimiter(table.repository).acquire("key", "gpt-4", asked):
        pass
    run("disable", "key", "--for", "2h", "--yes")
    override = table.repository.get_override("key")
    assert override is not None
    kinds = {limit.name: (limit.kind, limit.unit, limit.capacity) for limit in override.limits}
    assert kinds["usd"] == ("calendar", "usd", 0)
    assert {kind for kind, _, _ in kinds.values()} == {
        "calendar",
        "first_use",
        "total",
        "concurrent",
        "token_bucket",
    }
    with pytest.raises(RateLimitExceeded):
        SyncRateLimiter(table.repository).acquire("key", "gpt-4", asked).__enter__()
    said = run("enable", "key").stderr
    assert "rpm on gpt-4 may begin empty, and comes back at its rate." in said
    assert "gives back what was used of calls, credits, tries, usd as well" in " ".join(said.split())
    # a process that has refused obeys within a second
    assert eventually(lambda: SyncRateLimiter(table.repository).check("key", "gpt-4", {**asked, "rpm": 0}).passes)
    with SyncRateLimiter(table.repository).acquire("key", "gpt-4", {**asked, "rpm": 0}):
        left = SyncRateLimiter(table.repository).available("key", "gpt-4")
    assert left | {"rpm": 0} == {"usd": 50_000_000, "calls": 1, "tries": 1, "credits": 1, "slots": 1, "rpm": 0}


def test_a_quota_alone_needs_no_reset_afterwards(table: Table) -> None:
    table.repository.set_resource_defaults("gpt-4", ["usd: $250/month UTC"])
    with SyncRateLimiter(table.repository).acquire("key", "gpt-4", {"usd": Decimal(100)}):
        pass
    run("disable", "key", "--for", "2h", "--yes")
    assert run("enable", "key").stderr == ""


def test_enable_ends_the_switch_and_the_override(table: Table, limiter: SyncRateLimiter) -> None:
    run("disable", "key", "-r", "gpt-4", "--for", "2h", "--yes")
    run("disable", "key", "--reason", "unpaid", "--yes")
    told = document("enable", "key")
    assert [(each["resource"], each["what"]) for each in told["ended"]] == [
        ("gpt-4", "override"),
        ("_default_", "switch"),
    ]
    assert (told["action"], told["still_disabled"], told["live_buckets"]) == ("enabled", {}, 1)


def test_out_is_out_where_it_was_exempt_or_bypassed(table: Table) -> None:
    table.repository.set_limits("key", [RPM], "gpt-4")
    table.repository.set_switches("key", "gpt-4", disabled=False)
    table.repository.set_switches("key", bypass=True)
    run("disable", "key", "--yes")
    assert table.repository.get_switches("key") == Switches(disabled=True)
    assert not table.repository.get_switches("key", "gpt-4")


@pytest.mark.parametrize("place", [("-r", "gpt-4"), ("--system",)])
def test_a_level_is_told_now(table: Table, limiter: SyncRateLimiter, place: tuple[str, ...]) -> None:
    table.repository.set_limits("key", [RPM], "gpt-4")
    done = run("disable", "-o", "json", *place, "--reason", "down", "--now", "--yes")
    assert opened(done.stdout)["live_buckets"] == {"invalidated": 1, "invalidated_before": 0, "failed": []}
    assert "1 live bucket of" in done.stderr
    assert verdict(limiter) == "down"
    assert run("enable", *place, "--now").stdout.endswith(" is enabled.\n1 live bucket was invalidated.\n")
    assert verdict_of_another(table) == "passes"


def test_a_level_that_was_not_told_now_can_be_told_later(table: Table, limiter: SyncRateLimiter) -> None:
    table.repository.set_limits("key", [RPM], "gpt-4")
    assert verdict(limiter) == "passes"
    run("disable", "-r", "gpt-4", "--reason", "down", "--yes")
    assert verdict(limiter) == "passes"
    done = run("bucket", "invalidate", "-r", "gpt-4", "--switches", "--yes")
    assert done.stdout.endswith("1 live bucket was invalidated.\n")
    assert verdict(limiter) == "down"


def test_an_entity_that_a_resource_disables_needs_an_exemption(table: Table, limiter: SyncRateLimiter) -> None:
    run("disable", "-r", "gpt-4", "--reason", "down", "--yes")
    told = refused("enable", "key", "-r", "gpt-4")
    assert told == (
        "nothing of its own disables key on gpt-4 in namespace default: nothing was ended; "
        "it is disabled by the config of the resource (down); `enable -r gpt-4` ends that, --exempt lets it in alone"
    )
    assert document("enable", "key", "-r", "gpt-4", "--exempt")["still_disabled"] == {}
    assert table.repository.get_switches("key", "gpt-4") == Switches(disabled=False)
    run("disable", "key", "-r", "other", "--yes")
    done = run("enable", "key", "-r", "other")
    assert (done.exit_code, done.stderr) == (0, "")


def test_what_still_disables_an_entity_is_said(table: Table) -> None:
    table.repository.set_resource_defaults("gpt-4", [RPM])
    run("disable", "--system", "--yes")
    run("disable", "key", "--yes")
    done = run("enable", "key")
    assert "key on all resources stays disabled: it is disabled by the system's config;" in done.stderr
    assert "`enable --system` ends that" in done.stderr


@pytest.mark.parametrize(
    ("args", "whom"),
    [
        (("key",), "key on all resources"),
        (("key", "-r", "gpt-4"), "key on gpt-4"),
        (("-r", "gpt-4"), "every entity on gpt-4"),
        (("--system",), "every entity on all resources"),
    ],
    ids=" ".join,
)
def test_disabling_asks_first(table: Table, args: tuple[str, ...], whom: str) -> None:
    assert refused("disable", *args).startswith(f"Disable {whom} in namespace default?")
    assert not table.repository.get_switches()


def test_for_a_time_it_asks_first_too(table: Table) -> None:
    table.repository.set_resource_defaults("gpt-4", [RPM])
    assert refused("disable", "key", "--for", "2h").startswith("Disable key on all resources until 20")
    assert table.repository.get_override("key") is None


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (("disable",), "pass ENTITY_ID, --resource NAME or both, or --system"),
        (("disable", "key", "--system", "-y"), "--system is all entities on all resources"),
        (("disable", "key", "--now", "-y"), "--now is for a resource or the system"),
        (("disable", "-r", "gpt-4", "--for", "2h", "-y"), "--for and --until are for an ENTITY_ID"),
        (("disable", "key", "--for", "2h", "--reason", "x", "-y"), "--for and --until are for an ENTITY_ID"),
        (("disable", "key", "--for", "2h", "-y"), "no level has limits for key"),
        (("disable", "key", "--for", "400d", "-r", "gpt-4", "-y"), "no level has limits for key"),
        (("enable", "key"), "key is not disabled in namespace default: nothing was ended"),
        (("enable", "-r", "gpt-4"), "every entity on gpt-4 is not disabled in namespace default: nothing was ended"),
        (("enable", "-r", "gpt-4", "--exempt"), "--exempt is for one entity: pass ENTITY_ID, too"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_a_mistake_is_one_line(table: Table, args: tuple[str, ...], problem: str) -> None:
    assert refused(*args).startswith(problem)
    assert not table.repository.get_switches("key")


def test_a_time_is_disabled_on_all_resources_and_asked_about_one(table: Table) -> None:
    table.repository.set_resource_defaults("gpt-4", [RPM])
    run("disable", "key", "--for", "2h", "-y")
    told = "it is disabled on all resources for a time: `enable key` ends that"
    assert refused("enable", "key", "-r", "gpt-4").endswith(told)
    assert refused("disable", "key", "--for", "400d", "-y").startswith("--for '400d': ")
    run("disable", "key", "-r", "gpt-4", "--for", "1h", "-y")
    assert refused("lift", "key", "-r", "gpt-4", "--by", "2").startswith(
        "key is disabled on gpt-4 for a time: `enable`"
    )


def test_every_change_is_audited_with_its_author(table: Table) -> None:
    table.repository.set_resource_defaults("gpt-4", [RPM])
    run("disable", "key", "-r", "gpt-4", "--for", "1h", "-y", "--principal", "ada")
    run("disable", "key", "-y", "--principal", "ada")
    run("enable", "key", "--principal", "bob")
    events, _ = table.repository.get_audit_events("key")
    found = {(event.action, event.principal) for event in events}
    assert {("override_set", "ada"), ("override_deleted", "bob"), ("switches_set", "bob")} <= found


def test_every_view_has_the_limits_in_force(table: Table) -> None:
    table.repository.set_resource_defaults("gpt-4", [Limit.per_day("rpd", 100)])
    with SyncRepository.over(table.store, Options(stack="my-app")) as other:
        assert verdict(SyncRateLimiter(other), rpd=1) == "passes"
        for change, burst in (
            (("lift", "key", "-r", "gpt-4", "--by", "2"), 200),
            (("disable", "key", "-r", "gpt-4", "--for", "1h", "--yes"), 0),
            (("enable", "key"), 100),
        ):
            run(*change)
            [listed] = document("entity", "list", "--buckets")["buckets"]
            [shown] = document("entity", "show", "key")["buckets"]
            explained = document("why", "key", "-r", "gpt-4")["buckets"][0]["limits"]["rpd"]
            assert [each["limits"]["rpd"]["burst"] for each in (listed, shown)] == [burst] * 2
            assert [each["limits"]["rpd"]["available"] for each in (listed, shown)] == [explained["available"]] * 2
            [row] = document("top", "--once")["buckets"]
            assert (row["available"], row["burst"]) == (explained["available"], burst)


def test_a_mistyped_entity_is_disabled_with_a_word(table: Table, limiter: SyncRateLimiter) -> None:
    table.repository.create_entity("customer-7")
    said = run("disable", "custmer-7", "--yes").stderr
    assert "there is no entity record, no limits and no bucket of it; near: customer-7" in said
    assert run("disable", "customer-7", "--yes").stderr == ""
