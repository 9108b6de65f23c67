from importlib.metadata import distribution
from importlib.resources import files


def test_it_is_installed_with_its_types_and_licence() -> None:
    installed = distribution("zae-limiter-manifest")
    assert installed.metadata["License-Expression"] == "MIT"
    assert files("zae_limiter_manifest").joinpath("py.typed").is_file()
