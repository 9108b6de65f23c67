import re
import stat
from pathlib import Path

from zae_limiter_cli.local.credentials import Credentials, kept_id


def test_each_key_is_another_one_and_emulators_take_it() -> None:
    keys = [Credentials.random() for _ in range(50)]
    assert len({key.access_key_id for key in keys} | {key.secret_access_key for key in keys}) == 100
    assert all(re.fullmatch(r"LOCAL[A-Z2-7]{26}", key.access_key_id) for key in keys)


def test_a_secret_is_not_in_what_is_printed_of_a_key() -> None:
    assert "secret-of-it" not in repr(Credentials("KEY", "secret-of-it"))


def test_a_kept_id_stays_the_same_and_nobody_else_can_read_it(tmp_path: Path) -> None:
    file = tmp_path / "key"
    first = kept_id(file)
    assert kept_id(file) == first
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert kept_id(tmp_path / "other") != first
