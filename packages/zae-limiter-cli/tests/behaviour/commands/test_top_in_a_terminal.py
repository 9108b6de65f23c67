"""`zae-limiter top` in a terminal of its own: what somebody sees there, and how it is left."""

from pathlib import Path

import pytest

from support.cli.terminals import ALTERNATE, Terminal, running
from zae_limiter import Limit, RateLimitExceeded, SyncRateLimiter, SyncRepository

pytestmark = pytest.mark.slow  # each test starts the command, and some its keys' commands

KEYS = ("q quit", "w why", "u usage", "d changes", "s sort", "t tree", "/ filter", "p pause")
CHANGES = ("l lift", "x disable")
PASTED = "\x1b[200~{}\x1b[201~"
DOWN, ESCAPE, CTRL_C = "\x1b[B", "\x1b", "\x03"
DUMB = "This terminal draws no screen"


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A key that a limit of its parent refuses for hours, whatever the time is."""
    path = tmp_path / "limits.db"
    with SyncRepository.sqlite(path) as repository:
        limiter = SyncRateLimiter(repository)
        repository.create_entity("acme-corp")
        repository.set_resource_defaults("gpt-4", [Limit.per_day("rpd", 60)])
        repository.set_limits("acme-corp", [Limit.per_day("rpd", 2)], "gpt-4")
        for key in ("key-1", "key-2"):
            repository.create_entity(key, parent_id="acme-corp", cascade=True)
            with limiter.acquire(key, "gpt-4", {"rpd": 1}):
                pass
        for _ in range(3):
            with pytest.raises(RateLimitExceeded), limiter.acquire("key-1", "gpt-4", {"rpd": 1}):
                pass
    return f"sqlite:///{path}"


def back(terminal: Terminal) -> None:
    """Leave what a key has shown, which fits between its borders."""
    box = [line for line in terminal.lines if line.startswith("│")]
    assert all(line.endswith("│") for line in box)
    terminal.press(ESCAPE)  # and wait: with another key right behind it, it would be Alt and that key
    terminal.until("p pause", without=["╭"])


def test_at_80_columns_somebody_finds_out_why_and_who_changed_what(store: str) -> None:
    with running("top", "--store", store, columns=80, lines=24) as terminal:
        health, heads, *rows = terminal.until("default: file limits.db", "last change", *KEYS)
        assert (health, ALTERNATE in terminal.modes) == ("default: file limits.db", True)
        assert not any(key in line for line in rows for key in CHANGES)
        assert heads.split() == ["ENTITY", "RESOURCE", "LIMIT", "LEFT", "REFUSED"]
        assert [" ".join(row.split()) for row in rows[:3]] == [
            "acme-corp gpt-4 rpd ░░░░ 0 3",
            "├─ key-1 gpt-4 acme-corp/rpd - 3",
            "└─ key-2 gpt-4 rpd ████ 59 0",
        ]
        terminal.press(DOWN + "w")
        terminal.until("zae-limiter why -r gpt-4", "key-1 on gpt-4, 1 rpd: refused by acme-corp/rpd")
        back(terminal)
        terminal.press("u")
        terminal.until("usage list --total --since 24h", "refused")
        back(terminal)
        terminal.press("d")
        terminal.until("audit list --since 24h", "entity_created")
        back(terminal)
        terminal.press("t")
        terminal.until(" key-1", without=["─ key-1"])
        terminal.press("s")
        terminal.until("3 buckets by full")
        terminal.press("/")
        terminal.until("entity or resource")
        terminal.press("key-2\r")
        terminal.until("only 'key-2'", "1 bucket by full", "p pause", without=["key-1 "])
        terminal.press("q")
        assert terminal.ended() == 0
        assert terminal.restored


@pytest.mark.long
def test_at_60_columns_nothing_is_cut_and_a_change_asks_first(store: str) -> None:
    with running("top", "--store", store, "--allow-changes", columns=60, lines=20) as terminal:
        shown = terminal.until("last change", *KEYS, *CHANGES)
        assert "acme-corp/rpd" in "\n".join(shown)
        assert "…" not in "\n".join(shown)
        terminal.press(DOWN + "l")
        terminal.until("Most refusals of key-1 come from acme-corp/rpd", "Type lift and press Enter")
        terminal.press(PASTED.format("lift\r") + "\r")
        terminal.press(ESCAPE)
        terminal.until(*KEYS, without=["╭"])
        terminal.resize(100, 30)
        terminal.until("BLOCKED BY", "USED/MIN", *KEYS)
        terminal.resize(60, 20)
        terminal.until("REFUSED", *KEYS, without=["BLOCKED"])
        terminal.press("x")
        terminal.until("zae-limiter disable -r gpt-4 --yes", "Type disable and press Enter")
        terminal.press("disable\r")
        terminal.until("key-1 on gpt-4 is disabled", "1 live bucket")
        back(terminal)
        terminal.press("l")
        terminal.until("press Enter")
        terminal.press(CTRL_C)  # in the middle of a question
        assert terminal.ended() == 0
        assert terminal.restored


@pytest.mark.long
def test_a_text_pasted_by_mistake_changes_nothing(store: str) -> None:
    """Typed key by key, as a terminal without bracketed paste sends it: it has `l`, `y`, `b` and line ends."""
    with running("top", "--store", store, "--allow-changes", columns=80, lines=24) as terminal:
        terminal.until("last change", *KEYS)
        terminal.press(DOWN + "finally blindly yes\ry\r")
        terminal.until("press Enter")
        terminal.press(ESCAPE)
        terminal.until(*KEYS, without=["╭"])
        terminal.press("q")
        assert terminal.ended() == 0
    with SyncRepository.open("default", store=store) as repository:
        assert repository.get_override("key-1", "gpt-4") is None
        assert "bucket_credited" not in {each.action for each in repository.get_audit_events("key-1").events}


@pytest.mark.long
def test_a_process_that_is_to_end_leaves_the_terminal_as_it_was_and_no_color_is_obeyed(store: str) -> None:
    with running("top", "--store", store, environment={"NO_COLOR": "1"}) as terminal:
        terminal.until("acme-corp/rpd", "last change")
        assert all(len({colour[:2], colour[2:4], colour[4:]}) == 1 for colour in terminal.colours())  # greys
        terminal.process.terminate()
        assert terminal.ended() == 143
        assert terminal.restored


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("environment", [{"TERM": "dumb"}, {"PYTHONIOENCODING": "latin-1"}])
def test_a_terminal_that_draws_no_screen_gets_the_table_once(store: str, environment: dict[str, str]) -> None:
    words = ("top", "--store", store, "--every", "1")
    with running(*words, columns=60, environment=environment) as terminal:
        assert terminal.ended() == 0
        assert b"\x1b" not in terminal.sent
        shown = terminal.sent.decode("latin-1").splitlines()
        assert shown[0].startswith(DUMB)
        [row] = [line for line in shown if "key-1" in line]
        assert " ".join(row.split()).endswith("key-1 gpt-4 acme-corp/rpd - 3")
        assert max(map(len, shown)) <= 60
