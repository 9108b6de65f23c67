"""`why` of calls that a draw refused: it finds the bucket, says what is left, and proposes what helps."""

import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from support.cli.by_hand import opened
from zae_limiter import Draw, RateLimitExceeded, SyncRateLimiter, SyncRepository
from zae_limiter_cli.main import main


class Service:
    """A service that draws money on a team for calls of `a1`, over a file, and the CLI on that file."""

    def __init__(self, url: str, *, is_rolling: bool = False) -> None:
        self.url, self.is_rolling = url, is_rolling

    def call(self, usd: str, times: int = 1, resource: str = "gpt-4") -> bool:
        """Call with a draw; return whether the last call was admitted."""
        admitted = False
        with SyncRepository.open(store=self.url) as repository, SyncRateLimiter(repository) as limiter:
            for _ in range(times):
                draws = [Draw("team-a", "budget", {"usd": int(float(usd) * 1_000_000)})]
                try:
                    with limiter.acquire("a1", resource, {"rpm": 1, "tpm": 50}, draws=draws):
                        admitted = True
                except RateLimitExceeded:
                    admitted = False
        return admitted

    def run(self, *args: str) -> Result:
        return CliRunner().invoke(main, [*args, "--store", self.url], env={"COLUMNS": "200"})

    def why(self, *args: str) -> str:
        done = self.run("why", *args)
        assert done.exit_code == 0, done.output
        return done.stdout

    def paste(self, command: str) -> str:
        done = CliRunner().invoke(main, shlex.split(command)[1:], env={"COLUMNS": "200"})
        assert done.exit_code == 0, done.output
        return done.stdout


@pytest.fixture(params=["$1/month", "$1/day"])
def service(tmp_path: Path, request: pytest.FixtureRequest) -> Service:
    """A team with $0.15 left of $1, which refused three calls of $0.20."""
    url = f"sqlite:///{tmp_path / 'limits.db'}"
    with SyncRepository.open(store=url) as repository:
        repository.set_resource_defaults("gpt-4", ["rpm: 100/min", "tpm: 10000/min"])
        repository.set_limits("team-a", [f"usd: {request.param}"], "budget")
    service = Service(url, is_rolling=request.param == "$1/day")
    assert service.call("0.85")
    assert not service.call("0.20", times=3)
    return service


def test_the_draw_that_refused_decides_by_what_it_has_left(service: Service) -> None:
    lines = service.why("a1", "-r", "gpt-4").splitlines()
    assert lines[0].endswith(": refused by a draw on team-a/usd on budget, if it draws more than $0.15.")
    assert lines[1] == "team-a/usd refused 3 calls; how much they draw there is not recorded."
    assert lines[2] == "A call that draws $0.15 or less passes."
    assert lines[3].startswith("It has all $1 again in ")
    assert not any("passes now" in line for line in lines)
    assert "team-a on budget (draw): its own limits on budget; 1 shard" in lines
    told = opened(service.why("a1", "-r", "gpt-4", "-o", "json"))
    assert (told["passes"], told["binding"]) == (None, None)
    drawn = {**told["drawn"]}
    assert drawn.pop("full_seconds") > 0
    assert drawn.pop("available") == pytest.approx(150_000, abs=99)
    assert drawn == {"entity_id": "team-a", "limit_name": "usd", "resource": "budget", "refused": 3}


def test_the_list_of_all_resources_says_so_too(service: Service) -> None:
    told = service.why("a1")
    assert "refused by a draw on team-a/usd on budget, if it draws more than $0.15" in told
    assert "passes" not in told
    (row,) = opened(service.why("a1", "-o", "json"))["resources"]
    assert (row["passes"], row["drawn"]["resource"]) == (None, "budget")


def test_its_steps_let_the_call_in_and_its_question_says_that_it_was_refused(service: Service) -> None:
    found = [step["command"] for step in opened(service.why("a1", "-r", "gpt-4", "-o", "json"))["next"]]
    assert not any("bucket credit" in each for each in found)
    (ask,) = [each for each in found if "--draw" in each]
    assert "--draw 'team-a on budget usd:$0.16'" in ask
    assert "refused by team-a/usd on budget: " in service.paste(ask)
    assert any(each.startswith("zae-limiter lift team-a -r budget --by 2 ") for each in found)
    service.paste(found[0].replace("bucket reset", "bucket reset --yes"))
    assert service.call("0.20")


