"""What lives here: every regular expression of the packages and tools takes linear time, whatever the text.
What never does: what they match.
"""

import ast
import importlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from botocore.loaders import create_loader

import skips
from backtracking import Place, growth
from check_siblings import ROOT
from zae_limiter_cli.stack.options import StackOptions
from zae_limiter_provisioner import stack_events

OWN_TEXT = {"install_lines.py", "lists.py", "prose.py", "sentences.py", "variants.py"}  # read this repository alone
TOOLS = [path for path in ROOT.glob("tools/*.py") if path.name not in OWN_TEXT]
FILES = sorted([*ROOT.glob("packages/*/src/**/*.py"), *TOOLS])
PLACES: Mapping[str, Place] = {
    "fullmatch": "whole",
    "match": "start",
    **dict.fromkeys(("search", "findall", "finditer", "split", "sub", "subn"), "anywhere"),
}
LIMIT_FORMS = (
    "_RATE",
    "_CALENDAR",
    "_CALENDAR_WORD",
    "_ROLLING",
    "_OPEN",
    "_MONTH",
    "_CRON",
    "_FIRST_USE",
    "_TOTAL",
    "_SLOTS",
)
LIKE_FORMS = ("_LIKE_CRON", "_CRON_FIELD", "_LIKE_ZONE")
LIMIT_TEXT: Mapping[str, Place] = {
    **dict.fromkeys(
        (*LIMIT_FORMS, *LIKE_FORMS, "_AMOUNT", "_PERIOD", "_TIME", "_DAY", "_COMMAS", "_PERCENTS", "'[0-9._]+m'"),
        "whole",
    ),
    "_PER": "anywhere",
    "_BARE_FRACTION": "anywhere",
}
MONEY: Mapping[str, Place] = {"_AMOUNT": "whole", "_MONEY": "whole"}
SCHEDULE_TEXT: Mapping[str, Place] = dict.fromkeys(
    ("_NAME", "_TIMES", "_LIKE_TIMES", "_DATES", "_LIKE_DATES", "_LIKE_DAYS", "_ZONE"), "whole"
)
# All that there are, and where a text has to fit. A new one is added here, and its time is tested from then on.
LISTED: Mapping[str, Mapping[str, Place]] = {
    "zae_limiter_cli/connection.py": {"'https?://[^\\\\s/]+(/\\\\S*)?'": "whole", "'[A-Za-z0-9_.-]*'": "whole"},
    "zae_limiter_cli/data/parsing.py": {"_AMOUNT": "whole", "_SECONDS": "whole", "_LIMIT": "whole"},
    "zae_limiter_cli/local/engines.py": {"'\"(\\\\d+)'": "anywhere"},
    "zae_limiter_cli/local/functions.py": {"_PATH": "whole"},
    "zae_limiter_cli/local/lambdas/runtime_api.py": {"_ANSWER": "whole"},
    "zae_limiter_cli/local/router.py": {"STACK_CHANGES": "anywhere"},
    "zae_limiter_cli/spreadsheet.py": {"_FORMULA": "anywhere"},
    "zae_limiter_cli/stack/options.py": {"_NAME": "whole", "rule['like']": "whole"},
    "zae_limiter_cli/stack/template/resolve.py": {"_USED": "anywhere", "'\\\\$\\\\{([^{}!]+)\\\\}'": "anywhere"},
    "zae_limiter_cli/times.py": {"_LENGTH": "whole"},
    "zae_limiter/engines/dynamodb/aws/endpoint.py": {"partition['regionRegex']": "start"},
    "zae_limiter/engines/sqlite/place.py": {"'\\\\\\\\([0-7]{3})'": "anywhere"},
    "zae_limiter/flows/records/usage.py": {"_NEXT": "whole"},
    "zae_limiter/values/limit_text.py": LIMIT_TEXT,
    "zae_limiter/values/money.py": MONEY,
    "zae_limiter/values/schedule_text.py": SCHEDULE_TEXT,
    "zae_limiter/values/naming.py": {"_NAME": "whole", "_NAMESPACE_ID": "whole"},
    "zae_limiter/engines/dynamodb/images.py": {"_WHOLE": "whole"},
    "zae_limiter/runtime/printing.py": {"INVISIBLE": "anywhere"},
    "zae_limiter/engines/dynamodb/protocol/requests.py": {"_URL": "whole"},
    "zae_limiter/integrations/heard.py": {"_WORD": "whole", "_DATA_URL": "whole"},
    "zae_limiter/runtime/namesake.py": {"'\\\\b(RateLimiter|Repository|Maintenance)\\\\b'": "anywhere"},
    "zae_limiter/runtime/extras.py": {"_OF_EXTRA": "whole"},
    "zae_limiter_aggregator/problems.py": {"_QUOTED": "anywhere", "_WORD": "anywhere", "_PLAIN": "whole"},
    "zae_limiter/schema/audit.py": {"_AT": "whole", "_SERIAL": "whole"},
    "zae_limiter/schema/keys.py": {"_PLAIN": "whole"},
    "zae_limiter/values/versions.py": {"_VERSION": "whole"},
    "zae_limiter/values/windows.py": {"_ZONE": "whole"},
    "zae_limiter_manifest/delegation.py": {"_WRITTEN": "anywhere"},
    "zae_limiter_manifest/cloudformation.py": {"_CAPITAL": "anywhere", "_STACK_NAME": "whole"},
    "zae_limiter_manifest/dumping.py": {"_PLAIN": "whole", "_UNPRINTABLE": "anywhere"},
    "zae_limiter_manifest/limit_text.py": LIMIT_TEXT,
    "zae_limiter_manifest/money.py": MONEY,
    "zae_limiter_manifest/schedule_text.py": SCHEDULE_TEXT,
    "zae_limiter_manifest/shares.py": {"_SHARE": "whole"},
    "zae_limiter_manifest/meanings.py": {"_PARTS": "anywhere", "'[/ ]'": "anywhere"},
    "zae_limiter_manifest/unused.py": {"_DIGITS": "anywhere"},
    "zae_limiter_manifest/naming.py": {
        "'[^\\\\s*]*\\\\*|\\\\S*[^\\\\s*]'": "whole",
        "_PLAIN": "anywhere",
        "_SIMPLE": "whole",
        "'[A-Za-z][A-Za-z0-9_.\\\\-]{0,63}'": "whole",
        "'\\\\S+'": "whole",
        "'\\\\S*[^\\\\s*]'": "whole",
        "'(?!\\\\$(?:RESOURCE|TIER):)\\\\S+'": "whole",
    },
    "zae_limiter_manifest/ordering.py": {"_BRACES": "start"},
    "zae_limiter_manifest/problems.py": {"INVISIBLE": "anywhere", "_PLAIN_KEY": "whole"},
    "zae_limiter_manifest/checks.py": {"_DECIMAL": "whole", "_DIGITS": "whole"},
    "zae_limiter_manifest/render/as_json.py": {"_TO_THE_SECOND": "anywhere"},
    "zae_limiter_manifest/render/sections.py": {"_BACKTICKS": "anywhere"},
    "zae_limiter_manifest/scalars.py": {"_DECIMAL": "whole", "_OCTAL": "whole", "_SURROGATE": "anywhere"},
    "zae_limiter_manifest/source.py": {"_LINE_BREAK": "anywhere", "_MANIFEST": "anywhere"},
    "zae_limiter_manifest/windows.py": {"_ZONE": "whole"},
    "zae_limiter_provisioner/response_url.py": {"_SETTING": "whole", "_HOST": "whole"},
    "zae_limiter_provisioner/stack_events.py": {"_LOGICAL_ID": "whole", "expression": "whole"},
    "tools/branches.py": {"ROW": "anywhere"},
    "tools/builds.py": {"SECTION": "anywhere"},
    "tools/proofs.py": {"_TEST": "anywhere"},
    "tools/rehearse.py": {"'^(\\\\w{64}) [ *](\\\\S+)$'": "anywhere", "'^zae-limiter-(\\\\w+)==(\\\\S+)$'": "anywhere"},
    "tools/release.py": {"VERSION": "whole", "RELEASED": "anywhere"},
    "tools/scans.py": {"'^Passed checks: [1-9]'": "anywhere"},
    "tools/skips.py": {"pattern": "whole", "INSTALLED": "whole"},
    "tools/tagged.py": {"'zae-limiter-([a-z]+)/v(\\\\d+\\\\.\\\\d+\\\\.\\\\d+)'": "whole"},
}
# Expressions that are not constants of their module: what they can be.
GIVEN: Mapping[str, Any] = {
    "rule['like']": lambda: [each.metadata["like"] for each in fields(StackOptions) if "like" in each.metadata],
    "expression": lambda: [expression for _, expression, _ in stack_events._STACK_ID_PARTS],
    "partition['regionRegex']": lambda: [each["regionRegex"] for each in _partitions()],
    "pattern": lambda: [*skips.ALLOWED],
}


