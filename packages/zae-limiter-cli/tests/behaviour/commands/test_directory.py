from typing import Any

import pytest
from click.testing import CliRunner, Result

from support.cli.by_hand import opened
from support.cli.calls import recorded
from support.cli.tables import Table
from zae_limiter import Entity, Limit, SyncRateLimiter, SyncRepository
from zae_limiter_cli.main import main

RPD = Limit.per_day("rpd", 60)  # a test ends before it has minted one


def run(*args: str) -> Result:
    return CliRunner().invoke(main, [*args, "-n", "my-app"])


def table_of(*args: str) -> list[list[str]]:
    done = run(*args)
    assert done.exit_code == 0, done.output
    return [line.split() for line in done.stdout.splitlines()]


def json_of(*args: str) -> Any:
    done = run(*args, "-o", "json")
    assert (done.exit_code, done.stderr) == (0, "")
    return opened(done.stdout)


@pytest.fixture
def filled(table: Table) -> Table:
    """A parent with two keys, one entity with limits alone, and one with a bucket alone."""
    repository = table.repository
    repository.create_entity("acme", "Acme")
    for key in ("acme/a", "acme/b"):
        repository.create_entity(key, parent_id="acme", cascade=True)
    repository.set_limits("own", [RPD], "gpt-4")
    limiter = SyncRateLimiter(repository, default_limits=[RPD])
    for resource in ("gpt-4", "gpt-4o"):
        with limiter.acquire("used", resource, {"rpd": 7}):
            pass
    return table


def test_every_entity_is_listed_with_what_it_has(filled: Table) -> None:
    assert table_of("entity", "list") == [
        ["ENTITY", "PARENT", "TIER", "CASCADE", "HAS", "NAME"],
        ["acme", "-", "-", "no", "record", "Acme"],
        ["acme/a", "acme", "-", "yes", "record", "-"],
        ["acme/b", "acme", "-", "yes", "record", "-"],
        ["own", "-", "-", "-", "limits", "-"],
        ["used", "-", "-", "-", "buckets", "-"],
    ]
    assert [row[0] for row in table_of("entity", "list", "--begins-with", "acme/")] == ["ENTITY", "acme/a", "acme/b"]
    assert [row[0] for row in table_of("entity", "list", "-r", "gpt-4")] == ["ENTITY", "own"]
    assert run("entity", "list", "-r", "gpt-9").stdout == (
        "There is no entity with limits of its own on gpt-9 in namespace default.\n"
    )


def test_the_entities_of_a_tier_are_listed_by_pages(filled: Table) -> None:
    repository = filled.repository
    repository.set_tier_limits("gold", [RPD])
    assert run("entity", "list", "--tier", "gold").stdout == "There is no entity of tier gold in namespace default.\n"
    for number in range(3):
        repository.create_entity(f"g{number}", "Gold", parent_id="acme", tier="gold")
    assert table_of("entity", "list", "--tier", "gold", "--rows", "2") == [
        ["ENTITY", "PARENT", "CASCADE", "NAME"],
        ["g0", "acme", "no", "Gold"],
        ["g1", "acme", "no", "Gold"],
    ]
    page = json_of("entity", "list", "--tier", "gold", "--rows", "2")
    assert (page["tier"], page["total"], page["next"]) == ("gold", 3, "g1")
    assert page["entities"][0]["record"]["parent_id"] == "acme"
    rest = json_of("entity", "list", "--tier", "gold", "--next", "g1")
    assert ([each["entity_id"] for each in rest["entities"]], rest["next"]) == (["g2"], None)
    assert [row[0] for row in table_of("entity", "list", "--tier", "gold", "--begins-with", "g1")][1:] == ["g1"]


def test_a_tier_costs_a_query_and_a_read_of_a_hundred(filled: Table) -> None:
    filled.repository.set_tier_limits("gold", [RPD])
    for number in range(3):
        filled.repository.create_entity(f"g{number}", tier="gold")
    with recorded() as calls:
        assert run("entity", "list", "--tier", "gold").exit_code == 0
    assert [each.action for each in calls].count("dynamodb:Query") == 1
    assert len(calls) <= 4, calls


def test_a_tier_and_another_list_contradict_each_other(filled: Table) -> None:
    for other in (["--buckets"], ["-r", "gpt-4"]):
        done = run("entity", "list", "--tier", "gold", *other)
        assert (done.exit_code, done.stderr[:35]) == (1, "Error: --tier lists the entities of")


