import pytest
from click.testing import CliRunner

from zae_limiter_cli.local import up
from zae_limiter_cli.main import main


@pytest.mark.parametrize("more", [(), ("--detach",)], ids=["", "detached"])
def test_up_without_its_extra_names_the_command(more: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(up, "find_spec", lambda name: None if name == "moto" else object())
    monkeypatch.setattr(up, "requires", lambda _: ["click>=8", "moto[server]>=5; extra == 'local'", "x; extra == 'y'"])
    done = CliRunner().invoke(main, ["local", "up", *more])
    told = "`local up` needs the extra `local`, of which moto cannot be found: pip install 'moto[server]>=5'"
    assert (done.exit_code, done.output) == (1, f"Error: {told}\n")