@dataclass(frozen=True)
class Use:
    """A place in a file that has an expression: by its name in the module, or as it is written."""

    path: Path
    name: str
    call: ast.Call
    methods: frozenset[str]

    @property
    def file(self) -> str:
        """As `LISTED` has it: an import's path."""
        parts = self.path.relative_to(ROOT).parts
        return "/".join(parts[parts.index("src") + 1 :] if "src" in parts else parts)

    def expressions(self) -> list[re.Pattern[str]]:
        """Return what it is, as its module says."""
        if self.name in GIVEN:
            return [re.compile(each) for each in GIVEN[self.name]()]
        flags = [word for word in self.call.args[1:] if ast.unparse(word).startswith("re.")]
        made = ast.Call(
            ast.Attribute(ast.Name("re", ast.Load()), "compile", ast.Load()), [self.call.args[0], *flags], []
        )
        source = compile(ast.fix_missing_locations(ast.Expression(made)), str(self.path), "eval")
        expression = eval(source, {**vars(_module(self.path)), "re": re})
        text = expression.pattern
        return [
            expression if isinstance(text, str) else re.compile(text.decode("latin-1"), expression.flags | re.ASCII)
        ]


_ASSIGNED = ast.Assign | ast.AnnAssign


@cache
def _module(path: Path) -> ModuleType:
    within = path.relative_to(ROOT).with_suffix("").parts
    return importlib.import_module(".".join(within[within.index("src") + 1 :] if "src" in within else within[1:]))


