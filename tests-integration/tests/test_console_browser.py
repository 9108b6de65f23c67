"""What lives here: `zae-limiter console` in a real browser: token, pages, keyboard, names, both schemes, 400 pixels.
What never does: what a page says (test_console of the CLI).
"""

import base64
import json
import re
import select
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import urlencode, urlsplit

import pytest

from support.integration.browser import chromium
from support.integration.chromium import Page, browsing
from support.integration.fetch import Unavailable
from zae_limiter import Limit, RateLimitExceeded, SyncRateLimiter, SyncRepository

pytestmark = [pytest.mark.slow, pytest.mark.long]

START_SECONDS = 120
LONG = "tenant-" + "a-very-long-name-of-an-entity-" * 3
PATHS = (
    "/",
    "/?shape=list",
    f"/bucket?entity={LONG}&resource=gpt-4",
    "/usage?span=30d",
    "/cost",
    "/changes",
    "/rollback?serial=2",
)
NAMED = ("button", "link", "textbox", "combobox", "checkbox", "columnheader", "rowheader", "meter", "img", "image")
SIDEWAYS = "(() => { scrollTo(10000, 0); const moved = scrollX; scrollTo(0, 0); return moved })()"
CONTRAST = """(() => {
    const numbers = c => c.match(/[\\d.]+/g).slice(0, 3).map(Number);
    const light = c => numbers(c).map(v => v / 255).map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
        .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
    const back = light(getComputedStyle(document.body).backgroundColor);
    return Math.min(...[...document.querySelectorAll("h1, p, a, th, td, code, caption, figcaption, button, label")]
        .map(e => light(getComputedStyle(e).color))
        .map(text => (Math.max(text, back) + .05) / (Math.min(text, back) + .05)));
})()"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file with an entity that is refused, and two applies."""
    folder = tmp_path_factory.mktemp("console")
    url = f"sqlite:///{folder / 'limits.db'}"
    with SyncRepository.sqlite(folder / "limits.db") as repository:
        repository.set_resource_defaults("gpt-4", [Limit.per_minute("rpm", 2)])
        limiter = SyncRateLimiter(repository)
        for _ in range(2):
            with limiter.acquire(LONG, "gpt-4", {"rpm": 1}):
                pass
        with pytest.raises(RateLimitExceeded), limiter.acquire(LONG, "gpt-4", {"rpm": 2}):
            pass
        repository.create_entity("acme")
        for above, entity_id in zip(("acme", *"0123"), "01234", strict=True):  # a deep tree
            repository.create_entity(entity_id, parent_id=above, cascade=True)
        repository.set_limits("4", [Limit.per_minute("rpm", 2), Limit.parse("usd: $5/month")], "gpt-4")
        with limiter.acquire("4", "gpt-4", {"rpm": 1, "usd": 1_250_000}):
            pass
    for number in (500, 600):
        file = folder / "default.yaml"
        file.write_text(f"namespace: default\nresources:\n  gpt-x: {{limits: {{rpm: {number}/min}}}}\n")
        run(url, "limits", "apply", "--yes", "-f", str(file))
    return url


def run(store: str, *words: str) -> None:
    command = [sys.executable, "-c", "from zae_limiter_cli.main import main; main()", *words, "--store", store]
    subprocess.run(command, check=True, capture_output=True, timeout=60)


@pytest.fixture
def address(store: str) -> Iterator[str]:
    """Where a console of its own lets one browser in."""
    words = ["console", "--store", store, "--allow-changes"]
    program = [sys.executable, "-c", "from zae_limiter_cli.main import main; main()", *words]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert select.select([process.stdout], [], [], START_SECONDS)[0], "the console printed no address"
            (found,) = re.findall(r"http://\S+", process.stdout.readline())
            yield found
        finally:
            process.terminate()


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    try:
        chromium()
    except Unavailable as reason:
        pytest.skip(str(reason))
    with browsing(tmp_path / "profile") as page:
        yield page


def enter(page: Page, address: str) -> str:
    """Press the button behind the address; return what the addresses of the session's pages begin with."""
    page.go(address)
    page.says("document.querySelector('button').focus()")  # as `autofocus` does, once the page is painted
    page.press("Enter", loads=True)
    assert page.says("document.querySelector('h1').textContent") == "Now"
    return str(page.says("location.href"))


