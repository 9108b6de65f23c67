"""No recipe is green when it has run nothing: what stands behind it is played, or is asked for nothing."""

import re
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from benchmarks.run import unmeasured
from support.tools.recipes import JUSTFILE, ROOT, Just

import pythons
from check_siblings import main as check_siblings
from fuzz.__main__ import main as fuzz
from fuzz.__main__ import unfed
from fuzz.campaign import Findings
from lifecycle.__main__ import main as lifecycle
from processes.__main__ import main as processes
from processes.__main__ import mutants as mutants_of_processes
from proofs import problem_of
from simulation.__main__ import main as simulation
from simulation.__main__ import mutants as mutants_of_histories
from skips import FILE_VARIABLE

RECIPE = re.compile(r"^([a-z-]+)(?: [^:\n]*)?:(?!=)(.*(?:\n(?: .*)?)*)", re.MULTILINE)
BODIES = dict(RECIPE.findall(JUSTFILE))
ARGUMENTS = {
    "test-dependencies": ["newest"],
    "test-frameworks": ["oldest"],
    "test-llm": ["newest"],
    "everything": ["examples", "integration"],
}
WITH_PYTEST = [
    name
    for name, body in BODIES.items()
    if re.search(r"pytest|just integration|tools/(sessions|environments|parts|branches)\.py", body)
]


@pytest.fixture
def just(tmp_path: Path) -> Just:
    return Just(tmp_path)


def test_the_recipes_that_run_tests_are_found() -> None:
    assert {"check", "test", "test-fast", "integration-localstack", "wheels-test", "dist-test", "test-all"} <= set(
        WITH_PYTEST
    )


@pytest.mark.long(keep=8)
@pytest.mark.parametrize("recipe", WITH_PYTEST)
def test_a_recipe_whose_sessions_find_no_test_fails(recipe: str, just: Just) -> None:
    words = [recipe, *ARGUMENTS.get(recipe, [])]
    assert just.play(*words).code == 0
    assert just.play(*words, ends_with=pytest.ExitCode.NO_TESTS_COLLECTED).code != 0


def test_one_group_of_the_unit_tests_may_have_none_and_not_all(just: Just) -> None:
    assert just.play("test-fast", "-k", "nosuch", ends_with=5).code == 5
    assert just.play("test-fast", "-k", "some", ends_with=1).code == 1


def test_a_machine_without_a_python_fails(just: Just) -> None:
    assert just.play("test-pythons").code == 0
    assert just.play("test-pythons", pythons="").code != 0


def test_an_example_that_is_not_there_or_the_lack_of_any_is_a_failure(tmp_path: Path, just: Just) -> None:
    assert just.play("examples", "nosuch").code != 0
    shutil.rmtree(tmp_path / "examples")
    (tmp_path / "examples").mkdir()
    assert just.play("examples").code != 0


def test_a_scan_that_has_checked_nothing_fails(just: Just) -> None:
    assert just.play("checkov").code == 0
    assert just.play("checkov", checkov="").code != 0
    assert just.play("checkov", checkov="Passed checks: 0, Failed checks: 0").code != 0


def test_the_spelling_passes_over_what_recipes_leave_behind() -> None:
    skipped = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["codespell"]["skip"].split(
        ","
    )
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8")
    assert {"site", "dist", "evidence", "wheelhouse"} == set(re.findall(r"^/(\w+)/$", ignored, re.MULTILINE))
    assert {"site", "dist", "evidence", "wheelhouse"} <= set(skipped)


@pytest.mark.parametrize("words", [["test", ""], ["dist", ""], ["test-dependencies", "lowest", " "]])
def test_a_recipe_for_packages_fails_where_none_is_named(words: list[str], just: Just) -> None:
    assert just.play(*words).code != 0


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (simulation, ["--seeds", "0"]),
        (processes, ["--seeds", "0"]),
        (lifecycle, ["--times", "0"]),
        (fuzz, ["--minutes", "0"]),
        (fuzz, ["--minutes", "nan"]),
        (fuzz, ["--only", "nosuch"]),
    ],
)
def test_a_program_that_is_asked_for_nothing_fails(program: Callable[[list[str]], int], words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        program(words)
    assert ended.value.code == 2


def test_a_search_without_mutants_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert mutants_of_histories([]) == 1
    assert mutants_of_processes([], 1) == 1
    assert capsys.readouterr().out == "0 mutants, 0 of them alive\n" * 2


def test_a_surface_that_is_named_or_here_and_gets_no_input_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv(FILE_VARIABLE, raising=False)
    fed, unopened, idle = Findings(), Findings(missing="not here: no npm"), Findings()
    fed.tally.accepted = 1
    assert unfed({"cli": fed, "library-dynoxide": unopened}, []) == []
    assert unfed({"cli": fed, "library-dynoxide": unopened}, ["library-dynoxide"]) == ["library-dynoxide: got no input"]
    assert unfed({"cli": fed, "values": idle}, []) == ["values: got no input"]
    assert "nothing ran" in unfed({"library-dynoxide": unopened}, [])
    monkeypatch.setenv("CI", "true")
    assert len(unfed({"cli": fed, "library-dynoxide": unopened}, [])) == 1


def test_proofs_of_which_none_ran_are_none() -> None:
    core, cli = Path("core"), Path("cli")
    assert problem_of({core: 0, cli: 5}) == ""
    assert problem_of({core: 5, cli: 5}) == "no test ran"
    assert problem_of({}) == "no test ran"
    assert problem_of({core: 1, cli: 0}) == "failed: core"


def test_a_benchmark_that_is_named_and_cannot_be_measured_is_a_failure() -> None:
    rows = ["a row"]  # what a row is does not matter here
    assert unmeasured([], {"costs": rows, "peers_redis": []}) == []  # type: ignore[dict-item]
    assert unmeasured(["peers_redis"], {"costs": rows, "peers_redis": []}) == ["peers_redis"]  # type: ignore[dict-item]
    assert unmeasured([], {"costs": [], "peers_redis": []}) == ["costs", "peers_redis"]


def test_no_python_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {"PATH": "", "PYENV_ROOT": str(tmp_path), "UV": "/nonexistent"}.items():
        monkeypatch.setenv(name, value)
    assert pythons.main() == 1
    assert "error: none of them is here" in capsys.readouterr().err


def test_distributions_that_are_not_there_bound_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("check_siblings.ROOT", tmp_path)
    assert check_siblings([]) == 1
    assert "no distribution is here" in capsys.readouterr().out
