"""The console: who comes in, what they see, and that it changes nothing unless it may."""

import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
from botocore.exceptions import ClientError
from click.testing import CliRunner
from starlette.testclient import TestClient

from zae_limiter import Limit, RateLimitExceeded, SyncRateLimiter, SyncRepository, ValidationError
from zae_limiter_cli.connection import Connection
from zae_limiter_cli.console import bills
from zae_limiter_cli.console import pages as pages_module
from zae_limiter_cli.console.access import COOKIE, IDLE_SECONDS, SESSION_SECONDS, Access, same_origin
from zae_limiter_cli.console.app import Console, application
from zae_limiter_cli.console.applies import Applies
from zae_limiter_cli.console.pages import Pages
from zae_limiter_cli.limits.provisioner import Planner
from zae_limiter_cli.live.health import Health
from zae_limiter_cli.live.reading import Reader
from zae_limiter_cli.live.rows import Reading
from zae_limiter_cli.main import main

HOST = "http://127.0.0.1"
HOSTILE = "<script>alert(1)</script>"
REFUSED = (403, 404, 405)
RPM_OF_ACME = "bucket?entity=acme&amp;resource=gpt-4#limit-rpm"
PAGES = ("/", "/rows", "/bucket?entity=key-1&resource=gpt-4", "/usage?span=30d", "/changes", "/cost")


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[SyncRepository]:
    with SyncRepository.sqlite(tmp_path / "limits.db") as repository:
        limiter = SyncRateLimiter(repository)
        repository.create_entity("acme")
        for entity_id in ("key-1", HOSTILE):
            repository.create_entity(entity_id, parent_id="acme", cascade=True)
        repository.set_resource_defaults("gpt-4", [Limit.per_minute("rpm", 60)])
        repository.set_limits("acme", [Limit.per_minute("rpm", 4)], "gpt-4", principal=HOSTILE)
        for entity_id in ("key-1", HOSTILE):
            with limiter.acquire(entity_id, "gpt-4", {"rpm": 1}):
                pass
            with pytest.raises(RateLimitExceeded), limiter.acquire(entity_id, "gpt-4", {"rpm": 4}):
                pass
        with limiter.acquire("key-1", "gpt-4", {"rpm": 1}):  # its write counts the refusal
            pass
        yield repository


def console_of(repository: SyncRepository, path: Path, *, allow: bool = False, access: Access | None = None) -> Console:
    url = f"sqlite:///{path / 'limits.db'}"
    health = Health(Connection.of_store(url, source="--store"))
    pages = Pages(repository, Reader(repository, None, 50), health, every=1.0, options=["--store", url])
    applies = Applies(Connection.of_store(url, source="--store"), "default")
    return Console(pages, applies, access or Access(), "default", allow, 1.0)


def browser(console: Console, *, enter: bool = True) -> TestClient:
    """A browser, which asks for the pages of its session once it has entered."""
    client = TestClient(application(console, ["127.0.0.1"]), base_url=HOST)
    if enter:
        page = press_enter(client, console.access.token)
        assert page.status_code == 200
        client.base_url = page.url
    return client


def press_enter(client: TestClient, token: str, origin: str = HOST) -> Any:
    return client.post("/enter", params={"token": token}, headers={"origin": origin})


def test_the_table_names_who_is_refused_and_by_whom(repository: SyncRepository, tmp_path: Path) -> None:
    page = browser(console_of(repository, tmp_path)).get("/?shape=list").text
    row = page[page.index(">key-1<") : page.index("</tr>", page.index(">key-1<"))]
    assert f'data-label="Blocked by"><a href="{RPM_OF_ACME}">acme/rpm<' in row
    assert "58 of 60" in row
    assert 'aria-label="97 percent left"' in row


def test_values_in_force_are_shown_and_the_window_of_what_is_left(repository: SyncRepository, tmp_path: Path) -> None:
    """A full bucket of a schedule looked half empty beside the values outside of it."""
    now = [Limit.custom("tpm", 1_000, schedule=["now: mon-sun 500/min"])]
    repository.set_limits("sched", [*now, Limit.per_month("usd", 90)], "gpt-4")
    with SyncRateLimiter(repository).acquire("sched", "gpt-4", {"usd": 1}):
        pass
    client = browser(console_of(repository, tmp_path))
    bucket = client.get("/bucket?entity=sched&resource=gpt-4").text
    assert "500 of 500, now until further notice" in bucket
    assert "of 1,000" not in bucket
    rows = client.get("/rows?shape=list&only=sched").text
    assert re.search(r"89 of 90 <span class=\"until\">until 20..-..-01 00:00<", rows)