def test_a_draw_that_has_nothing_left_refuses_every_call(service: Service) -> None:
    assert service.call("0.15")
    if service.is_rolling:
        told = service.why("a1", "-r", "gpt-4")
        assert "if it draws more than $0" in told or "which has $0 left" in told  # a millionth comes in 86 ms
        return
    told = service.why("a1", "-r", "gpt-4")
    assert "refused by a draw on team-a/usd on budget, which has $0 left." in told
    assert "or less passes" not in told
    found = opened(service.why("a1", "-r", "gpt-4", "-o", "json"))
    assert (found["passes"], found["binding"]["entity_id"]) == (False, "team-a")
    assert "which has $0 left" in service.why("a1")


@pytest.mark.parametrize("amounts", [[], ["-c", "tpm:5"]])
def test_a_draw_without_amounts_is_of_what_its_bucket_limits(service: Service, amounts: list[str]) -> None:
    told = service.why("a1", "-r", "gpt-4", *amounts, "--draw", "team-a on budget")
    assert "refused by a draw on team-a/usd on budget, if it draws more than $0.15." in told
    given = service.why("a1", "-r", "gpt-4", "--draw", "team-a on budget usd:$0.10")
    assert "passes now" in given


def test_a_draw_of_the_same_entity_is_found(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'own.db'}"
    with SyncRepository.open(store=url) as repository, SyncRateLimiter(repository) as limiter:
        repository.set_resource_defaults("gpt-4", ["rpm: 100/min"])
        repository.set_resource_defaults("budget", ["credits: 10 total"])
        for amount, admitted in ((8, True), (5, False)):
            try:
                with limiter.acquire("a1", "gpt-4", {"rpm": 1}, draws=[Draw("a1", "budget", {"credits": amount})]):
                    assert admitted
            except RateLimitExceeded:
                assert not admitted
    told = Service(url).why("a1", "-r", "gpt-4")
    assert "refused by a draw on a1/credits on budget, if it draws more than 2." in told
    assert "No more come by themselves: credit the bucket." in told
    assert "zae-limiter lift a1 -r budget --by 2" in told


def test_a_limit_of_the_path_that_has_gone_refuses_nothing(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'gone.db'}"
    with SyncRepository.open(store=url) as repository, SyncRateLimiter(repository) as limiter:
        repository.create_entity("acme")
        repository.create_entity("a1", parent_id="acme", cascade=True)
        repository.set_resource_defaults("gpt-4", ["rpm: 100/min"])
        repository.set_limits("acme", ["rpm: 100/min", "rpd: 1/day"], "gpt-4")
        with limiter.acquire("a1", "gpt-4", {"rpm": 1, "rpd": 1}):
            pass
        with pytest.raises(RateLimitExceeded), limiter.acquire("a1", "gpt-4", {"rpm": 1, "rpd": 1}):
            pass
        repository.set_limits("acme", ["rpm: 100/min"], "gpt-4")
    assert "passes now" in Service(url).why("a1", "-r", "gpt-4")


def test_a_parent_that_is_not_asked_is_named_as_one(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'parent.db'}"
    with SyncRepository.open(store=url) as repository, SyncRateLimiter(repository) as limiter:
        repository.create_entity("acme")
        repository.create_entity("a1", parent_id="acme")
        repository.set_resource_defaults("gpt-4", ["rpm: 100/min"])
        repository.set_limits("acme", ["rpm: 1/day"], "gpt-4")
        with limiter.acquire("a1", "gpt-4", {"rpm": 1}, cascade=True):
            pass
        with pytest.raises(RateLimitExceeded), limiter.acquire("a1", "gpt-4", {"rpm": 1}, cascade=True):
            pass
    told = Service(url).why("a1", "-r", "gpt-4")
    assert "refused by a parent on acme/rpm on gpt-4, which has 0 left." in told
    assert "zae-limiter why a1 -r gpt-4 --cascade" in told
