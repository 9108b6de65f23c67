"""docs/guides/coming-from.md: each manifest of the page, applied to a file, admits what the product before did."""

import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from zae_limiter import Limit, SyncRateLimiter, SyncRepository
from zae_limiter.exceptions import RateLimitExceeded
from zae_limiter.testing import ManualClock
from zae_limiter_cli.main import main

PAGE = (Path(__file__).parents[5] / "docs/guides/coming-from.md").read_text("utf-8")
BLOCKS = [text for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL) if text.startswith("namespace:")]
MANIFESTS = {yaml.safe_load(text)["namespace"]: text for text in BLOCKS}


class Shop:
    """A file of SQLite with one manifest of the page, and a clock that stands still."""

    def __init__(self, folder: Path, namespace: str) -> None:
        url, file = f"sqlite:///{folder / 'limits.db'}", folder / "limits.yaml"
        file.write_text(MANIFESTS[namespace], "utf-8")
        for words in (["validate"], ["apply", "-y", "--store", url]):
            done = CliRunner().invoke(main, ["limits", *words, "-f", str(file)])
            assert done.exit_code == 0, done.output
            assert "Warning" not in done.output
        self.clock = ManualClock()
        self.limiter = SyncRateLimiter(SyncRepository.open(namespace, store=url, clock=self.clock))

    def passes(self, entity: str, resource: str, consume: dict[str, Any]) -> bool:
        """Return whether an acquire is admitted, which keeps what it took."""
        try:
            with self.limiter.acquire(entity, resource, consume) as lease:
                lease.keep()
        except RateLimitExceeded:
            return False
        return True

    def admitted(self, entity: str, resource: str, consume: dict[str, Any]) -> int:
        """Return how many of these calls pass at one instant, of at most 200."""
        return next((done for done in range(200) if not self.passes(entity, resource, consume)), 200)


@pytest.fixture
def shop(tmp_path: Path, request: pytest.FixtureRequest) -> Shop:
    """The manifest of the namespace that the test names."""
    return Shop(tmp_path, request.param)


of = pytest.mark.parametrize


def test_every_manifest_of_the_page_has_a_ledger() -> None:
    assert set(MANIFESTS) == {"shop", "users", "kong", "ai-gateway", "litellm", "plans"}


def test_every_block_of_the_page_can_be_read() -> None:
    assert len([yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]) == 10
    [body] = map(json.loads, re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL))
    assert body["max_budget"] == 250


@of(
    ("text", "kind", "capacity"),
    [
        ("100/60s", "token_bucket", 100),
        ("100/min UTC", "calendar", 100),
        ("100/day", "token_bucket", 100),
        ("100/day UTC", "calendar", 100),
        ("1M cron 0 0 1 4 * UTC", "calendar", 1_000_000),
    ],
)
def test_every_limit_in_the_pages_sentences_is_what_they_say(text: str, kind: str, capacity: int) -> None:
    assert f"`{text}`" in PAGE
    limit = Limit.parse(f"requests: {text}")
    assert (limit.kind, limit.capacity) == (kind, capacity)


@of("shop", ["shop"], indirect=True)
def test_envoys_sixth_request_of_a_second_is_refused(shop: Shop) -> None:
    one = {"requests": 1}
    assert [shop.admitted(name, "search", one) for name in ("ann", "ben", "acme")] == [5, 5, 50]
    shop.clock.advance(1)
    assert shop.admitted("ann", "search", one) == 5
    assert [shop.admitted("ann", f"models/{name}", one) for name in "ab"] == [60, 60]
    assert shop.passes("acme", "export", {"requests": 1000})
    shop.clock.advance(27 * 86_400)
    assert not shop.passes("acme", "export", one)
    shop.clock.advance(366 * 86_400)
    assert shop.passes("acme", "export", one)


@of("shop", ["users"], indirect=True)
def test_limitadors_users_have_five_posts_each(shop: Shop) -> None:
    assert [shop.admitted(name, "POST", {"requests": 1}) for name in ("ann", "ben")] == [5, 5]
    shop.clock.advance(90)
    assert shop.admitted("ann", "POST", {"requests": 1}) == 5


@of("shop", ["kong"], indirect=True)
def test_kongs_windows_all_count(shop: Shop) -> None:
    each = dict.fromkeys(("second", "hour", "year"), 1)
    assert shop.admitted("ann", "search", each) == 5
    assert shop.passes("ann", "search", {"hour": 9_995, "year": 9_995})
    shop.clock.advance(1)
    assert not shop.passes("ann", "search", each)
    shop.clock.advance(3600)
    assert shop.admitted("ann", "search", each) == 5
    assert shop.limiter.available("ann", "search")["year"] == 1_000_000 - 10_005


@of("shop", ["ai-gateway"], indirect=True)
def test_the_ai_gateways_tokens_end_until_midnight(shop: Shop) -> None:
    with shop.limiter.acquire("ann", "gpt-5", {"tokens": 500}) as lease:
        lease.settle(tokens=100_000)
    assert not shop.passes("ann", "gpt-5", {"tokens": 1})
    assert shop.passes("ben", "gpt-5", {"tokens": 1})
    shop.clock.advance(86_400)
    assert shop.passes("ann", "gpt-5", {"tokens": 100_000})


@of("shop", ["litellm"], indirect=True)
def test_a_litellm_team_pays_for_its_keys(shop: Shop) -> None:
    call = {"rpm": 1, "tpm": 100, "usd": Decimal(50)}
    assert shop.admitted("key-1", "llm", call) == 5
    assert not shop.passes("key-1", "llm", call | {"usd": Decimal("0.01")})
    shop.clock.advance(31 * 86_400)
    assert shop.admitted("key-1", "llm", call) == 5


@of("shop", ["plans"], indirect=True)
def test_a_usage_plan_admits_its_burst_at_once(shop: Shop) -> None:
    one = {"rps": 1, "calls": 1}
    assert [shop.admitted(name, "api", one) for name in ("acme", "globex")] == [50, 50]
    shop.clock.advance(0.5)
    assert shop.admitted("acme", "api", one) == 50
    assert shop.limiter.available("acme", "api")["calls"] == 1_000_000 - 100
    assert shop.limiter.available("globex", "api")["calls"] == 2_000_000 - 50
    assert shop.passes("app", "models", {"usd": Decimal(3000)})
    assert not shop.passes("app", "models", {"usd": Decimal("0.01")})
