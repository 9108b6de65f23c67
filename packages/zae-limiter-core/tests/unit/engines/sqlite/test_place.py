import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zae_limiter import Limit, Repository, SyncRateLimiter, SyncRepository, ValidationError
from zae_limiter.engines.sqlite.place import check_place, make_file, path_of, url_of
from zae_limiter.exceptions import StoreRefusedError
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
    with pytest.raises(StoreRefusedError, match="/dev/null is not a regular file"):
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


def table_of(tmp_path: Path, *lines: str) -> Path:
    """Return mounts as Linux tells them, each line a place and the type of its file system."""
    text = "21 1 0:99 / / rw shared:1 - ext4 /dev/x rw\n"
    for line in lines:
        point, kind = line.rsplit(" ", 1)
        text += f"22 21 0:98 /share {point.replace(' ', chr(92) + '040')} rw shared:2 - {kind} source rw\n"
    (tmp_path / "mountinfo").write_text(text, "utf-8")
    return tmp_path / "mountinfo"


@pytest.mark.parametrize(
    "kind", ["nfs4", "cifs", "9p", "fuse.sshfs", "virtiofs", "fakeowner", "fuse.grpcfuse", "fuse.osxfs", "prl_fs",
             "fuse.vmhgfs-fuse", "fuse.ceph-fuse", "fuse.blobfuse2", "orangefs", "fuse.mfs"]
)  # fmt: skip
def test_a_file_system_of_a_network_or_a_host_is_refused(tmp_path: Path, kind: str) -> None:
    with pytest.raises(NotApplied, match=f"of the kind {kind}"):
        make_file(tmp_path / "limits.db", mounts=table_of(tmp_path, f"{tmp_path} {kind}"))
    assert not (tmp_path / "limits.db").exists()


def test_a_link_into_a_share_is_refused(tmp_path: Path) -> None:
    share, path = tmp_path / "my share", tmp_path / "limits.db"
    share.mkdir()
    path.symlink_to(share / "limits.db")
    with pytest.raises(NotApplied, match="of the kind virtiofs"):
        make_file(path, mounts=table_of(tmp_path, f"{share} virtiofs"))


def test_the_last_and_deepest_mount_tells_the_type(tmp_path: Path) -> None:
    make_file(tmp_path / "limits.db", mounts=table_of(tmp_path, f"{tmp_path} nfs4", f"{tmp_path} ext4"))
    make_file(tmp_path / "limits.db", mounts=table_of(tmp_path, f"{tmp_path.parent} nfs4", f"{tmp_path} ext4"))
    make_file(tmp_path / "limits.db", mounts=table_of(tmp_path, f"{tmp_path}-other nfs4"))
    make_file(tmp_path / "limits.db", mounts=tmp_path / "none")


def test_a_file_that_is_mounted_without_its_folder_is_refused(tmp_path: Path) -> None:
    path, link = tmp_path / "limits.db", tmp_path / "link.db"
    path.touch()
    link.symlink_to(path)
    for each in (path, link):
        with pytest.raises(NotApplied, match=r"is mounted without its folder.*: mount the folder$"):
            make_file(each, mounts=table_of(tmp_path, f"{path} ext4"))


CONTAINER = """
import sys
from zae_limiter import Limit, RateLimitExceeded, SyncRateLimiter, SyncRepository, ZAELimiterError
admitted = 0
try:
    with SyncRateLimiter(SyncRepository.sqlite(sys.argv[1])) as limiter:
        for _ in range(10):
            with limiter.acquire("ann", "api", {"rpd": 1}, limits=[Limit.per_day("rpd", 10)]):
                admitted += 1
except RateLimitExceeded:
    pass
except ZAELimiterError as error:
    print(error)
print(admitted, "admitted")
"""


@pytest.fixture
def containers(tmp_path: Path) -> Callable[[str], str]:
    """Return what a program says that runs where `$1`, a folder, is mounted as a command says."""

    def run(mount: str) -> str:
        script = f'set -e; mount --make-rprivate /; {mount}; exec "$2" -c "$3" "$1/app/limits.db"'
        command = ["unshare", "--mount", "sh", "-c", script, "sh", str(tmp_path), sys.executable, CONTAINER]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout

    if sys.platform != "linux" or shutil.which("unshare") is None:
        pytest.skip("containers are of Linux")
    may = subprocess.run(["unshare", "--mount", "mount", "--make-rprivate", "/"], capture_output=True, check=False)
    if may.returncode:
        pytest.skip("this user may not mount")
    (tmp_path / "app").mkdir()
    (tmp_path / "data").mkdir()
    return run


def test_containers_that_mount_the_file_alone_are_refused(tmp_path: Path, containers: Callable[[str], str]) -> None:
    (tmp_path / "data" / "limits.db").touch()
    (tmp_path / "app" / "limits.db").touch()
    for _ in range(2):
        told = containers('mount -t tmpfs none "$1/app"; touch "$1/app/limits.db";'
                          ' mount --bind "$1/data/limits.db" "$1/app/limits.db"')  # fmt: skip
        assert "mount the folder" in told
        assert told.endswith("0 admitted\n")


@pytest.mark.long
def test_containers_that_mount_the_folder_share_one_limit(containers: Callable[[str], str]) -> None:
    told = [containers('mount --bind "$1/data" "$1/app"') for _ in range(2)]
    assert told == ["10 admitted\n", "0 admitted\n"]


def test_a_file_system_of_an_unknown_kind_is_probed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if sys.platform != "linux":
        pytest.skip("other systems do not tell the kind")
    started: list[object] = []
    real = subprocess.Popen

    def counted(*args: Any, **options: Any) -> Any:
        started.append(args)
        return real(*args, **options)

    monkeypatch.setattr(subprocess, "Popen", counted)
    monkeypatch.setattr("zae_limiter.engines.sqlite.place._probed", set())
    path = tmp_path / "limits.db"
    make_file(path, mounts=table_of(tmp_path, f"{tmp_path} ext4"))
    assert len(started) == 0
    for _ in range(2):
        make_file(path, mounts=table_of(tmp_path, f"{tmp_path} fuse.new"))
        assert len(started) == 1
    assert sorted(each.name for each in tmp_path.iterdir()) == ["limits.db", "mountinfo"]


def test_a_file_system_that_gives_a_lock_twice_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fcntl = pytest.importorskip("fcntl")
    monkeypatch.setattr(fcntl, "lockf", lambda *_: None)  # in this process alone
    with pytest.raises(NotApplied, match="lets two processes have the same lock"):
        check_place(tmp_path / "limits.db", probe=True)
