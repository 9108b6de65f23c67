"""A call that cascades through four levels is one call in every total, beside a ledger of the calls."""

import csv
import io
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from support.cli.by_hand import opened as unpacked
from support.core.copies import opened
from support.core.four_levels import RESOURCES, TREE, Ledger, make_tree, use_tree
from zae_limiter import SyncRepository
from zae_limiter.engines.sqlite.sync import SyncSQLiteStore
from zae_limiter.testing import ManualClock
from zae_limiter_cli.console.figures import usage_figure
from zae_limiter_cli.data.tree import ancestor_at
from zae_limiter_cli.main import main
from zae_limiter_cli.usage.cost import Load, Units
from zae_limiter_cli.usage.own import with_own

START_MS = 1_704_117_300_000  # 2024-01-01T13:55:00Z
SINCE = ("--since", "2024-01-01T00:00:00Z")


@pytest.fixture(params=range(3))
def used(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Ledger]:
    """A file with a tree that was used, by its URL, and the ledger."""
    clock = ManualClock(START_MS)
    store = SyncSQLiteStore(tmp_path / "limits.db", clock=clock)
    limiter = opened(store, clock, "default")
    make_tree(limiter)
    ledger = use_tree(limiter, clock, request.param)
    limiter.close()
    store.close()
    return f"sqlite:///{tmp_path / 'limits.db'}", ledger


def run(*args: str) -> str:
    done = CliRunner().invoke(main, ["usage", *args])
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.long(keep=1)
def test_the_summary_of_a_namespace_counts_each_call_once(used: tuple[str, Ledger]) -> None:
    url, ledger = used
    with SyncRepository.open(store=url) as repository:
        found = repository.get_usage_summary(window="daily")
        by_resource = [repository.get_usage_summary(resource=each, window="daily") for each in RESOURCES]
        org = repository.get_usage_summary(entity_id="org", window="daily")
    totals = {each.limit_name: each.total for each in found.limits}
    assert totals == {name: ledger.total(name) for name in ("tpm", "rpm")}
    assert (found.total_events, found.total_refused) == (ledger.admitted.total(), ledger.refused.total())
    assert sum(each.total_events for each in by_resource) == ledger.admitted.total()
    assert org.total_events == ledger.admitted.total() - ledger.admitted["alone"], "a level's own usage stays whole"
    assert org.total_events - org.total_below == ledger.admitted["org"]
    told = unpacked(run("list", "--total", "--store", url, "--resource", "gpt-4", *SINCE, "-o", "json"))
    assert told["total_events"] == by_resource[0].total_events


@pytest.mark.long(keep=1)
def test_the_export_sums_up_to_what_was_used(used: tuple[str, Ledger]) -> None:
    url, ledger = used
    rows = list(csv.DictReader(io.StringIO(run("export", "--store", url, "--month", "2024-01"))))
    sums: Counter[tuple[str, str]] = Counter()
    own: Counter[tuple[str, str]] = Counter()
    for row in rows:
        sums[row["kind"], row["name"]] += int(row["amount"])
        if row["kind"] == "consumed":
            own[row["entity_id"], row["name"]] += int(row["amount"])
    assert sums["consumed", "tpm"] == ledger.total("tpm")
    assert sums["admitted", ""] == ledger.admitted.total()
    assert sums["refused", ""] == ledger.refused.total()
    assert own == ledger.tokens
    assert sums["consumed_below", "tpm"] > 0
    document = unpacked(run("export", "--store", url, "--month", "2024-01", "-o", "json"))
    below = sum(each["consumed_below"].get("tpm", 0) for each in document)
    assert sum(each["consumed"].get("tpm", 0) for each in document) - below == ledger.total("tpm")


@pytest.mark.long(keep=1)
def test_the_consoles_charts_show_what_was_used(used: tuple[str, Ledger], monkeypatch: pytest.MonkeyPatch) -> None:
    """And read the records of those alone that were used, and of who is above them, however many others there are."""
    url, ledger = used
    monkeypatch.setattr(SyncRepository, "list_entities", None)
    with SyncRepository.open(store=url) as repository:
        snapshots = repository.get_usage_snapshots(window="daily", limit=1000).snapshots
        own = [each for _, each in with_own(repository, snapshots)]
    assert sum(each.consumed.get("tpm", 0) for each in own) == ledger.total("tpm")
    assert sum(each.total_events for each in own) == ledger.admitted.total()
    days = sorted({each.window_start for each in own})
    figure = usage_figure(own, days, timedelta(days=1), {})
    shown = {
        head: sum(int(row[place].replace(",", "")) for row in figure.rows)
        for place, head in [*enumerate(figure.heads)][1:]
    }
    assert (shown["admitted"], shown["tpm used"]) == (ledger.admitted.total(), ledger.total("tpm"))


@pytest.mark.long(keep=3)
@pytest.mark.parametrize("depth", range(4))
def test_the_cost_rolls_up_to_a_depth(used: tuple[str, Ledger], depth: int) -> None:
    url, ledger = used
    tenants: dict[str, Any] = {}
    with SyncRepository.open(store=url) as repository:
        snapshots = repository.get_usage_snapshots(window="daily", limit=1000).snapshots
        for snapshot, own in with_own(repository, snapshots):
            tenant = ancestor_at(snapshot.entity_id, TREE, depth)
            tenants.setdefault(tenant, Units()).add(snapshot, own, Load())
    expected: Counter[str] = Counter()
    for entity, number in ledger.admitted.items():
        expected[ancestor_at(entity, TREE, depth)] += number
    assert {name: units.admitted for name, units in tenants.items() if units.admitted} == expected
    assert [len(tenants) for _ in (0,) if depth == 0] in ([], [2]), "the organisation, and who is alone"
