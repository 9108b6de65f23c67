from importlib.metadata import distribution
from importlib.resources import files


def test_it_is_installed_with_its_types_and_licence() -> None:
    installed = distribution("zae-limiter-core")
    assert installed.metadata["License-Expression"] == "MIT"
    assert files("zae_limiter").joinpath("py.typed").is_file()
