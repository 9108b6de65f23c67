"""The keys of the JSON documents, as docs/json.md lists them, against documents that hold every key there is."""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from support.manifest.manifests import resource
from zae_limiter_manifest import (
    Address,
    Answer,
    ApplyEntry,
    ApplyUnderWay,
    Change,
    Failure,
    LimitDecl,
    LiveOverride,
    LockReport,
    ManagedSet,
    ManifestError,
    OnRefusedDecl,
    Plan,
    ProgressReport,
    RecordDecl,
    ResourceDecl,
    StateReport,
    SystemDecl,
    WeightsDecl,
    load,
)
from zae_limiter_manifest.render import as_json
from zae_limiter_manifest.render.views import View

PAGE = (Path(__file__).parents[5] / "docs" / "json.md").read_text("utf-8")
TABLE = re.compile(r"<!-- keys: (\w+) -->\n(.*?)<!-- end -->", re.DOTALL)

USER, GONE = Address("gpt-4", "user-123"), Address("gone")
WEIGHTS = WeightsDecl(input=1, cached=0.1)
WHOLE = ResourceDecl(
    {
        "credits": LimitDecl(5, kind="total"),
        "rpm": LimitDecl(5, burst=6, refill_amount=7, refill_period=8, shadow=True, prefetch=0.001, weights=WEIGHTS),
        "usd": LimitDecl(5, window="month", timezone="Europe/Berlin", starts_on=15, alert=(80,)),
    }
)
ONE, POLICY = {"rpm": LimitDecl(1)}, OnRefusedDecl(wait=2, overflow="credits")
CHANGES = (
    Change(Address(), SystemDecl(on_unavailable="allow"), SystemDecl(on_unavailable="block"), drift=True),
    Change(Address("gpt-4"), WHOLE, resource(rpm=1), adopted=True),
    Change(Address("gpt-5"), ResourceDecl(ONE, POLICY), ResourceDecl(ONE, OnRefusedDecl())),
    Change(Address.of_tier("gold", "gpt-4"), ResourceDecl(ONE), resource(rpm=2), reaches=3),
    Change(Address(None, "key-1"), RecordDecl("acme"), RecordDecl()),
)
LARGE = tuple(Change(Address(f"r-{each}"), None, resource(rpm=1)) for each in range(21))
OVERRIDE = LiveOverride(GONE, "2026-11-27T18:00:00Z", ResourceDecl({"rpm": LimitDecl(5)}))
PLAN = Plan(
    "tenant-alpha",
    CHANGES,
    forgotten=(GONE,),
    unmanaged=(GONE,),
    taken_from="a stack",
    share="60%",
    share_before="40%",
    overrides=(OVERRIDE,),
    under_way=ApplyUnderWay("cli", "2026-01-01T00:15:00Z", "2026-01-01T00:00:00Z"),
)
ERRORS = [Failure("not_written", "away", address=USER), Failure("invalid_manifest", "bad", path="system")]
LOCK = LockReport("abc", "cli", "2026-01-01T00:00:00Z")
STATE = StateReport(
    ManagedSet(system=True, records=frozenset({"acme"})),
    7,
    lock=LOCK,
    progress=ProgressReport(1, 2, 0.5),
    stop="bob",
    share="60%",
)
APPLY = ApplyEntry(7, "2026-01-01T00:00:00Z", "cli", "sha256:0")
VIEW = View(
    risks={PLAN.namespace: {Address("gpt-4"): "rpm: no use in the last 24 h"}},
    notes={PLAN.namespace: {Address("gpt-4"): ("together: rpm 1/min",)}},
)


def documented() -> dict[str, set[str]]:
    """The keys in the first column of each table of the page."""
    cells = {name: [row.split(" | ")[0] for row in rows.splitlines()[2:]] for name, rows in TABLE.findall(PAGE)}
    return {name: set(re.findall(r"`(\w+)`", " ".join(column))) for name, column in cells.items()}


def problems() -> str:
    with pytest.raises(ManifestError) as caught:
        load("namespace: 1")
    return as_json.render_problems(caught.value.problems)


def keys(objects: Iterable[Mapping[str, Any]]) -> set[str]:
    return {key for each in objects for key in each}


def test_every_key_of_a_json_document_stands_in_the_page_and_no_other() -> None:
    answer = Answer.applied(PLAN, errors=ERRORS, remaining=1)
    texts = (
        as_json.render_plan(PLAN, view=VIEW),
        as_json.render_drift(PLAN),
        as_json.render_applied(answer),
        as_json.render_state("tenant-alpha", STATE),
        problems(),
        as_json.render_history("tenant-alpha", [APPLY]),
    )
    documents = [json.loads(text) for text in texts]
    (large,) = json.loads(as_json.render_plan(Plan("a", LARGE)))["namespaces"]
    plan, drift, applied = (document["namespaces"][0] for document in documents[:3])
    state, (problem,) = documents[3]["state"], documents[4]["problems"]
    (apply,) = documents[5]["applies"]
    changes = [*plan["changes"], *large["changes"], *drift["drifted"], *drift["pending"], *applied["changes"]]
    assert documented() == {
        "document": keys(documents),
        "plan": keys([plan]),
        "applied": keys([applied]) - keys([plan]),
        "drift": keys([drift]),
        "change": keys(changes),
        "limit": keys(limit for each in changes for limit in each.get("before", {}).values()),
        "field": keys(field for each in changes for field in each["fields"]),
        "under_way": keys([plan["under_way"], drift["under_way"]]),
        "item": keys([*plan["forgotten"], *plan["unmanaged"], *drift["unmanaged"]]),
        "error": keys(applied["errors"]),
        "state": keys([state]),
        "lock": keys([state["lock"]]),
        "managed": keys([state["managed"]]),
        "problem": keys([problem]),
        "apply": keys([apply]),
    }
    assert keys([plan]) - keys([applied]) == {"changes_hash", "guarded"}

    (kinds,) = re.findall(r"^\| `kind` .*$", PAGE, re.MULTILINE)
    assert [each["kind"] for each in documents if f"`{each['kind']}`" not in kinds] == []


def test_the_page_tells_the_version_and_what_a_refusal_lacks() -> None:
    assert f"`schema_version` is its first key and is {as_json.SCHEMA_VERSION}." in PAGE
    refused = json.loads(as_json.render_applied(Answer.failed(ERRORS)))["namespaces"][0]
    assert (refused["serial"], refused["manifest_hash"], refused["changes"]) == (None, None, [])
    assert not {"managed", "declared"} & keys([refused])
