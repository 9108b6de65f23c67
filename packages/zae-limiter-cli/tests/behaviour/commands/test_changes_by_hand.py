"""What every `set-*` says of a change: old and new values, a limit that goes, and a manifest that manages the place."""

from dataclasses import replace

import pytest
from click.testing import CliRunner

from support.cli.by_hand import document, refused, run
from support.cli.tables import Table
from zae_limiter import Limit
from zae_limiter.maintenance import StoredConfig, SyncMaintenance
from zae_limiter_cli.main import main

RPM, TPM = Limit.per_minute("rpm", 100), Limit.per_minute("tpm", 10_000)
LEVELS = [
    (["system", "set-defaults"], ["system", "show"]),
    (["resource", "set-defaults", "gpt-4"], ["resource", "show", "gpt-4"]),
    (["entity", "set-limits", "key", "-r", "gpt-4"], ["entity", "show", "key", "-r", "gpt-4"]),
    (["entity", "set-limits", "key", "--until", "2h"], ["entity", "show", "key"]),
    (["tier", "set-limits", "gold"], ["tier", "show", "gold"]),
]


@pytest.mark.long(keep=1)
@pytest.mark.parametrize(("setter", "getter"), LEVELS, ids=[" ".join(setter) for setter, _ in LEVELS])
def test_a_limit_that_would_go_is_asked_about(table: Table, setter: list[str], getter: list[str]) -> None:
    done = run(*setter, "-l", "rpm:100/min", "-l", "tpm:10k/min")
    assert (done.exit_code, "Changed" in done.stdout) == (0, False)
    before = document(*getter)
    told = refused(*setter, "-l", "rpm:50/min")
    assert "in namespace default? tpm would go: rpm 100/min -> 50/min, tpm 10k/min -> none." in told
    assert told.endswith("There is no terminal to answer on: pass --yes to confirm")
    assert document(*getter) == before
    done = run(*setter, "-l", "rpm:50/min", "--yes")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.endswith("Changed: rpm 100/min -> 50/min, tpm 10k/min -> none.\n")


@pytest.mark.long(keep=1)
@pytest.mark.parametrize(("setter", "getter"), LEVELS, ids=[" ".join(setter) for setter, _ in LEVELS])
def test_no_limit_that_goes_is_no_question(table: Table, setter: list[str], getter: list[str]) -> None:
    run(*setter, "-l", "rpm:100/min")
    done = document(*setter, "-l", "rpm:50/min", "-l", "tpm:5/min")
    changed = {"rpm": {"from": "100/min", "to": "50/min"}, "tpm": {"from": "none", "to": "5/min"}}
    assert done["changed"] == changed
    assert "changed" not in document(*setter, "-l", "rpm:50/min", "-l", "tpm:5/min")


@pytest.mark.usefixtures("on_a_terminal")
@pytest.mark.parametrize(("answer", "left"), [("n\n", {"rpm", "tpm"}), ("y\n", {"rpm"})])
def test_who_is_asked_sees_old_and_new_values(table: Table, answer: str, left: set[str]) -> None:
    table.repository.set_resource_defaults("gpt-4", [RPM, TPM])
    words = ["resource", "set-defaults", "-n", "my-app", "gpt-4", "-l", "rpm:50/min"]
    done = CliRunner().invoke(main, words, input=answer)
    assert "tpm would go: rpm 100/min -> 50/min, tpm 10k/min -> none." in done.stderr
    assert {limit.name for limit in table.repository.get_resource_defaults("gpt-4")} == left


def test_a_manifest_that_manages_the_place_is_named(table: Table) -> None:
    place = (None, "gpt-4")
    SyncMaintenance(table.repository).put_configs({place: StoredConfig((RPM,), fingerprint="of the manifest")})
    done = run("resource", "set-defaults", "gpt-4", "-l", "rpm:50/min")
    assert done.exit_code == 0
    assert done.stderr == (
        "A manifest manages the limits of resource gpt-4: its next `limits apply` restores what the file says, "
        "so change the file, too.\n"
    )
    stored = SyncMaintenance(table.repository).get_configs([place])[place]
    assert stored == replace(stored, limits=(Limit.per_minute("rpm", 50),))
