from pathlib import Path

import pytest

from variants import SOURCE, main

FOLDER = Path("packages/zae-limiter-core/src/zae_limiter")
LEASE = f'''{SOURCE}
"""The async lease."""

from ..wiring import Word
from ..aio.driver import Driver
from .values import Limit


class Lease:
    """Tokens: ``async with`` it. See ``Lease.open``, ``await …build()`` and ``Limit``; a Lease is async."""

    async def __aenter__(self, driver: Driver, word: Word) -> "Lease":
        async with self.lock:  # not ``await Driver``
            log(
                "``await Lease``",
                "Lease needs await",
                f"{{await_}} async {{Lease}}",
                "an async Driver",
            )
            return await self.run([each async for each in driver])
'''
SYNC_LEASE = '''# Generated from aio/lease.py by `just variants`: edit that one.
"""The sync lease."""

from ..sync.driver import SyncDriver
from ..wiring import SyncWord
from .values import Limit


class SyncLease:
    """Tokens: ``with`` it. See ``SyncLease.open``, ``…build()`` and ``Limit``; a Lease is sync."""

    def __enter__(self, driver: SyncDriver, word: SyncWord) -> "SyncLease":
        with self.lock:  # not ``SyncDriver``
            log(
                "``await Lease``",
                "Lease needs await",
                f"{await_} async {Lease}",
                "an async Driver",
            )
            return self.run([each for each in driver])
'''
BY_HAND = {
    "wiring.py": "Word = int\nSyncWord = str\n",
    "aio/driver.py": "class Driver:\n    pass\n",
    "sync/driver.py": "class SyncDriver:\n    pass\n",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A package with one source, in a folder that no list names."""
    folder = tmp_path / FOLDER / "rooms"
    for name, text in {**BY_HAND, "aio/lease.py": LEASE}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    return tmp_path


def test_async_words_and_names_of_twins_change_and_other_strings_do_not(tree: Path) -> None:
    assert main([], tree) == 0
    assert (tree / FOLDER / "rooms/sync/lease.py").read_text("utf-8") == SYNC_LEASE


def test_what_is_written_by_hand_stays(tree: Path) -> None:
    main([], tree)
    assert {name: (tree / FOLDER / "rooms" / name).read_text("utf-8") for name in BY_HAND} == BY_HAND


def test_a_second_run_changes_nothing(tree: Path) -> None:
    main([], tree)
    before = (tree / FOLDER / "rooms/sync/lease.py").stat().st_mtime_ns
    assert main([], tree) == main(["--check"], tree) == 0
    assert (tree / FOLDER / "rooms/sync/lease.py").stat().st_mtime_ns == before


@pytest.mark.parametrize("edited", ["aio/lease.py", "sync/lease.py"])
def test_a_stale_file_is_named_with_the_command_that_writes_it(
    tree: Path, capsys: pytest.CaptureFixture[str], edited: str
) -> None:
    main([], tree)
    with (tree / FOLDER / "rooms" / edited).open("a") as file:
        file.write("\n\nEDITED = True\n")
    assert main(["--check"], tree) == 1
    assert capsys.readouterr().err == (
        f"{FOLDER}/rooms/sync/lease.py is not what its source gives: run `uv run just variants`\n"
    )


def test_a_file_without_its_source_goes(tree: Path) -> None:
    main([], tree)
    (tree / FOLDER / "rooms/aio/lease.py").unlink()
    assert main(["--check"], tree) == 1
    assert main([], tree) == 0
    assert not (tree / FOLDER / "rooms/sync/lease.py").exists()


def test_a_copy_is_its_source_below_another_first_line(tmp_path: Path) -> None:
    source = tmp_path / "packages/manifest/src/manifest/text.py"
    target = "packages/core/src/core/values"
    source.parent.mkdir(parents=True)
    (tmp_path / target).mkdir(parents=True)
    source.write_text(f'# `just variants` copies this module to {target}.\n"""Async Lease."""\n', "utf-8")
    assert main([], tmp_path) == main(["--check"], tmp_path) == 0
    header = "# Generated from manifest/text.py by `just variants`: edit that one.\n"
    assert (tmp_path / target / "text.py").read_text("utf-8") == f'{header}"""Async Lease."""\n'
