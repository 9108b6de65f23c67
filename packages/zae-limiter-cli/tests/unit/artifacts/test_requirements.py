from pathlib import Path

import pytest

from zae_limiter_cli.artifacts.requirements import needed_distributions
from zae_limiter_cli.errors import CommandError


def install(site: Path, name: str, *requires: str) -> None:
    information = site / f"{name.replace('-', '_')}-1.0.dist-info"
    information.mkdir()
    lines = [f"Requires-Dist: {requirement}" for requirement in requires]
    (information / "METADATA").write_text("\n".join(["Metadata-Version: 2.1", f"Name: {name}", "Version: 1.0", *lines]))


def needed(site: Path, root: str = "app") -> list[str]:
    return [found.name for found in needed_distributions(root, [str(site)])]


def test_requirements_are_followed_to_the_end_once_each(tmp_path: Path) -> None:
    install(tmp_path, "app", "one", "two>=1,<2")
    install(tmp_path, "one", "two", "app")
    install(tmp_path, "two", "Three_More")
    install(tmp_path, "three-more")
    assert needed(tmp_path) == ["app", "one", "three-more", "two"]


@pytest.mark.parametrize("name", ["boto3", "botocore", "aioboto3", "aiohttp"])
def test_what_the_runtime_has_or_nobody_imports_is_left_out_with_all_it_needs(name: str, tmp_path: Path) -> None:
    install(tmp_path, "app", f"{name}>=1.34")
    install(tmp_path, name, "something-else")
    assert needed(tmp_path) == ["app"]


@pytest.mark.parametrize(
    "marker", ['python_version >= "3.13"', 'sys_platform == "linux"', 'implementation_name == "cpython"']
)
def test_what_the_lambdas_python_needs_is_in_whatever_runs_here(marker: str, tmp_path: Path) -> None:
    install(tmp_path, "app", f"other; {marker}")
    install(tmp_path, "other")
    assert needed(tmp_path) == ["app", "other"]


@pytest.mark.parametrize(
    "marker", ['python_version < "3.13"', 'sys_platform == "win32" or os_name == "nt"', 'extra == "speedups"']
)
def test_what_only_other_pythons_need_is_out(marker: str, tmp_path: Path) -> None:
    install(tmp_path, "app", f"other; {marker}")
    assert needed(tmp_path) == ["app"]


def test_an_extra_brings_its_requirements_also_where_the_plain_one_was_seen_before(tmp_path: Path) -> None:
    install(tmp_path, "app", "one[fast]", "one")
    install(tmp_path, "one", 'quick; extra == "fast"')
    install(tmp_path, "quick")
    assert needed(tmp_path) == ["app", "one", "quick"]


def test_what_is_not_installed_is_named_with_the_way_out(tmp_path: Path) -> None:
    install(tmp_path, "app", "other")
    with pytest.raises(CommandError, match=r"the code of app .* needs other, which is not installed: `pip install"):
        needed(tmp_path)
