"""Whatever a record holds, each list shows the others, and says by its key which one it skips.

Each attribute of each kind of record is damaged in each way, in a record of its own beside sound ones, and every
command and page that shows many records reads them all. A kind or a reader that is not here fails a test.
"""

import json
import re
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import click
import pytest
from click.testing import CliRunner, Result
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.testclient import TestClient

from support.cli.damaged import ENTITY, MANIFEST, Damaged, damaged_copies, fill, items_of, kind_of, replace, write
from support.core.damage import leaves, wrong
from zae_limiter import SyncRepository
from zae_limiter.flows import index_rows, skipped
from zae_limiter.schema import keys
from zae_limiter_cli import skipped as cli_skipped
from zae_limiter_cli.connection import Connection
from zae_limiter_cli.console import app as console_app
from zae_limiter_cli.console.access import HEADERS, Access
from zae_limiter_cli.console.app import Console, application
from zae_limiter_cli.console.applies import Applies
from zae_limiter_cli.console.pages import Pages
from zae_limiter_cli.live.health import Health
from zae_limiter_cli.live.reading import Reader
from zae_limiter_cli.main import main

USAGE: Final = ("hourly usage",)
LISTS: Final[Mapping[str, Sequence[str]]] = {  # each with the kinds of records of which it shows every one
    "usage list --since 2h --rows 9000": USAGE,
    "usage list --window daily --since 2d --rows 9000": ("daily usage",),
    "usage list --entity sound --since 2h": (),
    "usage list --total -r gpt-4 --since 2h": (),
    "usage top -r gpt-4 --by rpm --rows 1000": (),
    "usage top --by total_refused --rows 1000": (),
    "usage export -o json --window hourly": USAGE,
    "usage near --percent 1 --every 0.1 --rows 1000": (),
    "audit list --since 1h --rows 9000": ("audit",),
    "audit list --entity sound": (),
    "audit list --resource sound-r": (),
    "audit list --tier sound-tier": (),
    "audit list --system": (),
    "resource show": ("resource config",),
    "tier show": ("tier config",),
    "tier show sound-tier": (),
    "entity tree sound-up --depth 1": ("parent",),
    "entity tree sound --above": (),
    "entity show sound": (),
    "entity list --rows 9000": ("meta", "state"),
    "entity list -r gpt-4 --rows 9000": (),
    "entity tree --rows 9000": ("meta",),
    "entity tree sound-up --rows 9000": (),
    "entity list --buckets --rows 9000": ("state",),
    "entity list --buckets -r gpt-4 --rows 9000": ("state",),
    "top --once --every 1 --rows 900": (),
    "switch --rows 900": (),
    "usage near --budgets --rows 1000": (),
    "usage list --never used --window daily --since 2d --rows 9000": (),
    "entity list --tier sound-tier --rows 9000": (),
    "why sound": (),
    "namespace list": ("namespace",),
    "limits status": ("apply",),
    "doctor": (),
}
ONE_RECORD: Final = {  # commands that show or change one thing, or that read no table
    *("demo", "console", "disable", "enable", "lift", "copy", "lambda-export", "cfn-template"),
    *("deploy", "status", "list", "upgrade", "delete"),
    *(f"delegation {each}" for each in ("add", "list", "remove")),
    *(f"local {each}" for each in ("up", "down", "status", "logs", "env", "rehearse")),
    *(f"system {each}" for each in ("set-defaults", "show", "delete-defaults")),
    *(f"resource {each}" for each in ("set-defaults", "delete-defaults")),
    *(f"tier {each}" for each in ("set-limits", "delete-limits")),
    *(f"entity {each}" for each in ("create", "update", "delete")),
    *(f"entity {each}" for each in ("set-limits", "delete-limits")),
    *(f"bucket {each}" for each in ("reset", "credit", "merge", "invalidate")),
    *(f"namespace {each}" for each in ("register", "delete", "recover", "purge", "trace")),
    *(f"limits {each}" for each in ("validate", "schema", "cfn-template", "fmt", "apply", "stop", "unlock")),
    "limits rollback",
    "usage cost",  # a file costs nothing; it reads as `usage list` and `entity tree` do
    "limits shares",  # takes no file, which the matrix damages; it sums usage of the tables of regions
}
REFUSED: Final = {"limits plan", "limits diff", "limits export", "namespace list --deleted"}
"""Commands whose result others act on: they name the record that they cannot read, and give no result."""

