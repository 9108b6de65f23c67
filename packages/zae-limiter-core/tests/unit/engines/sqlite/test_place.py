from pathlib import Path

import pytest

from zae_limiter import Limit, Repository, StoreRefusedError, SyncRateLimiter, SyncRepository, ValidationError
from zae_limiter.engines.sqlite.place import make_file, mount_type_of, path_of, url_of
from zae_limiter.operations.errors import NotApplied
from zae_limiter.settings import BuilderBase, Options


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///limits.db", "limits.db"),
        ("sqlite:///data/limits.db", "data/limits.db"),
        ("sqlite:////var/lib/limits.db", "/var/lib/limits.db"),
        ("sqlite:///a%20b%3F.db", "a b?.db"),
    ],
)
def test_a_url_names_a_path_as_in_sqlalchemy(url: str, path: str) -> None:
    assert path_of(url) == Path(path)
    assert path_of(url_of(path)) == Path(path)


@pytest.mark.parametrize(
    "url",
    ["limits.db", "sqlite://limits.db", "sqlite://", "sqlite:///", "sqlite:///:memory:", "sqlite:///a.db?x=1",
     "sqlite:///a/", "redis://host", "", 5, "sqlite:///a%00b"],
)  # fmt: skip
def test_any_other_url_is_refused_by_the_name_of_the_option(url: object) -> None:
    with pytest.raises(ValidationError) as caught:
        Options(store=url)  # type: ignore[arg-type]
    assert caught.value.field == "store"


def test_the_environment_names_the_store_unless_an_option_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZAEL_STORE", "sqlite:////data/a.db")
    assert Options().file == Path("/data/a.db")
    assert Options(store="sqlite:///b.db").file == Path("b.db")
    monkeypatch.setenv("ZAEL_STORE", "redis://host")
    with pytest.raises(ValidationError) as caught:
        Options()
    assert caught.value.field == "ZAEL_STORE"
    monkeypatch.setenv("ZAEL_STORE", "")
    assert Options().file is None


def test_everything_that_opens_a_repository_takes_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = url_of(tmp_path / "limits.db")
    with SyncRepository.open("tenant", store=url) as repository:
        namespace_id = repository.namespace_id
    with SyncRepository.builder().store(url).namespace("tenant").build() as repository:
        assert repository.namespace_id == namespace_id
    monkeypatch.setenv("ZAEL_STORE", url)
    with SyncRepository.open("tenant") as repository:
        assert repository.namespace_id == namespace_id
    assert BuilderBase().store(url)._options.file == tmp_path / "limits.db"


async def test_and_so_does_the_other_variant(tmp_path: Path) -> None:
    path = tmp_path / "limits.db"
    async with await Repository.sqlite(path) as repository:
        namespace_id = repository.namespace_id
    async with await Repository.open(store=url_of(path)) as repository:
        assert repository.namespace_id == namespace_id


def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreRefusedError, match="cannot be used: File name too long"):
        SyncRepository.sqlite(tmp_path / ("x" * 300 + ".db"))
    with pytest.raises(ValidationError, match="in characters that UTF-8 has"):
        SyncRepository.sqlite("\udce4.db")


def test_what_is_no_regular_file_is_refused() -> None:
    with pytest.raises(StoreRefusedError, match="/dev/null is no file that keeps"):
        SyncRepository.sqlite("/dev/null")


def test_a_file_of_two_names_is_refused(tmp_path: Path) -> None:
    path, other = tmp_path / "limits.db", tmp_path / "other.db"
    SyncRepository.sqlite(path).close()
    other.hardlink_to(path)
    with pytest.raises(StoreRefusedError, match=r"has 2 names \(hard links\)"):
        SyncRepository.sqlite(other)


def test_a_file_that_turns_read_only_is_a_mistake_and_no_outage(tmp_path: Path) -> None:
    with SyncRateLimiter(SyncRepository.sqlite(tmp_path / "limits.db", on_unavailable="allow")) as limiter:
        limiter.set_system_defaults([Limit.per_minute("rpm", 1)])
        limiter.repository._store._file._connection.execute("PRAGMA query_only = ON")  # type: ignore[attr-defined]
        with pytest.raises(StoreRefusedError, match="it is read-only"), limiter.acquire("ann", "api", {"rpm": 1}):
            pytest.fail("nothing was counted")


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "9p", "fuse.sshfs"])
def test_a_file_system_of_a_network_is_refused(tmp_path: Path, kind: str) -> None:
    with pytest.raises(NotApplied, match=f"of the kind {kind}"):
        make_file(tmp_path / "limits.db", mount_type=lambda _: kind)
    assert not (tmp_path / "limits.db").exists()


def test_the_type_of_a_mount_is_that_of_the_device(tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    device = tmp_path.stat().st_dev
    number = f"{device >> 8 & 0xFFF}:{device & 0xFF}"
    mounts.write_text(
        f"21 1 0:99 / /other rw - tmpfs tmpfs rw\n22 1 {number} / {tmp_path} rw shared:1 - nfs4 host:/x rw\n", "utf-8"
    )
    assert mount_type_of(tmp_path, mounts=mounts) == "nfs4"
    mounts.write_text("21 1 0:99 / / rw - tmpfs tmpfs rw\n")
    assert mount_type_of(tmp_path, mounts=mounts) is None
    assert mount_type_of(tmp_path, mounts=tmp_path / "none") is None