def _partitions() -> list[dict[str, Any]]:
    return list(create_loader().load_data("partitions")["partitions"])


def uses(path: Path) -> Iterator[Use]:
    """The expressions of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    named = {
        node.value: ast.unparse(_target(node)) for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign)
    }
    for call in ast.walk(tree):
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
            continue
        if ast.unparse(call.func.value) != "re" or call.func.attr not in (*PLACES, "compile"):
            continue
        name = named.get(call, ast.unparse(call.args[0]))
        asked = {
            node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and ast.unparse(node.value) == name
        }
        yield Use(path, name, call, frozenset({call.func.attr, *asked} & set(PLACES)))


def _target(node: ast.Assign | ast.AnnAssign) -> ast.expr:
    return node.target if isinstance(node, ast.AnnAssign) else node.targets[0]


USES = [use for path in FILES for use in uses(path)]


def test_every_expression_is_listed_with_how_it_is_asked() -> None:
    found = {(use.file, use.name): use for use in USES}
    listed = {(file, name): place for file, each in LISTED.items() for name, place in each.items()}
    assert sorted(found) == sorted(listed)
    asked = {key: {PLACES[method] for method in use.methods} for key, use in found.items()}
    assert {key: places for key, places in asked.items() if places - {listed[key]}} == {}


def test_no_module_has_expressions_under_another_name() -> None:
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            assert not (isinstance(node, ast.ImportFrom) and node.module == "re"), path
            assert not (isinstance(node, ast.Import) and any(each.name == "re" and each.asname for each in node.names))


@pytest.mark.long(keep=30)
@pytest.mark.parametrize("use", USES, ids=lambda use: f"{use.file}: {use.name}")
def test_an_expression_takes_linear_time(use: Use) -> None:
    for expression in use.expressions():
        assert growth(expression, LISTED[use.file][use.name]) is None


@pytest.mark.parametrize(
    ("expression", "place"),
    [
        (r"AWS4-[A-Z0-9-]+\s+(?:.*[\s,])?Credential=([^/,\s]+)/|AWS ([^:\s]+):", "start"),  # once in `local up`
        (r"Credential=[^/]+/\d+/([^/]+)/([^/]+)/aws4_request", "anywhere"),  # likewise
        (r"\$\{([^}!]+)\}", "anywhere"),
        (r"[^:]+:[0-9]{1,20}", "anywhere"),
        (r"\s*a\s*$", "anywhere"),
        (r".*?x.*?y", "start"),
        (r"(a+)+b", "start"),
        (r"(ab|a|b)*c", "whole"),
    ],
)
def test_what_takes_longer_is_found(expression: str, place: Place) -> None:
    assert growth(re.compile(expression), place) is not None


@pytest.mark.parametrize("place", ["whole", "start"])
@pytest.mark.parametrize("expression", [r"[^:]+:[0-9]{1,20}", r"(_[0-9]+)*", r"a{1,255}", r"(?!x)\S+", r"^a|b$"])
def test_what_takes_linear_time_is_left_alone(expression: str, place: Place) -> None:
    assert growth(re.compile(expression), place) is None
