"""What lives here: the choice of target and variant, and an environment in which nothing reaches a real account.
What never does: a claim.
"""

import os
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, closing
from typing import get_args

import pytest

from support.integration import account, outcome
from support.integration.awaited import Variant
from support.integration.fetch import Unavailable
from support.integration.harness import Harness
from support.integration.last_will import afterwards
from support.integration.names import own_name, run_prefix
from support.integration.proxy import Proxy, between
from support.integration.stacks import drop
from support.integration.targets import REAL, TARGETS, Ability, Session, Target, able, apart
from zae_limiter.engines.dynamodb.options import TRANSPORTS

BEGUN = pytest.StashKey[float]()
FASTER, SLOWER = "dynoxide", "dynamodb-local"
AWS_ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_REGION": "us-east-1",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}


def pytest_addoption(parser: pytest.Parser) -> None:
    names = [name for name in TARGETS if name != REAL]
    parser.addoption("--target", action="append", choices=names, help="run on this target only (repeatable)")
    parser.addoption("--one-emulator", action="store_true", help="on a second one, run what differs only")
    parser.addoption(
        "--transport", choices=TRANSPORTS, help="the way to DynamoDB, as ZAEL_TRANSPORT of the environment"
    )
    parser.addoption("--aws", action="store_true", help="run on the AWS account of the environment, and nowhere else")
    parser.addoption("--yes", action="store_true", help="with --aws: do not ask before anything is made")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"needs(*abilities): what the target must offer: {', '.join(get_args(Ability))}")
    config.addinivalue_line("markers", "differs: emulators answer differently: it runs on each that is here")
    config.addinivalue_line("markers", "apart: the module changes many items and has an emulator of its own")
    if transport := config.getoption("--transport"):
        os.environ["ZAEL_TRANSPORT"] = transport  # also of the processes that tests start
    config.stash[BEGUN] = time.monotonic()
    run_prefix()  # which the workers inherit
    if config.getoption("--aws"):
        account.use()
        if not hasattr(config, "workerinput"):
            _agree(config)


def _agree(config: pytest.Config) -> None:
    """Tell what a run on a real account costs, and ask; then see to it that nothing is left, even of a killed run."""
    capture = config.pluginmanager.getplugin("capturemanager")
    capture.suspend_global_capture(in_=True)
    try:
        print(account.question(len(config.getoption("tx", None) or [""])))
        if not config.getoption("--yes") and input("Go on? [y/N] ").strip().lower() not in {"y", "yes"}:
            raise pytest.UsageError("nothing was made")
    except EOFError:
        raise pytest.UsageError("nobody is here to be asked: add --yes") from None
    except ValueError as error:
        raise pytest.UsageError(str(error)) from error
    finally:
        capture.resume_global_capture()
    last_will = ExitStack()
    sweep = [sys.executable, "-m", account.__name__, run_prefix()]
    last_will.enter_context(afterwards(sweep, environment={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}))
    config.add_cleanup(last_will.close)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    found = list(outcome.lines(terminalreporter.stats, TARGETS))
    terminalreporter.section("targets")
    for line in found:
        terminalreporter.line(line)
    if config.getoption("--aws"):
        stats = terminalreporter.stats
        failures = [report.nodeid for kind in ("failed", "error") for report in stats.get(kind, [])]
        seconds = time.monotonic() - config.stash[BEGUN]
        text = account.report(found, failures, account.left_by(run_prefix()), seconds)
        account.REPORT.write_text(text, encoding="utf-8")
        terminalreporter.line(f"{text}\nThis report is in {account.REPORT}: paste it into an issue.")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "shared_target" in metafunc.fixturenames:
        needs = {need for mark in metafunc.definition.iter_markers("needs") for need in mark.args}
        able(needs)
        one = metafunc.config.getoption("--one-emulator") and not metafunc.definition.get_closest_marker("differs")
        metafunc.parametrize("shared_target", _chosen(metafunc.config, needs, one=one), indirect=True, scope="session")


def _chosen(config: pytest.Config, needs: set[Ability], *, one: bool) -> list[str]:
    """The targets asked for; else those with Lambdas for a test that needs Lambdas, and the others for the others.

    What a data plane does is proved where it is done fast; `--target embedded` runs everything there, too.
    """
    if config.getoption("--aws"):
        return [REAL]
    usual = {name: offer for name, offer in TARGETS.items() if not (offer.by_name or offer.real)}
    fit = [name for name, offer in usual.items() if offer.lacks("lambda") != ("lambda" in needs)]
    if one and SLOWER in fit and FASTER in able(needs):
        fit.remove(SLOWER)
    return config.getoption("--target") or fit


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        callspec = getattr(item, "callspec", None)
        name = callspec.params.get("shared_target") if callspec else None
        lacking = [
            need for mark in item.iter_markers("needs") for need in mark.args if name and TARGETS[name].lacks(need)
        ]
        if lacking:
            item.add_marker(pytest.mark.skip(reason=f"{name} does not offer: {', '.join(lacking)}"))


@pytest.fixture(scope="session", autouse=True)
def aws_environment(pytestconfig: pytest.Config) -> Iterator[None]:
    """Credentials that no account knows, for this process and those it starts; the user's own under ``--aws``."""
    if pytestconfig.getoption("--aws"):
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        for name, value in AWS_ENVIRONMENT.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="session")
def targets() -> Iterator[Session]:
    """The targets of this session."""
    session = Session()
    yield session
    session.close()


@pytest.fixture(scope="session")
def shared_target(request: pytest.FixtureRequest, targets: Session) -> Target:
    """One target after the other; one that is not to be had is a skip, and a failure where somebody has named it."""
    try:
        return targets.get(request.param)
    except Unavailable as reason:
        told = f"{request.param}: {reason}"
        if request.param in (request.config.getoption("--target") or ()):
            pytest.fail(told, pytrace=False)
        pytest.skip(told)


@pytest.fixture(scope="module")
def target(request: pytest.FixtureRequest, shared_target: Target) -> Iterator[Target]:
    """The target of the session, or one like it for a module that is marked ``apart``."""
    needs = {need for mark in request.node.iter_markers("needs") for need in mark.args}
    for need, reason in shared_target.lacks.items():
        if need in needs:
            pytest.skip(f"{shared_target.name}: {reason}")
    if request.node.get_closest_marker("apart") is None:
        yield shared_target
        return
    with apart(shared_target) as own:
        yield own


@pytest.fixture
def table_name(request: pytest.FixtureRequest) -> Iterator[str]:
    """A name no other test has, long enough for every target; its table does not stay: tables slow an emulator down."""
    target: Target | None = request.getfixturevalue("target") if "target" in request.fixturenames else None
    name = own_name()
    yield name
    if target is not None and target.endpoint_url is not None:
        with closing(target.client("dynamodb")) as client:
            drop(client, name)


@pytest.fixture(params=["async", "sync"])
def variant(request: pytest.FixtureRequest) -> Variant:
    """Both variants, one after the other."""
    chosen: Variant = request.param
    return chosen


@pytest.fixture
async def harness(target: Target, table_name: str, variant: Variant) -> AsyncIterator[Harness]:
    """A table of its own, for repositories of one variant."""
    harness = Harness(target, table_name, variant)
    yield harness
    await harness.close()


@pytest.fixture
def proxy(target: Target) -> Iterator[Proxy]:
    """What stands between a client and the target, and does as the test says."""
    if target.endpoint_url is None:
        pytest.fail("the test has to say that it needs an endpoint", pytrace=False)
    with between(target.endpoint_url) as proxy:
        yield proxy