def test_the_tree_has_entities_below_each_of_their_parents_with_what_is_left(
    repository: SyncRepository, tmp_path: Path
) -> None:
    repository.create_entity("zeta")
    repository.create_entity("both", parent_ids=["acme", "zeta"])
    for entity_id in ("both", "zeta"):
        with SyncRateLimiter(repository).acquire(entity_id, "gpt-4", {"rpm": 1}):
            pass
    page = browser(console_of(repository, tmp_path)).get("/").text
    tree = page[page.index('aria-label="Entities below their parents"') :]
    below = {name: tree[tree.index(f'<ul aria-label="Below {name}">') :] for name in ("acme", "zeta")}
    assert below["acme"].index(">key-1<") < below["acme"].index("</ul>")
    for name, other in (("acme", "zeta"), ("zeta", "acme")):
        shown = below[name][: below[name].index("</ul>")]
        assert f"gpt-4, also below {other}" in shown
        assert "59 of 60 rpm" in shown
        assert 'aria-label="98 percent left"' in shown
    assert f'1 refused, by <a href="{RPM_OF_ACME}">acme/rpm<' in below["acme"]
    assert 'aria-label="Entities below acme on gpt-4"' in tree


def test_the_start_page_says_who_is_refused_and_when_budgets_are_gone(
    repository: SyncRepository, tmp_path: Path
) -> None:
    repository.set_limits("acme", [Limit.parse("rpm: 4/min"), Limit.parse("usd: $10/month")], "gpt-4")
    with SyncRateLimiter(repository).acquire("acme", "gpt-4", {"rpm": 1, "usd": 9_500_000}):
        pass
    page = browser(console_of(repository, tmp_path)).get("/").text
    assert (
        f'Calls of key-1 are refused now, most by <strong class="out"><a href="{RPM_OF_ACME}">acme/rpm</a></strong>'
        in page
    )
    budget = page[page.index('aria-label="Budgets"') :]
    assert ">$0.50</strong>" in budget
    assert "left of $10" in budget
    assert re.search(r"gone 20\S+ \d\d:\d\d UTC at the last (day|hour)&#39;s rate|about \$", budget)
    (spec,) = (json.loads(each) for each in re.findall(r"json\">(.*?)</script>", budget))
    assert spec["left"][-1][1] == 500_000
    assert spec["capacity"] == 10_000_000


