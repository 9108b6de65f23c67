import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent import TEAM, opened, work
from zae_limiter.exceptions import BudgetEnded

HERE = Path(__file__).parents[1]
ALL = ["owls", "bats", "moths"]
REFUSED = (
    "Not run: the limit usd of this run is spent ($0.20 of $1 left, $0.40 needed). It does not come back by itself: do "
    "not repeat the call, finish with what you have. You may call now: library/fetch."
)


@pytest.fixture(autouse=True)
def in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ZAEL_STORE", raising=False)


async def test_a_run_ends_with_what_its_budget_allowed() -> None:
    said: list[str] = []
    async with opened() as limiter:
        answer = await work(limiter, "run-1", ALL, said.append)
        team = await limiter.available(TEAM, "mcp")
    assert answer == "Owls hunt at night. Bats hear where they fly."
    assert said == [
        "search {'topic': 'owls'}: page-owls",
        "search {'topic': 'bats'}: page-bats",
        f"search {{'topic': 'moths'}}: {REFUSED}",
        "fetch {'page': 'page-owls'}: Owls hunt at night.",
        "fetch {'page': 'page-bats'}: Bats hear where they fly.",
        "left of run-1: 6 calls, $0.18",
    ]
    assert team["usd"] == 5_000_000 - 820_000


async def test_agents_share_the_budget_of_a_run_by_its_name() -> None:
    async with opened() as limiter:
        answers = await asyncio.gather(*(work(limiter, "run-1", [topic], lambda _: None) for topic in ALL))
        assert await limiter.available(TEAM, "mcp") == {"calls": 96, "usd": 5_000_000 - 820_000}
    assert answers.count("I found nothing.") == 1


async def test_another_run_has_a_budget_of_its_own_within_the_teams() -> None:
    async with opened() as limiter:
        answers = [await work(limiter, f"run-{number}", ALL, lambda _: None) for number in range(7)]
    assert answers[5] == "Owls hunt at night. Bats hear where they fly."
    assert answers[6] == "I found nothing."  # five dollars of the team are spent


async def test_a_run_that_has_ended_takes_no_more_calls() -> None:
    async with opened() as limiter:
        await work(limiter, "run-1", ["owls"], lambda _: None)
        await (await limiter.budget("run-1", within=TEAM).open()).end()
        with pytest.raises(BudgetEnded):
            await work(limiter, "run-1", ["bats"])


def test_runs_share_a_file(tmp_path: Path) -> None:
    environment = os.environ | {"ZAEL_STORE": f"sqlite:///{tmp_path / 'agent.db'}"}

    def run(*topics: str) -> list[str]:
        command = [sys.executable, "agent.py", "run-1", *topics]
        done = subprocess.run(command, check=True, cwd=HERE, env=environment, capture_output=True, text=True)
        return done.stdout.splitlines()

    assert run("owls", "bats")[-2:] == [
        "left of run-1: 6 calls, $0.18",
        "Owls hunt at night. Bats hear where they fly.",
    ]
    assert run("moths") == [
        f"search {{'topic': 'moths'}}: {REFUSED.replace('0.20', '0.18')}",
        "left of run-1: 6 calls, $0.18",
        "I found nothing.",
    ]