KINDS: Final = {  # of records, by the function that makes their sort key
    "sk_apply": {"apply", "manifest"},
    "sk_audit": {"audit"},
    "sk_bounds": {"bounds"},
    "sk_call": {"key"},
    "sk_config": {"system config", "resource config", "tier config", "entity config"},
    "sk_idempotency": {"key"},
    "sk_meta": {"meta"},
    "sk_migration": {"migration"},
    "sk_namespace": {"namespace"},
    "sk_nsid": {"nsid"},
    "sk_parent": {"parent"},
    "sk_provisioner": {"provisioner"},
    "sk_state": {"state"},
    "sk_usage": {"hourly usage", "daily usage"},
    "sk_version": {"version"},
    "told_key": {"alert"},
}
ALONE: Final = {"bounds", "system config", "manifest", "migration", "provisioner", "version", "nsid"}
"""Kinds of which there is one, or that no list shows: each is damaged in its place."""

PAGES: Final = (
    *("/", "/?shape=list", "/rows", "/rows?shape=list", "/usage", "/changes"),
    "/bucket?entity=sound&resource=gpt-4",
)
SOME_WAYS: Final = ("missing", "a text", "a number", "another's")
OTHER_ROUTES: Final = {
    *("/here", "/counted", "/verdict", "/figures", "/static"),
    *("/cost", "/cost.csv", "/rollback", "/change"),
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SyncRepository, Path]]:
    path = tmp_path_factory.mktemp("sound") / "limits.db"
    with fill(path) as repository:
        yield repository, path


