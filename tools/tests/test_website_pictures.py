import re
import subprocess
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from website import tables
from website.charts import admissions, cpu, latency, times, waits, writes
from website.demo import THEMES, Piece, drawn, screen
from website.loop import turns
from website.pictures import FOLDER, LIMIT, calls, levels, pictures, shards
from website.redis import DOLLARS_PER_MILLION_WRITE_UNITS, PAGE, filled, table

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", pictures())
def test_a_picture_of_the_docs_is_what_just_pictures_draws(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == pictures()[name]


@pytest.mark.parametrize("name", pictures())
def test_a_picture_has_a_title_a_description_dark_colours_and_a_page_that_shows_it(name: str) -> None:
    drawn = pictures()[name]
    root = ET.fromstring(drawn)
    said = {each.get("id"): each.text for each in root if each.get("id")}
    assert all(said[each] for each in (root.get("aria-labelledby") or "").split())
    assert said.keys() == {"title", "description"}
    assert "prefers-color-scheme: dark" in drawn
    assert any(f"assets/pictures/{name}" in page.read_text() for page in (ROOT / "docs").rglob("*.md"))


@pytest.mark.parametrize("name", pictures())
def test_no_words_of_a_picture_leave_its_card(name: str) -> None:
    words = re.findall(r'<text class="[^"]*" x="([^"]+)" y="[^"]+" text-anchor="(\w+)">([^<]+)<', pictures()[name])
    for x, anchor, said in words:
        width = 6.5 * len(said)
        left = float(x) - {"start": 0, "middle": width / 2, "end": width}[anchor]
        assert left >= 0, said
        assert left + width <= 440, said


def test_the_charts_have_the_figures_of_the_tables() -> None:
    assert waits()["one bucket"][2][1:] == tuple(
        tables.milliseconds(tables.measured("latency")[f"100 callers, one bucket: {each}"]) for each in ("p50", "p99")
    )
    assert [len(figures) for figures in times().values()] == [4, 4, 4]
    assert admissions().keys() == {"1", "5", "20", "50"}


def test_another_run_draws_other_charts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = latency(), cpu(), writes()
    page = (tables.DOCS / "benchmarks.md").read_text(encoding="utf-8")
    page = page.replace(" ms |", "0 ms |").replace(" us |", "0 us |").replace("| 1.97 |", "| 1.47 |")
    (tmp_path / "benchmarks.md").write_text(page, encoding="utf-8")
    monkeypatch.setattr(tables, "DOCS", tmp_path)
    assert all(new != old for new, old in zip((latency(), cpu(), writes()), before, strict=True))


def test_a_table_that_is_gone_is_an_error() -> None:
    with pytest.raises(LookupError, match="no table nothing"):
        tables.rows("nothing")


def test_the_loop_creates_updates_finds_drift_and_ends_with_no_changes() -> None:
    assert [turn.plan for turn in turns()] == ["create", "update", "update, drift", "no changes"]
    assert [turn.live for turn in turns()] == [None, 100, 500, 200]


def test_the_bucket_of_the_picture_admits_what_it_has_and_never_exceeds_its_burst() -> None:
    outcomes = [(call.cost <= call.before, call.admitted) for call in calls()]
    assert {*outcomes} == {(True, True), (False, False)}
    assert max(tokens for _, tokens in levels()) == LIMIT.burst
    assert min(tokens for _, tokens in levels()) >= 0


def test_a_split_of_the_picture_keeps_the_sums() -> None:
    assert {tuple(map(sum, zip(*stage, strict=True))) for stage in shards()} == {(72, 100)}


def test_the_tables_of_the_page_on_redis_are_what_just_pictures_writes() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert filled(page) == page


def test_the_cost_table_has_one_two_and_four_writes() -> None:
    units = [1, 2, 4]
    prices = [f"| {unit:g} | {unit * DOLLARS_PER_MILLION_WRITE_UNITS:.3f} |" for unit in units]
    assert all(price in row for price, row in zip(prices, table().splitlines()[2:], strict=True))


def test_a_screen_is_what_the_controls_leave() -> None:
    written = "a\r\nold\n\x1b[2mx\x1b[0m\n\x1b[2A\r\x1b[2K\x1b[32mnew\x1b[0m line\n\r\x1b[2K\x1b[?25hend\n"
    assert screen(written) == [
        [Piece(0, "a", "")],
        [Piece(0, "new", "32"), Piece(3, " line", "")],
        [Piece(0, "end", "")],
        [],
    ]


def test_a_drawn_screen_has_its_words_at_their_columns() -> None:
    first = drawn([[Piece(0, "a<b", "32"), Piece(3, "  c", "")]], "light")
    assert 'class="c32" x="16"' in first
    assert "a&lt;b" in first
    assert f'x="{16 + 5 * 8.4:g}"' in first


def test_the_readme_is_short_and_its_first_recipe_is_the_one_that_ci_runs() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) < 160  # a sentence each
    first = next(line for line in lines if line.startswith("pip install uv && uv run just "))
    assert first == "pip install uv && uv run just test-all"  # .ci/run takes the first


def test_the_readme_installs_only_what_the_demo_needs() -> None:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    (package,) = re.findall(r"^pip install uv && uv run --package (\S+) zae-limiter demo$", page, re.MULTILINE)
    export = ["uv", "export", "--frozen", "--offline", "--no-header", "--no-hashes", "--no-annotate"]
    done = subprocess.run([*export, "--package", package], cwd=ROOT, capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()) <= 28  # 148 without --package


@pytest.mark.parametrize("theme", THEMES)
def test_the_readme_shows_a_demo_that_was_recorded(theme: str) -> None:
    path = f"docs/assets/demo-{theme}.svg"
    assert path in (ROOT / "README.md").read_text(encoding="utf-8")
    assert "admitted" in (ROOT / path).read_text(encoding="utf-8")