def test_a_budget_of_an_hour_is_forecast_to_its_end_by_the_last_hour(
    repository: SyncRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For no query more: the picture of the budget has the hours."""
    for name, window in (("hourly", "hour UTC"), ("daily", "day UTC"), ("monthly", "month UTC")):
        repository.set_limits(name, [Limit.parse(f"usd: $1000/{window}")], "gpt-4")
        with SyncRateLimiter(repository).acquire(name, "gpt-4", {"usd": 20_000_000}):
            pass
    reads = usage_reads(monkeypatch)
    page = browser(console_of(repository, tmp_path)).get("/").text
    told = dict(re.findall(r">(\w+ly)</a>.*?figcaption.*?the last (hour|day)&#39;s rate", page, re.DOTALL))
    assert told == {"hourly": "hour", "daily": "day", "monthly": "day"}
    assert len([each for each in reads if each["window"] == "hourly" and each["entity_id"] == "hourly"]) == 1


def test_who_is_refused_is_red_on_every_page(repository: SyncRepository, tmp_path: Path) -> None:
    """Its own bucket has nearly all of its tokens; that of its parent is empty."""
    with SyncRateLimiter(repository).acquire("acme", "gpt-4", {"rpm": 1}):
        pass
    client = browser(console_of(repository, tmp_path))
    row = client.get("/rows?shape=list").text
    assert '<tr class="out">' in row[: row.index(">key-1<")].splitlines()[-2:]
    tree = client.get("/rows").text
    assert tree[: tree.index(">key-1<")].rpartition('<div class="line ')[2].startswith('out"')
    why = client.get(PAGES[2]).text
    assert '<h1 class="out">key-1 ' in why
    assert why.count('<li class="panel stops">') == 2
    assert "refused above" in why[: why.index(">acme</a>")]
    assert 'aria-label="rpm of acme: ' in why
    assert f'is refused by <strong class="out"><a href="{RPM_OF_ACME}">acme/rpm</a></strong>' in why
    assert f'1 by <a href="{RPM_OF_ACME}">acme/rpm</a>' in why
    assert 'id="limit-rpm"' in client.get(RPM_OF_ACME.replace("&amp;", "&")).text


def test_a_page_asks_the_store_for_no_more_than_it_may(
    repository: SyncRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many buckets have a budget."""
    reads: list[str] = []
    for number in range(20):
        repository.set_limits(f"tenant-{number}", [Limit.parse("usd: $10/month")], "gpt-4")
        with SyncRateLimiter(repository).acquire(f"tenant-{number}", "gpt-4", {"usd": 1_000_000 + number}):
            pass
    for name in ("get_usage_snapshots", "get_usage_summary", "get_audit_events", "get_namespace_audit_events"):
        method = getattr(SyncRepository, name)

        def counted(*args: Any, name: str = name, method: Any = method, **more: Any) -> Any:
            reads.append(name)
            return method(*args, **more)

        monkeypatch.setattr(SyncRepository, name, counted)
    client = browser(console_of(repository, tmp_path))  # which shows the start page
    assert len(reads) <= 12
    reads.clear()
    assert "Budgets" in client.get("/figures").text
    assert reads == []  # for five minutes
    client.get(PAGES[2])
    assert len(reads) <= 5


def test_an_error_leads_back_and_an_empty_namespace_does_not_say_such(tmp_path: Path) -> None:
    with SyncRepository.sqlite(tmp_path / "limits.db") as repository:
        client = browser(console_of(repository, tmp_path))
        assert "There is no bucket, and no usage in this hour" in client.get("/").text
        assert "There is no such bucket" in client.get("/?only=x").text
        unknown = client.get(PAGES[2])
    assert unknown.status_code in REFUSED or unknown.status_code == 400
    assert '<a href="./">Now</a>' in unknown.text


def usage_reads(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What is asked of usage from now on."""
    asked, read = list[dict[str, Any]](), SyncRepository.get_usage_snapshots

    def counted(repository: SyncRepository, **query: Any) -> Any:
        asked.append(query)
        return read(repository, **query)

    monkeypatch.setattr(SyncRepository, "get_usage_snapshots", counted)
    return asked


def test_usage_of_more_snapshots_than_a_page_reads_is_that_of_the_busiest(
    repository: SyncRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And it says how many are left out; a picture of all would leave some out, so that there is none."""
    reads = usage_reads(monkeypatch)
    console = console_of(repository, tmp_path)
    client = browser(console)
    assert "data-figure" in client.get("/usage").text
    monkeypatch.setattr(pages_module, "MOST_PAGES", 1)
    monkeypatch.setattr(pages_module, "SNAPSHOTS", 2)
    monkeypatch.setattr(pages_module, "MOST_BUSIEST", 1)
    reads.clear()
    page = client.get("/usage?span=30d").text
    assert "More was used in 30d than this page adds up" in page
    assert "data-figure" not in page
    assert "These 2 buckets had the most refusals and the most calls" in page
    assert "Left out of those that were used then: <strong>1</strong>" in page
    shown = [query["entity_id"] for query in reads]
    assert shown[0] == "acme"  # which counts what its keys were refused
    assert len(shown) == 2
    assert re.search(r'>acme on gpt-4</th>.*title="20\d\d-\d\d-\d\d: 5 calls, 2 refused"', page, re.DOTALL)


def test_usage_is_read_once_for_all_who_look_within_half_a_minute(
    repository: SyncRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    console = console_of(repository, tmp_path)
    client = browser(console)
    reads = usage_reads(monkeypatch)
    first = client.get("/usage").text
    assert reads
    reads.clear()
    with SyncRateLimiter(repository).acquire("key-1", "gpt-4", {"rpm": 1}):
        pass
    assert client.get("/usage").text == first
    assert reads == []
    console.pages.usage("24h", time.monotonic() + 31)
    assert reads


def test_no_request_waits_for_the_store_once_rows_were_read(
    repository: SyncRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    console = console_of(repository, tmp_path)
    client = browser(console)
    assert client.get("/rows").status_code == 200
    asked, answered, read = Event(), Event(), Reader.read

    def slow(reader: Reader) -> Reading:
        asked.set()
        assert answered.wait(30)
        return read(reader)

    monkeypatch.setattr(Reader, "read", slow)
    at = time.monotonic()
    for late in (2.0, 4.0):  # the second look finds the first one's reading under way
        assert console.pages.rows("refused", "", at + late)
    assert asked.wait(30)
    monkeypatch.setattr(Reader, "read", refuse)
    answered.set()
    until(lambda: _fails(console, at))


def refuse(_: Reader) -> Reading:
    raise ValidationError("store", "x", "is away")


def _fails(console: Console, at: float) -> bool:
    try:
        console.pages.rows("refused", "", at + 1000 * time.monotonic())
    except ValidationError:
        return True
    return False


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60  # a busy machine is slow
    while not holds():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.01)


def test_a_bucket_says_why_with_its_path_usage_changes_and_commands(repository: SyncRepository, tmp_path: Path) -> None:
    page = browser(console_of(repository, tmp_path)).get(PAGES[2]).text
    assert f'2 admitted, 1 refused, 1 by <a href="{RPM_OF_ACME}">acme/rpm</a>' in page
    assert page.index("<h3>key-1 ") < page.index(">acme</a>")
    assert "2 admitted, 1 refused, by the hour (UTC)</span>" in page[page.index("Use against the limit") :]
    assert "zae-limiter" in page[page.index("What to do next") :]
    assert 'change"' not in page


@pytest.mark.parametrize("path", PAGES)
def test_nobody_sees_a_page_without_the_token(repository: SyncRepository, tmp_path: Path, path: str) -> None:
    console = console_of(repository, tmp_path)
    stranger = browser(console, enter=False)
    assert stranger.get(path).status_code in REFUSED
    assert stranger.get(f"/guess{path}").status_code == 403
    assert stranger.get("/enter?token=guess").status_code == press_enter(stranger, "guess").status_code == 403
    stranger.cookies.set(COOKIE, "guess")
    assert stranger.get(f"/guess{path}").status_code == 403
    assert browser(console).get(path).status_code == 200


def test_a_token_lets_one_browser_in(repository: SyncRepository, tmp_path: Path) -> None:
    console = console_of(repository, tmp_path)
    first = browser(console)
    late = browser(console, enter=False)
    assert press_enter(late, console.access.token).status_code == 403
    assert late.get(f"/enter?token={console.access.token}").status_code == 403
    late.base_url = first.base_url
    assert late.get("/").status_code == 403


@pytest.mark.parametrize("method", ["HEAD", "GET", "OPTIONS", "PUT"])
def test_the_button_alone_spends_the_token(repository: SyncRepository, tmp_path: Path, method: str) -> None:
    """Mail scanners, chats and browsers look at an address before a person does, with whatever headers."""
    console = console_of(repository, tmp_path)
    looking = browser(console, enter=False)
    for headers in ({}, {"sec-purpose": "prefetch;prerender"}, {"sec-fetch-mode": "navigate"}, {"origin": HOST}):
        answer = looking.request(method, f"/enter?token={console.access.token}", headers=headers)
        assert (COOKIE in answer.headers.get("set-cookie", ""), dict(looking.cookies)) == (False, {})
    assert press_enter(looking, console.access.token, origin="http://127.0.0.1:9999").status_code == 403
    assert looking.post("/enter", params={"token": console.access.token}).status_code == 403
    assert browser(console).get("/").status_code == 200


def test_a_cookie_alone_shows_and_changes_nothing(repository: SyncRepository, tmp_path: Path) -> None:
    """Browsers send it to other ports of the address, and who listens there may say any origin."""
    console = console_of(repository, tmp_path, allow=True)
    victim = browser(console)
    (cookie,) = victim.cookies.jar
    assert cookie.path == victim.base_url.path.rstrip("/") + "/"  # sent below the session's path alone
    thief = browser(console, enter=False)
    thief.cookies.set(COOKIE, str(cookie.value))
    asked = {"what": "disable", "entity": "key-1", "resource": "gpt-4", "serial": "1"}
    events = repository.get_audit_events("key-1").events
    for path in ("", "/guess", "//", "/%2e"):
        for page in PAGES:
            assert thief.get(path + page).status_code in REFUSED
        for change in ("/change", "/rollback", "/leave"):
            assert thief.post(path + change, data=asked, headers={"origin": HOST}).status_code in REFUSED
    assert repository.get_override("key-1", "gpt-4") is None
    assert repository.get_audit_events("key-1").events == events
    assert victim.get("/").status_code == 200


def test_a_path_alone_shows_and_changes_nothing(repository: SyncRepository, tmp_path: Path) -> None:
    """It stays in the history of a browser."""
    console = console_of(repository, tmp_path, allow=True)
    stranger = browser(console, enter=False)
    stranger.base_url = browser(console).base_url
    asked = {"what": "disable", "entity": "key-1", "resource": "gpt-4"}
    assert {stranger.get(page).status_code for page in PAGES} == {403}
    for change in ("/change", "/rollback", "/leave"):
        assert stranger.post(change, data=asked, headers={"origin": HOST}).status_code == 403
    assert not repository.get_switches("key-1", "gpt-4")


def test_a_session_ends_by_its_button_and_the_next_needs_a_new_token(
    repository: SyncRepository, tmp_path: Path
) -> None:
    told: list[str] = []
    access = Access(ended=lambda: told.append(access.token))
    console = console_of(repository, tmp_path, access=access)
    client, first = browser(console), access.token
    assert client.post("/leave", headers={"origin": "http://127.0.0.1:9999"}).status_code == 403
    assert client.get("/").status_code == 200
    assert "The session ended" in client.post("/leave", headers={"origin": HOST}).text
    assert {client.get(page).status_code for page in PAGES} == {403}
    assert told == [access.token] != [first]
    assert press_enter(browser(console, enter=False), first).status_code == 403
    assert browser(console).get("/").status_code == 200


@pytest.mark.parametrize(
    ("every", "page", "seconds"),
    [
        (600, "/", SESSION_SECONDS),
        (600, "/rows", IDLE_SECONDS),
        (600, "/here", IDLE_SECONDS),
        (IDLE_SECONDS + 1, "/", IDLE_SECONDS),
    ],
)
def test_a_session_ends_when_nobody_uses_it_and_after_twelve_hours(
    repository: SyncRepository, tmp_path: Path, every: float, page: str, seconds: float
) -> None:
    now, told = [1e9], list[str]()
    access = Access(ended=lambda: told.append("ended"), clock=lambda: now[0])
    client = browser(console_of(repository, tmp_path, access=access))
    passed = 0.0
    while passed + every <= seconds:
        now[0], passed = now[0] + every, passed + every
        assert client.get(page).status_code == (204 if page == "/here" else 200)
    now[0] += every
    assert client.get(page).status_code == 403
    assert told == ["ended"]
    assert access.fits(access.token)


def test_another_host_name_is_refused_so_that_no_site_can_point_one_here(
    repository: SyncRepository, tmp_path: Path
) -> None:
    client = browser(console_of(repository, tmp_path))
    assert client.get("/", headers={"host": "evil.example"}).status_code == 400


@pytest.mark.parametrize("path", [*PAGES, "/bucket?entity=<script>&resource=gpt-4", "/?only=<script>alert(1)</script>"])
def test_stored_and_given_text_is_never_markup(repository: SyncRepository, tmp_path: Path, path: str) -> None:
    answer = browser(console_of(repository, tmp_path)).get(path)
    assert "<script>alert" not in answer.text
    assert "script-src 'self'" in answer.headers["content-security-policy"]
    assert answer.headers["cache-control"] == "no-store"


def test_it_changes_nothing_unless_it_may(repository: SyncRepository, tmp_path: Path) -> None:
    client = browser(console_of(repository, tmp_path))
    asked = {"what": "disable", "entity": "key-1", "resource": "gpt-4"}
    assert client.post("/change", data=asked, headers={"origin": HOST}).status_code == 403
    assert not repository.get_switches("key-1", "gpt-4")


def test_a_change_runs_the_command_for_a_page_of_this_host_alone(repository: SyncRepository, tmp_path: Path) -> None:
    client = browser(console_of(repository, tmp_path, allow=True))
    asked = {"what": "disable", "entity": "key-1", "resource": "gpt-4"}
    assert client.post("/change", data=asked).status_code == 403
    assert client.post("/change", data=asked, headers={"origin": "http://evil.example"}).status_code == 403
    assert not repository.get_switches("key-1", "gpt-4")
    page = client.post("/change", data=asked, headers={"origin": HOST})
    assert (page.status_code, "key-1 on gpt-4 is disabled" in page.text) == (200, True)
    assert repository.get_switches("key-1", "gpt-4").disabled
    assert client.post("/change", data={**asked, "what": "delete"}, headers={"origin": HOST}).status_code == 400


def test_a_change_runs_no_code_of_the_current_folder_and_shows_its_words_to_no_other_user(
    repository: SyncRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("click", "json", "zae_limiter_cli"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\nraise SystemExit\n")
    monkeypatch.chdir(tmp_path)
    begun = list[list[str]]()

    class Seen(subprocess.Popen[str]):
        def __init__(self, command: list[str], **more: Any) -> None:
            begun.append(command)
            super().__init__(command, **more)

    monkeypatch.setattr(subprocess, "Popen", Seen)
    client = browser(console_of(repository, tmp_path, allow=True))
    asked = {"what": "disable", "entity": "key-1", "resource": "gpt-4"}
    assert "key-1 on gpt-4 is disabled" in client.post("/change", data=asked, headers={"origin": HOST}).text
    assert not (tmp_path / "ran").exists()
    (command,) = begun
    assert not any(word in " ".join(command) for word in ("key-1", "gpt-4", "limits.db"))


def test_behind_a_proxy_everybody_has_a_name_which_is_the_author_of_changes(
    repository: SyncRepository, tmp_path: Path
) -> None:
    console = console_of(repository, tmp_path, allow=True, access=Access("x-user"))
    client = browser(console, enter=False)
    assert client.get("/").status_code == 403
    assert press_enter(client, console.access.token).status_code == 404  # the token opens nothing there
    assert client.get("/").status_code == 403
    asked = {"what": "disable", "entity": "key-1", "resource": "gpt-4"}
    assert client.post("/change", data=asked, headers={"origin": HOST, "x-user": "ann"}).status_code == 200
    assert repository.get_audit_events("key-1").events[0].principal == "ann"


def test_bad_names_and_outages_are_pages(repository: SyncRepository, tmp_path: Path) -> None:
    client = browser(console_of(repository, tmp_path))
    assert client.get("/bucket?entity=&resource=gpt-4").status_code == 400
    repository.close()
    assert client.get("/changes").status_code == 503


def test_browsers_are_asked_to_send_the_origin_to_this_host_alone(repository: SyncRepository, tmp_path: Path) -> None:
    headers = browser(console_of(repository, tmp_path)).get("/").headers
    assert headers["referrer-policy"] == "same-origin"  # `no-referrer` would make the origin of our own forms `null`


def test_a_change_needs_an_origin_that_is_this_host() -> None:
    assert same_origin({"origin": "http://127.0.0.1:80", "host": "127.0.0.1:80"})
    assert not same_origin({"host": "127.0.0.1:80"})
    assert not same_origin({"origin": "null", "host": "127.0.0.1:80"})


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (["--listen", "0.0.0.0:8080"], "together"),
        (["--listen", "8080", "--identity-header", "x", "--public-host", "h"], "must be HOST:PORT"),
        (["--every", "0"], "--every"),
        (["--host", "0.0.0.0"], "this machine alone"),
        (["--host", "localhost"], "this machine alone"),
        (["--host", "127.0.0.1", "--listen", "h:1", "--identity-header", "x", "--public-host", "h"], "not both"),
    ],
)
def test_bad_options_are_one_error(tmp_path: Path, args: list[str], problem: str) -> None:
    done = CliRunner().invoke(main, ["console", "--store", f"sqlite:///{tmp_path}/limits.db", *args])
    assert (done.exit_code, problem in done.stderr) == (1, True)


def test_a_port_in_use_is_one_error(repository: SyncRepository, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = CliRunner().invoke(
            main, ["console", "--store", f"sqlite:///{tmp_path}/limits.db", "--host", "127.0.0.1", "--port", port]
        )
    assert (done.exit_code, f"127.0.0.1:{port} cannot be used" in done.stderr) == (1, True)


@contextmanager
def running(path: Path, *options: str) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """The address that a console prints, and its process, whose errors are at ``stderr``."""
    command = ["-c", "from zae_limiter_cli.main import main; main()", "console", "--store"]
    program = [sys.executable, "-u", *command, f"sqlite:///{path}/limits.db", *options]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            [address] = re.findall(r"http://127\.[\d.]+:\d+/enter\?token=\S+", process.stdout.readline())
            yield address, process
        finally:
            process.terminate()


def asked(address: str, request: str) -> str:
    """What the console answers to these bytes, before it closes."""
    place = urlsplit(address)
    with socket.create_connection((place.hostname, place.port), timeout=30) as connection:
        connection.sendall(request.encode())
        return b"".join(iter(lambda: connection.recv(65536), b"")).decode()


def got(address: str, host: str | None, *more: str) -> str:
    lines = ["GET /static/console.css HTTP/1.1", f"Host: {host}", "Connection: close", *more, "", ""]
    return asked(address, "\r\n".join(lines))


def test_the_command_prints_an_address_that_lets_one_browser_in(repository: SyncRepository, tmp_path: Path) -> None:
    with running(tmp_path) as (address, _):
        if sys.platform == "linux":
            assert urlsplit(address).hostname != "127.0.0.1"
        with urlopen(address.partition("/enter")[0] + "/static/console.css") as answer:
            assert answer.status == 200


def test_what_is_no_request_or_no_page_of_a_browser_writes_no_line_to_the_terminal(
    repository: SyncRepository, tmp_path: Path
) -> None:
    with running(tmp_path) as (address, process):
        for nothing in ("\0garbage\r\n\r\n", "GE T / HTTP/1.1\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"):
            assert asked(address, nothing).startswith("HTTP/1.1 400 ")
        socket_key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
        for upgrade in ("websocket", "h2c"):
            words = ("Connection: Upgrade, close", f"Upgrade: {upgrade}", "Sec-WebSocket-Version: 13", socket_key)
            assert "content-security-policy" in got(address, urlsplit(address).netloc, *words)
        process.terminate()
        assert process.communicate(timeout=30)[1] == ""


def test_a_random_address_answers_to_no_other_name_and_a_given_one_to_that_of_a_forwarded_port(
    repository: SyncRepository, tmp_path: Path
) -> None:
    with running(tmp_path) as (address, _):
        own = urlsplit(address)
        told = {host: got(address, host).split()[1] for host in (own.netloc, "localhost", "[::1]", "localhost:80")}
        assert [*told.values()] == ["200", "400", "400", "400"]
    with running(tmp_path, "--host", "127.0.0.1") as (address, _):
        assert {got(address, host).split()[1] for host in ("localhost:8080", "127.0.0.1:8080")} == {"200"}


def applied(tmp_path: Path) -> None:
    """Two applies of a manifest: one of 500, then one of 600 and another resource."""
    for number, more in ((500, ""), (600, "  gpt-5: {limits: {rpm: 7/min}}\n")):
        file = tmp_path / "default.yaml"
        file.write_text(f"namespace: default\nresources:\n  gpt-x: {{limits: {{rpm: {number}/min}}}}\n{more}")
        words = ["limits", "--store", f"sqlite:///{tmp_path / 'limits.db'}", "apply", "--yes", "-f", str(file)]
        done = CliRunner().invoke(main, words)
        assert done.exit_code == 0, done.output


def test_a_rollback_shows_its_plan_and_applies_that_and_no_other(repository: SyncRepository, tmp_path: Path) -> None:
    applied(tmp_path)
    client = browser(console_of(repository, tmp_path, allow=True))
    changes = client.get("/changes").text
    assert changes.index('href="rollback?serial=4"') < changes.index('href="rollback?serial=2"')
    page = client.get("/rollback?serial=2").text
    assert "600 -&gt; 500" in page
    assert "Delete the 1 that the plan deletes" in page
    (shown,) = re.findall(r'name="hash" value="(sha256:\w+)"', page)
    asked = {"serial": "2", "hash": shown, "deletes": "yes"}  # as the form sends it
    assert client.post("/rollback", data=asked).status_code == 403  # no page of this host asks
    other = client.post("/rollback", data={**asked, "hash": f"sha256:{'0' * 64}"}, headers={"origin": HOST})
    without = client.post("/rollback", data={"serial": "2", "hash": shown}, headers={"origin": HOST})
    assert (other.status_code, without.status_code) == (400, 400)
    assert "is another by now" in other.text
    assert "The plan deletes 1: allow that" in without.text
    assert repository.get_resource_defaults("gpt-x") == [Limit.per_minute("rpm", 600)]
    done = client.post("/rollback", data=asked, headers={"origin": HOST})
    assert "Applied: 0 created, 1 updated, 1 deleted." in done.text
    assert repository.get_resource_defaults("gpt-x") == [Limit.per_minute("rpm", 500)]
    assert "rollback to 2" in client.get("/changes").text
    assert "rollback to 2" in str(repository.get_audit_events("$RESOURCE:gpt-x").events[0].principal)
    assert "Apply these changes" not in client.get("/rollback?serial=6").text  # nothing is left to change


def test_a_console_that_changes_nothing_rolls_nothing_back(repository: SyncRepository, tmp_path: Path) -> None:
    applied(tmp_path)
    client = browser(console_of(repository, tmp_path))
    assert "rollback?" not in client.get("/changes").text
    assert client.get("/rollback?serial=2").status_code == 403
    assert client.post("/rollback", data={"serial": "2"}, headers={"origin": HOST}).status_code == 403
    assert repository.get_resource_defaults("gpt-x") == [Limit.per_minute("rpm", 600)]


@pytest.mark.parametrize("serial", ["", "0", "-1", "x", "1; rm", "99999999999", "٣", "1.0", "7"])
def test_what_is_no_serial_of_an_apply_is_refused(repository: SyncRepository, tmp_path: Path, serial: str) -> None:
    client = browser(console_of(repository, tmp_path, allow=True))
    assert client.get("/rollback", params={"serial": serial}).status_code == 400
    answer = client.post("/rollback", data={"serial": serial, "hash": "--yes"}, headers={"origin": HOST})
    assert answer.status_code == 400


def test_an_apply_of_its_targets_alone_has_no_rollback(repository: SyncRepository, tmp_path: Path) -> None:
    applied(tmp_path)
    words = ["limits", "--store", f"sqlite:///{tmp_path / 'limits.db'}", "apply", "--yes", "--target", "gpt-x"]
    file = tmp_path / "default.yaml"
    file.write_text(file.read_text().replace("600", "700"))
    done = CliRunner().invoke(main, [*words, "-f", str(file)])
    assert done.exit_code == 0, done.output
    client = browser(console_of(repository, tmp_path, allow=True))
    assert 'href="rollback?serial=6"' not in client.get("/changes").text
    answer = client.get("/rollback?serial=6")
    assert answer.status_code == 400
    assert "was for its targets alone" in answer.text


def test_the_changes_stay_and_say_why_if_the_planner_does_not_answer(
    repository: SyncRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(*_: object) -> object:
        denied = {"Code": "AccessDeniedException", "Message": "not authorized to invoke the planner"}
        raise ClientError({"Error": denied}, "Invoke")

    applied(tmp_path)
    monkeypatch.setattr(Planner, "ask", ask)
    client = browser(console_of(repository, tmp_path, allow=True))
    changes = client.get("/changes")
    assert changes.status_code == 200
    assert "not authorized to invoke the planner" in changes.text
    assert "gpt-x" in changes.text
    assert client.get("/rollback?serial=2").status_code == 400


COSTS = {
    "month": "2026-11",
    "tenants": [
        {"tenant": "acme", "admitted": 1200, "refused": 3, "decision_writes": 1200.0, "usage_writes": 4.4}
        | {"limit_reads": 5.0, "usd": 0.00151},
        {"tenant": "=HYPERLINK(1)", "admitted": 1, "refused": 0, "decision_writes": 1.0, "usage_writes": 2.0}
        | {"limit_reads": 5.0, "usd": 0.0},
    ],
    "total": {"admitted": 1201, "refused": 3, "decision_writes": 1201.0, "usage_writes": 6.4}
    | {"limit_reads": 10.0, "usd": 0.00151},
    "prices": {"of": "us-east-1", "as_of": "2026-11"},
}


def test_the_cost_of_each_tenant_is_a_page_and_a_file(
    repository: SyncRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []

    def run(words: list[str], _: int) -> str:
        asked.append(words)
        return json.dumps(COSTS)

    monkeypatch.setattr(bills, "run", run)
    client = browser(console_of(repository, tmp_path))
    page = client.get("/cost?by=entity&month=2026-11").text
    assert asked[0][:5] == ["usage", "cost", "--by", "entity", "--month=2026-11"]
    row = page[page.index(">acme<") : page.index("</tr>", page.index(">acme<"))]
    assert re.findall(r'class="number">([^<]+)<', row) == ["1,200", "3", "1,204", "5", "0.0015"]
    assert ">total<" in page
    file = client.get("/cost.csv?by=nobody&month=--yes")
    assert asked[1][:5] == ["usage", "cost", "--by", "root", "--month=--yes"]
    assert file.headers["content-disposition"] == 'attachment; filename="cost-2026-11.csv"'
    head, acme, formula = file.text.splitlines()
    assert head == "month,tenant,admitted,refused,write_units,read_units,usd"
    assert acme == "2026-11,acme,1200,3,1204,5,0.00151"
    assert formula == "2026-11,'=HYPERLINK(1),1,0,3,5,0.0"


@pytest.mark.long
def test_what_costs_nothing_says_so(repository: SyncRepository, tmp_path: Path) -> None:
    client = browser(console_of(repository, tmp_path))
    assert "a file costs nothing by the request" in client.get("/cost").text
    assert client.get("/cost.csv").status_code == 400


def test_changes_come_a_page_at_a_time_each_once(repository: SyncRepository, tmp_path: Path) -> None:
    for number in range(120):
        repository.set_limits("key-1", [Limit.per_minute("rpm", 61 + number)], "gpt-4", principal=f"author-{number}.")
    client = browser(console_of(repository, tmp_path))
    address, authors, pages = "changes", list[str](), 0
    while address:
        page = client.get(address).text
        authors += re.findall(r"author-\d+\.", page)
        pages += 1
        link = re.search(r'href="(changes\?before=[^"]+)" rel="next">Older changes<', page)
        address = link[1] if link else ""
    assert (authors, pages) == ([f"author-{number}." for number in reversed(range(120))], 3)
    assert ">Newest changes<" in page
    assert client.get("/changes?before=").status_code == client.get("/changes?before=%C3%A4").status_code == 400
