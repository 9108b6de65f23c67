from decimal import Decimal

import pytest

from support.cli.by_hand import bucket_rows, document, refused, run, told
from support.cli.tables import Table
from zae_limiter import Limit, SyncRateLimiter
from zae_limiter.flows.bucket.splitting import split_shard
from zae_limiter.schema.items import BucketId

HEAD = ["RESOURCE", "LIMIT", "AVAILABLE", "BURST", "REFILL", "CONSUMED", "SHADOWED", "SHARDS", "EXPIRES", "(UTC)"]


@pytest.fixture
def used(table: Table) -> Table:
    """`key` has used up what it may a day of `gpt-4`, and half of it of `gpt-5`."""
    table.repository.set_limits("key", [Limit.per_day("rpd", 60)])
    limiter = SyncRateLimiter(table.repository)
    for resource, amount in (("gpt-4", 60), ("gpt-5", 30)):
        with limiter.acquire("key", resource, {"rpd": amount}):
            pass
    return table


def test_what_an_entity_has_left_is_shown_by_resource(used: Table) -> None:
    assert bucket_rows("key") == [
        HEAD,
        ["gpt-4", "rpd", "0", "60", "60/rolling", "day", "60", "0", "1", "-"],
        ["gpt-5", "rpd", "30", "60", "60/rolling", "day", "30", "0", "1", "-"],
    ]
    assert [row[0] for row in bucket_rows("key", "-r", "gpt-5")[1:]] == ["gpt-5"]


def test_json_has_everything_about_buckets(used: Table) -> None:
    (shown,) = document("entity", "show", "key", "-r", "gpt-4")["buckets"]
    assert (shown["entity_id"], shown["resource"], shown["shard_count"]) == ("key", "gpt-4", 1)
    assert (shown["limits"]["rpd"]["available"], shown["limits"]["rpd"]["consumed"]) == (0, 60)
    assert document("entity", "show", "nobody", "-r", "gpt-4")["buckets"] == []


def test_where_there_is_no_bucket_it_would_be_full(table: Table) -> None:
    done = run("entity", "show", "key", "-r", "gpt-4")
    assert done.stdout.endswith("\n\nkey has no bucket: all tokens are available.\n")


def test_a_blocked_entity_without_a_bucket_has_no_tokens(table: Table) -> None:
    blocked, tried = Limit.per_minute("rpm", 0), Limit.per_minute("tries", 0, shadow=True)
    table.repository.set_limits("key", [blocked, tried, Limit.per_minute("tpm", 9)], "gpt-4")
    done = run("entity", "show", "key", "-r", "gpt-4")
    assert done.stdout.endswith("\n\nkey has no bucket: a capacity of 0 blocks rpm.\n")
    for command in (["reset", "key", "-r", "gpt-4", "-y"], ["credit", "key", "-r", "gpt-4", "-t", "rpm:1"]):
        assert refused("bucket", *command) == (
            "there is no bucket of key on gpt-4: a capacity of 0 blocks rpm, and nothing was written"
        )


def test_a_blocked_limit_of_a_bucket_gets_no_credit(table: Table) -> None:
    table.repository.set_limits("key", [Limit.per_minute("rpm", 0), Limit.per_minute("tpm", 9)], "gpt-4")
    with SyncRateLimiter(table.repository).acquire("key", "gpt-4", {"tpm": 9}):
        pass
    problem = "tokens 'rpm': has a capacity of 0 and holds no tokens: raise it"
    assert refused("bucket", "credit", "key", "-r", "gpt-4", "-t", "rpm:1", "-t", "tpm:1").startswith(problem)


def test_reset_unblocks_an_entity_at_once_and_is_audited(used: Table) -> None:
    assert refused("bucket", "reset", "key", "-r", "gpt-4") == (
        "Make the bucket of key on gpt-4 full? There is no terminal to answer on: pass --yes to confirm"
    )
    assert told("bucket", "reset", "key", "-r", "gpt-4", "--yes") == [
        HEAD,
        ["gpt-4", "rpd", "60", "60", "60/rolling", "day", "60", "0", "1", "-"],
    ]
    event, *_ = used.repository.get_audit_events("key").events
    assert (event.action, event.principal, event.after) == ("bucket_reset", "ann", {"available": {"rpd": 60}})
    bucket = used.repository.get_bucket("key", "gpt-5")
    assert bucket is not None
    assert bucket.available == {"rpd": 30}


def test_credit_gives_tokens_up_to_the_burst_and_is_audited(used: Table) -> None:
    got = document("bucket", "credit", "key", "-r", "gpt-4", "-t", "rpd:10", "--principal", "bob")
    assert got["limits"]["rpd"]["available"] == 10
    event, *_ = used.repository.get_audit_events("key").events
    assert (event.action, event.principal, event.after) == (
        "bucket_credited",
        "bob",
        {"credited": {"rpd": 10}, "available": {"rpd": 10}},
    )
    assert run("bucket", "credit", "key", "-r", "gpt-4", "--tokens", "rpd:999").stdout.splitlines()[0] == (
        "rpd: 10 left -> 60."
    )