@pytest.fixture(
    scope="module",
    params=[SOME_WAYS, pytest.param((), marks=pytest.mark.slow)],
    ids=lambda ways: "some ways" if ways else "all ways",
)
def damaged(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[tuple[SyncRepository, Path, list[Damaged]]]:
    path = tmp_path_factory.mktemp("damaged") / "limits.db"
    with fill(path) as repository:
        copies = damaged_copies(items_of(repository), request.param)
        write(repository, copies)
        yield repository, path, copies


@pytest.fixture
def all_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """No list is cut."""
    for module, name in ((index_rows, "MOST_NAMED"), (skipped, "MOST_KEPT"), (cli_skipped, "MOST")):
        monkeypatch.setattr(module, name, 10_000)


def run(path: Path, command: str) -> Result:
    return CliRunner(env={"ZAEL_STORE": f"sqlite:///{path}", "COLUMNS": "200"}).invoke(main, command.split())


def document(path: Path, command: str) -> dict[str, Any]:
    done = run(path, command if "-o json" in command else f"{command} -o json")
    assert (done.exit_code, done.stderr) == (0, ""), done.exception
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def texts(value: object) -> Iterator[str]:
    """Every text of a document, names too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, each in value.items():
            yield name
            yield from texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from texts(each)


def commands() -> Iterator[str]:
    """Every command of `zae-limiter`."""
    context = click.Context(main)
    left: list[tuple[click.Command, str]] = [(main, "")]
    while left:
        command, words = left.pop()
        if isinstance(command, click.Group):
            inner = {name: command.get_command(context, name) for name in command.list_commands(context)}
            left += [(each, f"{words} {name}".strip()) for name, each in inner.items() if each is not None]
        else:
            yield words


def test_every_kind_of_record_is_damaged(sound: tuple[SyncRepository, Path]) -> None:
    made = {name for name in dir(keys) if name.startswith("sk_")}
    assert made | {"told_key"} == KINDS.keys()
    items = items_of(sound[0])
    kinds = set.union(*KINDS.values())
    assert {kind_of(item) for item in items} == kinds
    copies = damaged_copies(items)
    assert {each.kind for each in copies} == kinds - ALONE
    counts = Counter(each.kind for each in copies)
    assert min(counts.values()) >= 30, counts  # each attribute in several ways
    assert sum(counts.values()) >= 2500


def test_every_command_is_a_reader_of_the_matrix_or_of_one_record() -> None:
    alone = ("top", "doctor", "why", "switch")
    lists = {" ".join(words[:2]) if (words := each.split())[0] not in alone else words[0] for each in LISTS}
    assert not lists & ONE_RECORD
    assert {*commands()} == lists | ONE_RECORD | {" ".join(each.split()[:2]) for each in REFUSED}


@pytest.mark.long(keep=20)
@pytest.mark.parametrize("command", LISTS)
def test_a_list_shows_the_others_and_names_what_it_skips(
    sound: tuple[SyncRepository, Path],
    damaged: tuple[SyncRepository, Path, list[Damaged]],
    command: str,
    all_named: None,
) -> None:
    _, path, copies = damaged
    found = document(path, command)
    assert {each for each in texts(document(sound[1], command)) if each.startswith("sound")} <= {*texts(found)}
    told = {(each["pk"], each["sk"]) for each in found.pop("unreadable", ())}
    shown = set(re.findall(r"(?:(?:entity|resource|tier|namespace)-v|1)[0-9]+", json.dumps(found)))
    hidden = [
        str(each)
        for each in copies
        if each.kind in LISTS[command]
        and not each.path.startswith("GSI")  # an index has no row of it
        and (each.path, each.how) != ("ttl", "negative")  # it is gone
        and each.name not in shown
        and each.key not in told
    ]
    assert hidden == []


@pytest.mark.long(keep=20)
@pytest.mark.parametrize("command", [*LISTS, "usage export -o csv"])
def test_no_text_of_a_record_is_a_line_of_its_own(
    damaged: tuple[SyncRepository, Path, list[Damaged]], command: str
) -> None:
    done = run(damaged[1], command)
    assert done.exit_code == 0, done.exception
    assert "\x1b" not in done.output
    assert not [line for line in done.output.splitlines() if line.startswith("Error")]
    lines = done.stderr.splitlines()
    assert all(line.startswith("Warning: ") and line.isprintable() for line in lines)
    assert len(lines) <= cli_skipped.MOST + 1


def console_of(repository: SyncRepository, path: Path) -> Console:
    url = f"sqlite:///{path}"
    connection = Connection.of_store(url, source="--store")
    reader = Reader(repository, None, 900)
    pages = Pages(repository, reader, Health(connection), every=1.0, options=["--store", url])
    return Console(pages, Applies(connection, "default"), Access(identity_header="x-user"), "default", False, 1.0)


def browser(console: Console) -> TestClient:
    app = application(console, ["127.0.0.1"])
    return TestClient(app, base_url="http://127.0.0.1", headers={"x-user": "ann"}, raise_server_exceptions=False)


@pytest.mark.long(keep=4)
@pytest.mark.parametrize("page", PAGES)
def test_a_page_shows_the_others_and_names_what_it_skips(
    damaged: tuple[SyncRepository, Path, list[Damaged]], page: str
) -> None:
    repository, path, _ = damaged
    answer = browser(console_of(repository, path)).get(page)
    assert answer.status_code == 200
    assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS
    assert ("cannot be read: " in answer.text) is not page.startswith("/bucket")
    assert "sound" in answer.text or page == "/changes"  # which has the newest 50 of many
    assert all(line.isprintable() for line in answer.text.splitlines() if line.startswith("<li>the item"))


def test_every_page_of_the_console_is_in_the_matrix(sound: tuple[SyncRepository, Path]) -> None:
    seen: list[str] = []

    class Recording(Starlette):
        def __init__(self, routes: Sequence[Route], **more: Any) -> None:
            seen.extend(each.path for each in routes)
            super().__init__(routes=routes, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(console_app, "Starlette", Recording)
        application(console_of(*sound), ["127.0.0.1"])
    assert {*seen} == {page.partition("?")[0] for page in PAGES} | OTHER_ROUTES


def test_every_answer_of_the_console_has_the_headers(
    sound: tuple[SyncRepository, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also the page of a fault, which had none."""

    def broken(*_: object) -> None:
        raise RuntimeError("<b>a fault</b>")

    client = browser(console_of(*sound))
    monkeypatch.setattr(Pages, "changes", broken)
    asked = {"/changes": 500, "/nothing": 404, "/static/nothing": 404, "/static/console.css": 200, "/usage": 200}
    answers = {path: client.get(path) for path in asked}
    assert {path: each.status_code for path, each in answers.items()} == asked
    answers |= {
        "method": client.post("/"),
        "host": client.get("/", headers={"host": "evil.example"}),
        "nobody": client.get("/", headers={"x-user": ""}),
    }
    for each in answers.values():
        assert {name: each.headers.get(name) for name in HEADERS} == HEADERS
        assert "<b>" not in each.text
    assert "The console has a fault" in answers["/changes"].text


def test_the_screen_of_top_names_the_first_and_counts_the_others(
    damaged: tuple[SyncRepository, Path, list[Damaged]],
) -> None:
    with cli_skipped.collecting() as collected:
        Reader(damaged[0], None, 900).read()
    (line,) = cli_skipped.in_brief(collected.take_errors())
    assert re.fullmatch(r"the item '.*', '.*' cannot be read: .*; correct it, or delete it, and [0-9,]+ more", line)


ALONE_READERS: Final = [each for each in LISTS if not each.startswith("top")] + ["limits export"]


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(ALONE))
def test_a_record_of_which_there_is_one_is_shown_or_named(tmp_path: Path, kind: str) -> None:
    """Each command ends with what it shows, or with one line that names a record. None ends with a traceback."""
    path = tmp_path / "limits.db"
    with fill(path) as repository:
        items = items_of(repository)
    item = next(each for each in items if kind_of(each) == kind and (kind != "nsid" or each["name"] == "default"))
    key = item["PK"], item["SK"]
    for place, value in leaves(item):
        if len(place) > 1 or place[0] in ("PK", "SK"):
            continue
        for how, other in wrong(value, value).items():
            changed = {name: each for name, each in item.items() if name != place[0]}
            replace(path, key, changed if how == "missing" else {**changed, place[0]: other})
            for command in ALONE_READERS:
                done = run(path, command)
                assert done.exception is None or isinstance(done.exception, SystemExit), (place, how, command)
                assert done.exit_code in (0, 1), (place, how, command)
                assert all(line.isprintable() for line in done.stderr.splitlines()), (place, how, command)
                assert "\x1b" not in done.output, (place, how, command)
    replace(path, key, item)


