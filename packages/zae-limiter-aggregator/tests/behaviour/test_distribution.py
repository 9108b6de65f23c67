from importlib.metadata import distribution, entry_points
from importlib.resources import files


def test_it_is_installed_with_its_types_and_licence() -> None:
    installed = distribution("zae-limiter-aggregator")
    assert installed.metadata["License-Expression"] == "MIT"
    assert files("zae_limiter_aggregator").joinpath("py.typed").is_file()


def test_its_lambda_is_found_by_its_entry_point() -> None:
    (entry,) = entry_points(group="zae_limiter.lambdas", name="aggregator")
    assert callable(entry.load())