def test_a_credit_that_a_quota_has_no_room_for_is_refused_with_the_way_out(table: Table) -> None:
    table.repository.set_limits("cust", ["usd: $250/month UTC"], "budget")
    with SyncRateLimiter(table.repository).acquire("cust", "budget", {"usd": Decimal(225)}):
        pass
    credit = ("bucket", "credit", "cust", "-r", "budget", "--idempotency-key", "inv-1", "-t")
    assert "-l 'usd:$750' --until TIME" in refused(*credit, "usd:$500")
    run("lift", "cust", "-r", "budget", "-l", "usd:$750", "--for", "1d")
    assert "it holds at most $750: credit $225 at most" in refused(*credit, "usd:$500")
    assert run(*credit, "usd:$100").stdout.splitlines()[0] == "usd: $525 left -> $625."
    assert run(*credit, "usd:$100").stdout.splitlines()[1].startswith("Nothing was added: inv-1 has credited")
    [line, *_] = run("audit", "list", "--entity", "cust").stdout.splitlines()[1:]
    assert "available.usd $525 -> $625" in " ".join(line.split())
    assert "credited.usd $100" in " ".join(line.split())


def test_a_bare_number_is_not_credited_to_money(table: Table) -> None:
    table.repository.set_limits("cust", ["usd: $250/month UTC"], "budget")
    with SyncRateLimiter(table.repository).acquire("cust", "budget", {"usd": Decimal(225)}):
        pass
    problem = "--tokens 'usd:5': usd is money: write 'usd:$5' in single quotes, for a shell expands $ in double ones"
    assert refused("bucket", "credit", "cust", "-r", "budget", "-t", "usd:5") == problem


def test_a_credit_and_a_reset_with_a_key_are_made_once(used: Table) -> None:
    credit = ["bucket", "credit", "key", "-r", "gpt-4", "-t", "rpd:10", "--idempotency-key", "invoice 77"]
    assert refused(*credit).startswith("idempotency_key 'invoice 77': must be 1 to 256 printable characters")
    credit[-1] = "invoice-77"
    first = document(*credit)
    assert first.pop("left") == {"rpd": {"before": 0, "now": 10}}
    assert document(*credit) == {**first, "left": {"rpd": {"before": 10, "now": 10}}}
    event, *others = used.repository.get_audit_events("key").events
    assert event.after is not None
    assert (event.after["credited"], event.after["idempotency_key"]) == ({"rpd": 10}, "invoice-77")
    problem = "idempotency_key 'invoice-77': stands for a credit of 10 rpd of key/gpt-4, not for a reset: take another"
    reset = ["bucket", "reset", "key", "-r", "gpt-4", "--yes", "--idempotency-key"]
    assert refused(*reset, "invoice-77").startswith(problem)
    assert document(*reset, "ticket-1") == document(*reset, "ticket-1")
    assert len(used.repository.get_audit_events("key").events) == len(others) + 2


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (
            ["reset", "nobody", "-r", "gpt-4", "-y"],
            "there is no bucket of nobody on gpt-4: all tokens are available, and nothing ",
        ),
        (
            ["reset", "nobody", "-r", "gpt-4"],
            "there is no bucket of nobody on gpt-4: all tokens are available, and nothing ",
        ),
        (
            ["credit", "nobody", "-r", "gpt-4", "-t", "rpd:1"],
            "there is no bucket of nobody on gpt-4: all tokens are available",
        ),
        (["credit", "key", "-r", "gpt-4", "-t", "rpm:1"], "tokens 'rpm': is not a limit of the bucket (known: rpd)"),
        (["credit", "key", "-r", "gpt-4", "-t", "rpd:0"], "--tokens 'rpd:0': must be at least 1"),
        (["credit", "key", "-r", "gpt-4", "-t", "rpd"], "--tokens 'rpd': must be name:amount"),
        (["credit", "key", "-r", "gpt-4"], "Missing option '--tokens' / '-t'"),
        (["reset", "key"], "Missing option '--resource' / '-r'"),
        (["reset", "a b", "-r", "gpt-4", "-y"], "entity_id 'a b': must be"),
        (["reset", "key", "-r", "gpt-4", "-y", "-N", "nowhere"], "there is no namespace 'nowhere'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_mistake_is_one_line(used: Table, args: list[str], problem: str) -> None:
    assert refused("bucket", *args).startswith(problem)


def test_merge_leaves_one_shard_with_all_tokens(used: Table) -> None:
    state = used.repository.namespace_state
    bucket = BucketId(state.namespace_id, "key", "gpt-5")
    for shard in (0, 0, 1):
        used.repository.driver.run(split_shard(state, bucket.other(shard)))
    assert bucket_rows("key", "-r", "gpt-5")[1][8] == "4"
    done = run("bucket", "merge", "key", "-r", "gpt-5")
    sentence, _, row = (line.split() for line in done.stdout.splitlines() if line)
    assert " ".join(sentence) == "Shards of the bucket of key on gpt-5: 3 merged with others."
    assert (row[:2], row[6], row[8]) == (["gpt-5", "rpd"], "30", "1")
    assert document("bucket", "merge", "key", "-r", "gpt-5")["shard_count"] == 1
    assert run("bucket", "merge", "key", "-r", "gpt-5").stdout.startswith(
        "Shards of the bucket of key on gpt-5: none merged."
    )
    assert refused("bucket", "merge", "nobody", "-r", "gpt-5").startswith("there is no bucket of nobody on gpt-5")