def test_the_token_lets_one_browser_in_and_the_address_does_not_stay(page: Page, address: str, tmp_path: Path) -> None:
    with urllib.request.urlopen(urllib.request.Request(address, method="HEAD")) as looked:
        assert looked.status == 200
    page.go(address)
    page.picture(tmp_path / "address.png")
    assert ("button", "Open it in this browser") in page.accessible()
    assert "token" not in enter(page, address)
    assert page.says("document.cookie") == ""  # no script reads the session
    with browsing(tmp_path / "stranger") as stranger:
        stranger.go(address)
        assert "This address was used" in stranger.says("document.body.textContent")


class Neighbour(BaseHTTPRequestHandler):
    """A server of another user of the machine, which keeps what a browser sends it."""

    heard: list[str]

    def do_GET(self) -> None:
        self.heard.append(self.headers.get("Cookie", ""))
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>neighbour</title><form method=post><button>")

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


@contextmanager
def neighbour(host: str) -> Iterator[tuple[str, list[str]]]:
    """The origin of a neighbour's server at an address, and the cookies that it gets."""
    heard: list[str] = []
    with ThreadingHTTPServer((host, 0), type("Heard", (Neighbour,), {"heard": heard})) as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        try:
            yield f"http://{host}:{server.server_port}", heard
        finally:
            server.shutdown()


CHANGE = {"what": "disable", "entity": "acme", "resource": "gpt-x"}


def post(url: str, origin: str, cookie: str) -> int:
    """The status that a program gets, which may send any header."""
    asked = urllib.request.Request(url, urlencode(CHANGE).encode(), {"Origin": origin, "Cookie": cookie})
    try:
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refusal:
        refusal.close()
        return refusal.code


def test_a_neighbour_on_another_port_gets_no_cookie_and_changes_nothing(page: Page, address: str, store: str) -> None:
    """Even at the console's own address, even with the cookie, and even with the path: never with one alone."""
    session = enter(page, address)
    console = urlsplit(session)
    (cookie,) = page.send("Network.getCookies", urls=[session])["cookies"]
    stolen = f"{cookie['name']}={cookie['value']}"
    with SyncRepository.sqlite(Path(store.removeprefix("sqlite:///"))) as repository:
        before = repository.get_audit_events("acme").events
        for host in (str(console.hostname), "127.0.0.1"):
            with neighbour(host) as (origin, heard):
                for path in ("/", "/bucket", "/guess/change"):
                    page.go(origin + path)
                assert set(heard) == {""}
                # The neighbour's page, which is same-site at the console's address, sends the form of the console.
                page.go(origin)
                fields = "".join(f"<input name={name} value={value}>" for name, value in CHANGE.items())
                page.says(
                    f"document.forms[0].action = {json.dumps(session + 'change')};"
                    f"document.forms[0].innerHTML = {json.dumps(fields + '<button autofocus>')};"
                    "document.querySelector('button').focus()"
                )
                page.press("Enter", loads=True)
                assert page.says("location.href") == f"{session}change"
                # Its cookie comes along from its own address alone; then the origin is another.
                reason = "This console changes nothing." if host == console.hostname else "Open the address"
                assert reason in page.says("document.body.textContent")
        base = f"http://{console.netloc}"
        told = [post(f"{base}{path}change", base, stolen) for path in ("/", "/guess/", "/static/")]
        assert 200 not in [*told, post(f"{session}change", base, f"{cookie['name']}=guess")]
        assert repository.get_audit_events("acme").events == before
        assert not repository.get_switches("acme", "gpt-x")
        assert post(f"{session}change", base, stolen) == 200  # both secrets: the same request is the browser's own
        assert len(repository.get_audit_events("acme").events) == len(before) + 1


def test_the_button_ends_the_session_and_takes_its_cookie(page: Page, address: str, tmp_path: Path) -> None:
    session = enter(page, address)
    page.says("document.querySelector('header button').focus()")
    page.press("Enter", loads=True)
    page.picture(tmp_path / "ended.png")
    assert "The session ended." in page.says("document.body.textContent")
    assert page.send("Network.getCookies", urls=[session])["cookies"] == []
    page.go(session)
    assert "Open the address that the terminal shows." in page.says("document.body.textContent")


