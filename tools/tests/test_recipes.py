"""What the recipes ask of uv and of pytest; nothing is installed and no test runs."""

import re
from pathlib import Path

import pytest
from support.tools.recipes import JUSTFILE, Just

from shell import PACKAGES

FIRST = "zae_limiter_core-0-py3-none-any.whl"


@pytest.fixture
def just(tmp_path: Path) -> Just:
    return Just(tmp_path)


def test_the_justfile_contains_no_program() -> None:
    assert "#!" not in JUSTFILE
    recipes = re.findall(r"^(?:[a-z-]+)(?: [^:\n]*)?:(?!=)(?:.*)((?:\n .*)*)", JUSTFILE, re.MULTILINE)
    assert len(recipes) > 40
    assert not [body for body in recipes if re.search(r"\b(then|do|trap|case|for)\b .*[;\\]", body)]


@pytest.mark.parametrize(("words", "expected"), [([], PACKAGES), (["core"], ["core"]), (["core cli"], ["core", "cli"])])
def test_packages_are_tested_alone(words: list[str], expected: list[str], just: Just) -> None:
    played = just.play("test", *words)
    assert played.code == 0
    assert [line.split()[-1] for line in played.sessions()] == [
        f"packages/zae-limiter-{name}/tests" for name in expected
    ]
    assert all(
        "run --isolated --package zae-limiter-" in line and "--all-extras --no-dev" in line
        for line in played.sessions()
    )


def test_options_reach_each_group_of_the_unit_tests_as_they_were_typed(just: Just) -> None:
    played = just.play("test-fast", "-k", "one or two")
    assert [line.endswith(" -k one or two") for line in played.sessions()] == [True] * 4
    assert "packages/zae-limiter-core/tests/unit packages/zae-limiter-manifest/tests/unit" in played.sessions()[0]


def test_the_first_group_that_fails_ends_the_unit_tests(just: Just) -> None:
    assert len(just.play("test-fast", ends_with=2).sessions()) == 1


def test_all_pythons_run_everything_and_every_failure_is_named_at_the_end(just: Just) -> None:
    played = just.play("test-pythons", ends_with=1, pythons="3.12 /py/3.12\n3.13 /py/3.13")
    assert len(played.sessions()) == 2 * len(PACKAGES)
    assert "failed: core on 3.12, manifest on 3.12" in played.errors
    assert played.code != 0


def test_dependencies_are_resolved_for_each_package_and_core_with_its_extras(just: Just) -> None:
    played = just.play("test-dependencies", "lowest")
    installed = [line for line in played.asked if line.startswith("pip install")]
    assert [re.findall(r"--editable packages/zae-limiter-(\S+)", line) for line in installed] == [
        *([name] for name in PACKAGES),
        ["core[aioboto3,speed]"],
    ]
    assert all("--resolution lowest-direct" in line for line in installed)
    (session,) = just.play("test-dependencies", "newest", "core", "-m", "not slow").sessions()
    assert session.endswith("-n auto packages/zae-limiter-core/tests -m not slow")


@pytest.mark.parametrize("recipe", ["test-dependencies", "test-frameworks", "test-llm"])
def test_a_wrong_word_is_refused_with_the_right_ones(recipe: str, just: Just) -> None:
    played = just.play(recipe, "middle")
    assert played.code == 2
    assert f"just {recipe} " in played.errors
    assert played.sessions() == []


def test_clients_of_language_models_are_installed_outside_the_workspace(just: Just) -> None:
    played = just.play("test-llm", "oldest")
    (line,) = [line for line in played.asked if line.startswith("pip install")]
    assert f"--editable {just.folder}/packages/zae-limiter-core[langchain,litellm]" in line
    assert "openai 2" in played.printed
    assert "other 1" not in played.printed


def test_a_wheel_is_tested_with_the_siblings_that_were_built_beside_it(just: Just) -> None:
    played = just.play("wheels-test")
    installed = [line for line in played.asked if line.startswith("pip install")]
    assert played.code == 0
    assert len(installed) == len(played.sessions()) == len(PACKAGES)
    assert all("--constraints " in line for line in installed)
    assert f"{just.folder}/wheelhouse/{FIRST}" in installed[0]
    assert all(" --once " in line for line in just.play("wheels-test", "--once").sessions())


def test_the_wheel_of_a_release_takes_its_siblings_from_the_index(just: Just) -> None:
    (line,) = [line for line in just.play("dist-test").asked if line.startswith("pip install")]
    assert f" dist/{FIRST} --group packages/zae-limiter-core/pyproject.toml:test" in line
    assert "--constraints" not in line


def test_a_long_run_ends_with_the_times_of_its_parts_and_the_skips_of_all_sessions(just: Just) -> None:
    played = just.play("test-all")
    assert played.code == 0
    parts = re.findall(r"^(.+): \d+ s, \d+ s of CPU$", played.printed, re.MULTILINE)
    assert parts == ["beside", "tests-beside"]
    assert re.search(r"^\d+ tests ran, 0 were skipped:$", played.printed, re.MULTILINE)


def test_a_long_run_stops_at_the_part_that_fails_and_says_what_was_skipped(just: Just) -> None:
    played = just.play("test-all", ends_with=1)
    assert played.code != 0
    assert not re.search(r"^.+: \d+ s, ", played.printed, re.MULTILINE)
    assert "tests ran, 0 were skipped:" in played.printed


def test_parts_of_everything_run_as_they_are_named(just: Just) -> None:
    two = ["examples", "integration --transport sdk"]
    played = just.play("everything", *two)
    assert re.findall(r"^(.+): \d+ s, \d+ s of CPU$", played.printed, re.MULTILINE) == two
    assert any(" tests-integration " in line and line.endswith(" --transport sdk") for line in played.asked)