def test_what_others_act_on_is_refused_with_the_key(
    damaged: tuple[SyncRepository, Path, list[Damaged]], tmp_path: Path
) -> None:
    """A plan concerns what it declares: beside that it has overrides of others, which are a list."""
    (manifest := tmp_path / "limits.yaml").write_text(MANIFEST)
    words = {
        "limits export": f"--out {tmp_path}/out.yaml",
        "limits diff": f"-f {manifest}",
        "limits plan": f"-f {manifest}",
    }
    for command in REFUSED:
        done = run(damaged[1], f"{command} {words.get(command, '')}")
        *skipped_lines, last = done.stderr.splitlines()
        assert done.exit_code == (0 if command == "limits plan" else 1), done.output
        assert "cannot be read: " in last or done.exit_code == 0
        assert all(line.startswith("Warning: ") for line in skipped_lines)


@pytest.mark.parametrize("text", ["{", "[]", "7", "null", '{"PK": 1}', "1" * 5000, 5000 * "[", '{"a": NaN}'])
def test_a_row_of_a_file_that_is_no_item_is_named_by_its_key(tmp_path: Path, text: str) -> None:
    path = tmp_path / "limits.db"
    with fill(path) as repository:
        items = items_of(repository)
    for kind, command in (
        ("audit", "audit list --since 1h"),
        ("meta", "entity list"),
        ("state", "entity list --buckets"),
    ):
        item = next(each for each in items if kind_of(each) == kind and ENTITY in each["PK"])
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("UPDATE items SET item = ? WHERE pk = ? AND sk = ?", (text, item["PK"], item["SK"]))
        found = document(path, command)
        assert (item["PK"], item["SK"]) in {(each["pk"], each["sk"]) for each in found["unreadable"]}
        assert any(each.startswith("sound") for each in texts(found))


def test_a_damaged_config_hides_no_bucket(tmp_path: Path) -> None:
    path = tmp_path / "limits.db"
    with fill(path) as repository:
        items = items_of(repository)
    item = next(each for each in items if each["SK"] == "#CONFIG#gpt-4" and each["PK"].endswith(f"#{ENTITY}"))
    replace(path, (item["PK"], item["SK"]), {**item, "l_rpm_cp": "many"})
    for command in (f"entity show {ENTITY}", "entity list --buckets", "top --once --every 1"):
        done = run(path, command)
        assert (done.exit_code, "rpm" in done.stdout) == (0, True), command
        assert command.startswith("top") or item["SK"] in done.stderr, command


def test_those_that_are_too_many_are_counted(damaged: tuple[SyncRepository, Path, list[Damaged]]) -> None:
    _, path, _ = damaged
    found = document(path, "audit list --since 1h --rows 9000")
    *named, last = run(path, "audit list --since 1h --rows 9000").stderr.splitlines()
    assert len(named) == cli_skipped.MOST
    more = len(found["unreadable"]) - len(named) + found.get("unreadable_more", 0)
    assert last == f"Warning: {more:,} more records cannot be read"
