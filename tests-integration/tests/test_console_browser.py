"""What lives here: `zae-limiter console` in a real browser: token, pages, keyboard, names, both schemes, 400 pixels.
What never does: what a page says (test_console of the CLI).
"""

import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.integration.browser import chromium
from support.integration.chromium import Page, browsing
from support.integration.fetch import Unavailable
from zae_limiter import Limit, RateLimitExceeded, SyncRateLimiter, SyncRepository

pytestmark = pytest.mark.slow

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
        with limiter.acquire("4", "gpt-4", {"rpm": 1}):
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


def test_the_token_lets_one_browser_in_and_the_address_does_not_stay(page: Page, address: str, tmp_path: Path) -> None:
    page.go(address)
    assert "token" not in page.says("location.href")
    assert page.says("document.cookie") == ""  # no script reads the session
    assert page.says("document.querySelector('h1').textContent") == "Now"
    with browsing(tmp_path / "stranger") as stranger:
        stranger.go(address)
        assert "This address was used" in stranger.says("document.body.textContent")


def test_every_page_has_names_contrast_and_no_sideways_scrolling_in_both_schemes(
    page: Page, address: str, tmp_path: Path
) -> None:
    page.go(address)
    base = address.partition("/enter")[0]
    for number, path in enumerate(PATHS):
        page.go(base + path)
        nameless = [role for role, name in page.accessible() if role in NAMED and not name]
        assert nameless == [], path
        assert ("heading", page.says("document.querySelector('h1').textContent")) in page.accessible()
        for scheme in ("light", "dark"):
            for width in (1200, 400):
                page.look(width=width, scheme=scheme)
                assert page.says(SIDEWAYS) == 0, (path, scheme, width)
                assert page.says(CONTRAST) >= 4.5, (path, scheme)
                page.picture(tmp_path / f"{number}-{scheme}-{width}.png")
    assert len({each.read_bytes() for each in tmp_path.glob("*.png")}) == 4 * len(PATHS)


def test_the_keyboard_reaches_everything_and_begins_with_the_way_past_the_menu(page: Page, address: str) -> None:
    page.go(address)
    here = "(e => e.tagName + ' ' + (e.textContent.trim() || e.id))(document.activeElement)"
    page.press("Tab")
    assert page.says(here) == "A Skip to the content"
    assert page.says("document.activeElement.getBoundingClientRect().left") >= 0
    found = []
    for _ in range(page.says("document.querySelectorAll('a, input, select, button').length") - 1):
        page.press("Tab")
        found.append(page.says(here))
        assert page.says("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert found[:4] == ["A Now", "A Usage", "A Cost", "A Changes"]
    assert f"A {LONG}" in found


def test_a_part_of_the_tree_is_folded_by_the_keyboard_and_stays_so_when_rows_come_again(
    page: Page, address: str
) -> None:
    page.go(address)
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


def test_a_rollback_by_the_keyboard_asks_and_is_applied(page: Page, address: str, store: str) -> None:
    page.go(address)
    page.go(f"{address.partition('/enter')[0]}/rollback?serial=2")
    page.says(
        "document.querySelector('button').focus(); window.confirm = text => { window.asked = text; return false }"
    )
    page.press("Enter")
    assert page.says("window.asked") == "Apply these changes?"
    assert page.says("location.pathname") == "/rollback"
    with SyncRepository.sqlite(Path(store.removeprefix("sqlite:///"))) as repository:
        assert repository.get_resource_defaults("gpt-x") == [Limit.per_minute("rpm", 600)]
        page.says("window.confirm = () => true")
        page.press("Enter", loads=True)
        assert "Applied: 0 created, 1 updated, 0 deleted." in page.says("document.body.textContent")
        assert repository.get_resource_defaults("gpt-x") == [Limit.per_minute("rpm", 500)]
