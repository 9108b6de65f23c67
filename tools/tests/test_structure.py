from structure import MEASURES, Structure, sources_at, structure_of, table

SOURCES = {
    "packages/a/src/a/__init__.py": "from .values.limits import Limit\n",
    "packages/a/src/a/values/__init__.py": "",
    "packages/a/src/a/values/limits.py": (
        "from . import names\nimport json\nif json:\n    from .names import check\n\n"
        "class Limit:\n    def one(self):\n        return 1\n\n    async def two(self):\n        return check\n"
    ),
    "packages/a/src/a/values/names.py": "def check():\n    from ..flows.steps import Flow\n    return Flow\n",
    "packages/a/src/a/flows/steps.py": "class Flow:\n    pass\n",
    "packages/b/src/b/main.py": "import a\nfrom a.values import limits, names\nfrom a.flows import nothing\n",
}


def found() -> Structure:
    return structure_of(SOURCES)


def test_imports_go_from_file_to_file_wherever_they_stand() -> None:
    limits, names = "packages/a/src/a/values/limits.py", "packages/a/src/a/values/names.py"
    assert found().imports == {
        ("packages/a/src/a/__init__.py", limits),
        (limits, names),
        (names, "packages/a/src/a/flows/steps.py"),
        ("packages/b/src/b/main.py", "packages/a/src/a/__init__.py"),
        ("packages/b/src/b/main.py", limits),
        ("packages/b/src/b/main.py", names),
    }


def test_what_is_measured_of_them() -> None:
    assert {name: measure(found()) for name, measure in MEASURES.items()} == {
        "files": 6,
        "lines": 20,
        "lines of a file, median": 2.5,
        "lines of a file, most": 11,
        "lines of a function, median": 2,
        "lines of a function, most": 3,
        "lines of a class, most": 6,
        "files in the longest chain of imports": 5,
        "files in circles of imports": 0,
        "imports from folder to folder": 5,
        "the same, for 1,000 lines": 250.0,
    }


def test_a_circle_is_counted_and_ends_a_chain() -> None:
    step = "packages/a/src/a/flows/steps.py"
    turned = structure_of(SOURCES | {step: "from ..values import limits\n"})
    assert (turned.circles, turned.chain) == (3, 5)


def test_a_table_has_a_column_for_each_commit() -> None:
    first, ruler, *rows = table({"one": found(), "two": found()}).splitlines()
    assert (first, ruler, rows[1]) == ("| | one | two |", "|---|---:|---:|", "| lines | 20 | 20 |")


def test_the_sources_of_a_commit_are_those_of_a_package() -> None:
    core, everything = sources_at("HEAD", "zae-limiter-core"), sources_at("HEAD", "")
    assert "packages/zae-limiter-core/src/zae_limiter/__init__.py" in core
    assert core.keys() < everything.keys()
    assert not any("/tests/" in path for path in everything)