@pytest.mark.parametrize("path", ["", f"bucket?entity={LONG}&resource=gpt-4", "changes"])
def test_a_tab_shows_nothing_of_a_session_that_ended_elsewhere(page: Page, address: str, path: str) -> None:
    session = enter(page, address)
    page.go(session + path)
    (cookie,) = page.send("Network.getCookies", urls=[session])["cookies"]
    assert post(f"{session}leave", session[: session.index("/", 8)], f"{cookie['name']}={cookie['value']}") == 200
    for _ in range(100):
        with suppress(RuntimeError):  # the page goes away just now
            if "Open the address that the terminal shows." in page.says("document.body.textContent"):
                break
        time.sleep(0.1)
    else:
        raise AssertionError("the tab still shows the page")


def test_every_page_has_names_contrast_and_no_sideways_scrolling_in_both_schemes(
    page: Page, address: str, tmp_path: Path
) -> None:
    base = enter(page, address)
    for number, path in enumerate(PATHS):
        page.go(base + path.removeprefix("/"))
        nameless = [role for role, name in page.accessible() if role in NAMED and not name]
        assert nameless == [], path
        assert ("heading", page.says("document.querySelector('h1').textContent")) in page.accessible()
        for scheme in ("light", "dark"):
            for width in (1440, 390):
                page.look(width=width, scheme=scheme)
                assert page.says(SIDEWAYS) == 0, (path, scheme, width)
                assert page.says(CONTRAST) >= 4.5, (path, scheme)
                assert page.violations() == [], (path, scheme, width)
                page.picture(tmp_path / f"{number}-{scheme}-{width}.png")
    assert len({each.read_bytes() for each in tmp_path.glob("*.png")}) == 4 * len(PATHS)


