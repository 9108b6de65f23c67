"""What lives here: the page on costs has today's prices, and its script the arithmetic of website.cost.
What never does: what a call writes (website.redis).
"""

import html
import json
import random
import re
import shutil
import subprocess
from dataclasses import asdict
from pathlib import Path

import pytest

from website.cost import PAGE, PRICES, ROWS, SCRIPT, Load, calculator, filled, month

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def loads() -> list[Load]:
    """The examples of the page, the edges, and fifty more."""
    draw = random.Random(17)
    drawn = [
        Load(
            calls=draw.choice([0, 0.01, 3, 250.5, 40_000]),
            writes=draw.choice([1, 2, 4]),
            together=draw.choice([0, 1, 7.5]),
            processes=draw.choice([0, 1, 300]),
            buckets=draw.choice([0, 1, 90_000]),
            window=draw.choice([0, 2, 300]),
            aggregator=draw.random() < 0.7,
            gigabytes=draw.choice([0, 0.3, 5000]),
            backups=draw.random() < 0.5,
            alarms=draw.random() < 0.5,
        )
        for _ in range(50)
    ]
    return [*(load for _, load in ROWS), *drawn]


def test_the_page_has_todays_prices_and_table() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert filled(page) == page


def test_the_parts_of_a_month_are_its_total_and_nothing_costs_nothing() -> None:
    for load in loads():
        *parts, total = month(load).values()
        assert total == pytest.approx(sum(parts))
        assert min(parts) >= 0
    assert month(Load(calls=0, aggregator=False, gigabytes=0, alarms=False))["total"] == 0


def test_a_million_acquires_cost_what_their_writes_cost() -> None:
    load = Load(calls=1e6 / PRICES["seconds"], writes=2)
    assert month(load)["decisions"] == pytest.approx(2e6 * PRICES["write"])


def test_the_script_and_python_agree() -> None:
    if shutil.which("node") is None:
        pytest.skip("there is no Node.js: apt-get install nodejs npm")
    given = json.dumps([[asdict(load) for load in loads()], PRICES])
    program = f"const {{ month }} = require({json.dumps(str(SCRIPT))});const [loads, prices] = {given};"
    program += "console.log(JSON.stringify(loads.map(load => month(load, prices))))"
    done = subprocess.run(["node", "-e", program], check=True, capture_output=True, text=True)
    for load, found in zip(loads(), json.loads(done.stdout), strict=True):
        assert list(found) == list(month(load))
        assert found == pytest.approx(month(load), rel=1e-12)


@pytest.mark.slow
def test_the_calculator_shows_what_python_computes(tmp_path: Path) -> None:
    if CHROMIUM is None:
        pytest.skip("there is no Chromium: apt-get install chromium")
    page = tmp_path / "page.html"
    page.write_text(f'<!doctype html>{calculator()}<script src="{SCRIPT.as_uri()}"></script>', encoding="utf-8")
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    done = subprocess.run([*command, "--dump-dom", page.as_uri()], check=True, capture_output=True, text=True)
    shown = [html.unescape(each) for each in re.findall(r"<dd>(.*?)</dd>", done.stdout)]
    load = Load(calls=100)
    expected = [*month(load).values(), month(load)["total"] / (100 * PRICES["seconds"]) * 1e6]
    assert shown == [f"${each:,.2f}" for each in expected]
