from importlib.metadata import distribution, entry_points
from importlib.resources import files

import pytest


def test_it_is_installed_with_its_types_and_licence() -> None:
    installed = distribution("zae-limiter-provisioner")
    assert installed.metadata["License-Expression"] == "MIT"
    assert files("zae_limiter_provisioner").joinpath("py.typed").is_file()


@pytest.mark.parametrize("name", ["provisioner", "planner"])
def test_its_lambdas_are_found_by_their_entry_points(name: str) -> None:
    (entry,) = entry_points(group="zae_limiter.lambdas", name=name)
    assert callable(entry.load())