def test_the_keyboard_reaches_everything_and_begins_with_the_way_past_the_menu(page: Page, address: str) -> None:
    enter(page, address)
    here = "(e => e.tagName + ' ' + (e.textContent.trim() || e.id))(document.activeElement)"
    page.press("Tab")
    assert page.says(here) == "A Skip to the content"
    assert page.says("document.activeElement.getBoundingClientRect().left") >= 0
    found = []
    all_of_it = "[...document.querySelectorAll('a, input, select, button, summary, [tabindex]')]"
    folded = "e.closest('details:not([open]) > :not(summary)')"
    for _ in range(page.says(f"{all_of_it}.filter(e => !{folded}).length") - 1):
        page.press("Tab")
        found.append(page.says(here))
        assert page.says("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert found[:4] == ["A Now", "A Usage", "A Cost", "A Changes"]
    assert f"A {LONG}" in found


def test_a_part_of_the_tree_is_folded_by_the_keyboard_and_stays_so_when_rows_come_again(
    page: Page, address: str
) -> None:
    enter(page, address)
    shown = (
        "[...document.querySelectorAll('.tree a')].filter(e => e.checkVisibility()).map(e => e.textContent).join(' ')"
    )
    fold = 'document.querySelector(`[data-fold="0 gpt-4"]`)'
    assert "acme 0 1 2 3 4" in page.says(shown)
    assert ("button", "Entities below 0 on gpt-4") in page.accessible()
    page.says(f"{fold}.focus()")
    page.press("Enter")
    assert page.says(f"{fold}.ariaExpanded") == "false"
    assert page.says(shown).endswith("acme 0")
    page.says(f"{fold}.blur(); window.before = {fold}")
    for _ in range(100):
        if page.says(f"{fold} !== window.before"):  # the rows came again
            break
        time.sleep(0.1)
    else:
        raise AssertionError("the rows never came again")
    assert page.says(shown).endswith("acme 0")
    page.says(f"{fold}.click()")
    assert "acme 0 1 2" in page.says(shown)


READ = "document.querySelector('figure:has({0}) .readout').textContent.trim()"


def test_pictures_are_drawn_without_a_complaint_and_read_by_the_keyboard(page: Page, address: str) -> None:
    base = enter(page, address)
    page.send("Log.enable")
    for path, chart, last in (
        ("", ".budget", r"20\d\d-\d\d-01 00:00 usd left \$\S+ From forecast"),
        (
            "bucket?entity=4&resource=gpt-4",
            ".windows",
            r"20\d\d-\S+ \d\d:00 rpm used 1 rpm limit 120 .*Admitted 1 Changes limits set: .*",
        ),
        ("usage", ".windows", r"20\d\d-\S+ \d\d:00 admitted 3 refused \d usd used \$1.25 rpm used 3"),
    ):
        page.go(base + path)
        said = [each for each in page.events if each["method"] in ("Log.entryAdded", "Runtime.exceptionThrown")]
        assert said == []  # the policy of the pages forbids nothing that a picture needs
        assert page.says(f"document.querySelector('{chart} svg').getBoundingClientRect().width") > 100
        page.says(f"document.querySelector('{chart}').focus()")
        page.press("ArrowLeft")
        assert re.fullmatch(last, re.sub(r"\s+", " ", page.says(READ.format(chart)))), page.says(READ.format(chart))
        page.press("ArrowLeft")
        assert page.says(READ.format(chart))
        page.press("Escape")
        assert page.says(READ.format(chart)) == ""


def test_a_verdict_leads_to_its_limit(page: Page, address: str) -> None:
    session = enter(page, address)
    page.go(f"{session}bucket?entity={LONG}&resource=gpt-4")
    link = "document.querySelector('.verdict strong a')"
    if page.says(link) is None:  # the minute is over, and a token is there again
        page.says("location.hash = 'limit-rpm'")
    else:
        page.says(f"{link}.click()")
    assert page.says("location.hash") == "#limit-rpm"
    assert page.says("document.querySelector('tr:target th').textContent") == "rpm"
    assert page.says("document.getElementById('counted').textContent") == "", "a file counts usage itself"


def test_a_value_is_read_under_the_pointer(page: Page, address: str) -> None:
    page.go(f"{enter(page, address)}usage")
    page.look(width=1440, scheme="light")
    right, top = page.says(
        "(b => [b.right - 20, b.top + 60])(document.querySelector('.windows').getBoundingClientRect())"
    )
    page.send("Input.dispatchMouseEvent", type="mouseMoved", x=right, y=top)
    assert "admitted 3" in page.says(READ.format(".windows"))


def test_a_printed_page_has_its_pictures_and_none_of_its_buttons(page: Page, address: str, tmp_path: Path) -> None:
    page.go(enter(page, address))
    page.send("Emulation.setEmulatedMedia", media="print")
    assert page.says("getComputedStyle(document.querySelector('.filter')).display") == "none"
    assert page.says("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    printed = base64.b64decode(page.send("Page.printToPDF", printBackground=True)["data"])
    (tmp_path / "now.pdf").write_bytes(printed)
    assert printed.startswith(b"%PDF")


def test_names_of_the_heat_map_are_words_on_a_telephone_and_it_fits_on_paper(page: Page, address: str) -> None:
    narrowest = "Math.min(...[...document.querySelectorAll('.heat tbody th')].map(e => e.offsetWidth))"
    page.go(f"{enter(page, address)}usage")
    page.look(width=390, scheme="light")
    assert page.says(narrowest) >= 90
    page.look(width=740, scheme="light")
    page.send("Emulation.setEmulatedMedia", media="print")
    assert page.says(narrowest) >= 60
    assert page.says(SIDEWAYS) == 0


def test_a_rollback_by_the_keyboard_asks_and_is_applied(page: Page, address: str, store: str) -> None:
    page.go(f"{enter(page, address)}rollback?serial=2")
    page.says(
        "document.querySelector('main button').focus(); window.confirm = text => { window.asked = text; return false }"
    )
    page.press("Enter")
    assert page.says("window.asked") == "Apply these changes?"
    assert page.says("location.pathname").endswith("/rollback")
    with SyncRepository.sqlite(Path(store.removeprefix("sqlite:///"))) as repository:
        assert repository.get_resource_defaults("gpt-x") == [Limit.per_minute("rpm", 600)]
        page.says("window.confirm = () => true")
        page.press("Enter", loads=True)
        assert "Applied: 0 created, 1 updated, 0 deleted." in page.says("document.body.textContent")
        assert repository.get_resource_defaults("gpt-x") == [Limit.per_minute("rpm", 500)]