@pytest.mark.parametrize("resource", [[], ["-r", "_default_"]])
def test_pages_of_entities_follow_one_another(filled: Table, resource: list[str]) -> None:
    filled.repository.set_many_limits({(each, "_default_"): [RPD] for each in ("acme", "acme/a", "own")})
    found, behind = [], None
    while True:
        page = json_of("entity", "list", "--rows", "2", *resource, *(["--next", behind] if behind else []))
        assert len(page["entities"]) <= 2
        found += [each["entity_id"] for each in page["entities"]]
        if (behind := page["next"]) is None:
            break
    assert found == (["acme", "acme/a", "own"] if resource else ["acme", "acme/a", "acme/b", "own", "used"])


@pytest.mark.long
def test_those_with_limits_on_a_resource_are_found_among_many_others_by_pages(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zae_limiter_cli.commands.entity.directory.ROWS_OF_A_PAGE", 4)
    repository, sizes = table.repository, []
    for number in range(20):
        repository.create_entity(f"{'ab'[number % 2]}-{number:02}")
    owners = ["a-04", "a-16", "b-01", "b-11", "b-13", "b-19"]
    repository.set_many_limits({(each, "gpt-4"): [RPD] for each in owners})
    read = SyncRepository.list_entities_with_custom_limits

    def counted(*args: Any, **kwargs: Any) -> list[str]:
        sizes.append(len(found := read(*args, **kwargs)))
        return found

    monkeypatch.setattr(SyncRepository, "list_entities_with_custom_limits", counted)
    assert [row[0] for row in table_of("entity", "list", "-r", "gpt-4")][1:] == owners
    assert max(sizes) == 4
    assert [row[0] for row in table_of("entity", "list", "-r", "gpt-4", "--begins-with", "b-1")][1:] == owners[3:]
    page = json_of("entity", "list", "-r", "gpt-4", "--rows", "3")
    assert [each["entity_id"] for each in page["entities"]] == owners[:3]
    assert [row[0] for row in table_of("entity", "list", "-r", "gpt-4", "--next", page["next"])][1:] == owners[3:]


def test_more_rows_are_announced_with_the_way_to_them(filled: Table) -> None:
    done = run("entity", "list", "--rows", "2")
    assert done.stderr == "There are more: pass --next acme/a, or raise --rows.\n"
    done = run("entity", "list", "--buckets", "--rows", "1")
    assert done.stderr == "There are more: pass --next 'used#gpt-4', or raise --rows.\n"
    assert [row[:2] for row in table_of("entity", "list", "--buckets", "--next", "used#gpt-4")][1:] == [
        ["used", "gpt-4o"]
    ]


def test_the_tree_has_children_below_their_parents(filled: Table) -> None:
    assert run("entity", "tree").stdout.splitlines() == [
        "ENTITY     CASCADE  NAME",
        "acme       no       Acme",
        "├─ acme/a  yes      -",
        "└─ acme/b  yes      -",
    ]
    (root,) = json_of("entity", "tree")
    assert (root["entity_id"], [each["entity_id"] for each in root["children"]]) == ("acme", ["acme/a", "acme/b"])
    assert json_of("entity", "tree", "acme") == [root]
    assert json_of("entity", "tree", "acme/a") == [root["children"][0]]
    done = run("entity", "tree", "--rows", "2")
    assert (len(done.stdout.splitlines()), done.stderr) == (3, "There are more entities: raise --rows.\n")
    done = run("entity", "tree", "nobody")
    assert (done.exit_code, done.stderr) == (1, "Error: there is no entity 'nobody': check the id and --namespace\n")


@pytest.fixture
def deep(table: Table) -> Table:
    """Four levels: a company, two teams, a project of both, and a key of the project and of another parent."""
    repository = table.repository
    repository.create_entity("acme")
    for team in ("red", "blue"):
        repository.create_entity(team, parent_id="acme", cascade=True)
    repository.create_entity("project", parent_ids=["red", "blue"], cascade=True)
    repository.create_entity("user")
    repository.create_entity("key", parent_ids=["user", "project"], cascade=True)
    return table


def test_the_tree_shows_all_depths_and_an_entity_below_each_of_its_parents(deep: Table) -> None:
    lines = [line.split("  yes")[0].split("  no")[0].rstrip() for line in run("entity", "tree").stdout.splitlines()]
    assert lines[1:] == [
        "acme",
        "├─ blue",
        "│  └─ project",
        "│     └─ key",
        "└─ red",
        "   └─ project",
        "      └─ key",
        "user",
        "└─ key",
    ]
    company, user = json_of("entity", "tree")
    blue, red = company["children"]
    assert blue["children"] == red["children"]
    (project,) = red["children"]
    assert (project["parent_ids"], project["children"]) == (["red", "blue"], user["children"])
    assert json_of("entity", "tree", "acme") == [company]
    assert json_of("entity", "tree", "project") == [project]
    done = run("entity", "tree", "acme", "--rows", "3")
    assert (len(done.stdout.splitlines()), done.stderr) == (4, "There are more entities: raise --rows.\n")


def test_an_entity_below_several_parents_is_read_once(deep: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    get_children = SyncRepository.get_children

    def counted(self: SyncRepository, parent_id: str) -> list[Entity]:
        asked.append(parent_id)
        return get_children(self, parent_id)

    monkeypatch.setattr(SyncRepository, "get_children", counted)
    assert len(run("entity", "tree", "acme").stdout.splitlines()) == 8
    assert sorted(asked) == ["acme", "blue", "project", "red"], "a query for each that has children, and no leaf"


def test_the_list_shows_every_parent(deep: Table) -> None:
    assert run("entity", "list", "--begins-with", "p").stdout.splitlines() == [
        "ENTITY   PARENT     TIER  CASCADE  HAS     NAME",
        "project  red, blue  -     yes      record  -",
    ]


def test_a_terminal_of_ascii_gets_a_tree_of_ascii(filled: Table) -> None:
    done = CliRunner(charset="ascii").invoke(main, ["entity", "tree", "-n", "my-app"])
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["ENTITY", "acme", "|-", "`-"]


def test_the_buckets_of_everybody_are_listed_with_what_is_left(filled: Table) -> None:
    assert table_of("entity", "list", "--buckets") == [
        ["ENTITY", "RESOURCE", "LIMIT", "AVAILABLE", "BURST", "REFILL", "SHARDS"],
        ["used", "gpt-4", "rpd", "53", "60", "60/rolling", "day", "1"],
        ["used", "gpt-4o", "rpd", "53", "60", "60/rolling", "day", "1"],
    ]
    of_one = json_of("entity", "list", "--buckets", "-r", "gpt-4")
    assert [each["resource"] for each in of_one["buckets"]] == ["gpt-4"]
    assert of_one["buckets"] == json_of("entity", "show", "used", "-r", "gpt-4")["buckets"]
    assert json_of("entity", "list", "--buckets", "--begins-with", "other") == {"buckets": [], "next": None}


def test_an_empty_namespace_says_so(table: Table) -> None:
    assert run("entity", "list").stdout == "There is no entity in namespace default.\n"
    assert (
        run("entity", "list", "--buckets").stdout
        == "There is no bucket in namespace default: all tokens are available.\n"
    )
    assert "`zae-limiter entity create` makes one" in run("entity", "tree").stdout
    assert (json_of("entity", "list"), json_of("entity", "tree")) == ({"entities": [], "next": None}, [])


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["entity", "list", "--next", ""], "next"),
        (["entity", "list", "--buckets", "--next", "nonsense"], "must be the next of a page before"),
        (["entity", "list", "--rows", "0"], "0 is not in the range x>=1"),
        (["entity", "list", "--buckets", "-r", "_default_"], "resource"),
    ],
    ids=" ".join,
)
def test_a_mistake_is_one_line(table: Table, args: list[str], told: str) -> None:
    done = run(*args)
    assert done.exit_code == 1
    (line,) = done.stderr.splitlines()
    assert told in line


