from importlib.metadata import distribution, entry_points
from importlib.resources import files


def test_it_is_installed_with_its_types_and_licence() -> None:
    installed = distribution("zae-limiter-cli")
    assert installed.metadata["License-Expression"] == "MIT"
    assert files("zae_limiter_cli").joinpath("py.typed").is_file()


def test_its_command_is_installed() -> None:
    (entry,) = entry_points(group="console_scripts", name="zae-limiter")
    assert callable(entry.load())