def test_entities_have_their_tier_and_those_without_one_are_listed(filled: Table) -> None:
    filled.repository.set_tier_limits("gold", [RPD])
    filled.repository.create_entity("rich", tier="gold")
    filled.repository.set_limits("rich", [RPD], "gpt-4")
    assert [row[:3] for row in table_of("entity", "list", "-r", "gpt-4")[1:]] == [
        ["own", "-", "-"],
        ["rich", "-", "gold"],
    ]
    assert [row[0] for row in table_of("entity", "list", "-r", "gpt-4", "--no-tier")[1:]] == ["own"]
    assert [each["entity_id"] for each in json_of("entity", "list", "--no-tier")["entities"]] == [
        *("acme", "acme/a", "acme/b", "own", "used"),
    ]
    assert "pass no other choice" in run("entity", "list", "--no-tier", "--tier", "gold").stderr


def test_a_pattern_chooses_the_buckets(filled: Table) -> None:
    found = [row[:2] for row in table_of("entity", "list", "--buckets", "-r", "gpt-4o*")[1:]]
    assert found == [["used", "gpt-4o"]]
    found = [row[:2] for row in table_of("usage", "near", "--every", "0", "--percent", "1", "-r", "gpt-4*")[1:]]
    assert sorted(found) == [["used", "gpt-4"], ["used", "gpt-4o"]]
    found = table_of("usage", "near", "--every", "0", "--percent", "1", "-r", "gpt-4o*", "-e", "used")[1:]
    assert [row[:2] for row in found] == [["used", "gpt-4o"]]
