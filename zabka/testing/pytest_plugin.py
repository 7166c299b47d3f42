"""pytest fixtures for election tests: `zabka_cluster` (real processes) and `zabka_world` (the same, simulated).

The plugin is installed with zabka, and pytest loads it automatically; it imports large modules only when a test uses a
fixture. Both fixtures have the interface `zabka.testing.cluster.Cluster`. `zabka_ensemble` is a ZooKeeper ensemble
without brokers. `zabka_module_cluster` and `zabka_session_cluster` are for fixtures of module or session scope. The
report of a failed test contains the journal's last events, and a command that shows the journal.

`@pytest.mark.zabka(peers=5, brokers=5, seed=7, settings={"min.insync.replicas": "2"})` gives a test a cluster with
these parameters; `zabka_settings` in pytest's configuration contains the default settings of all clusters.
`ports="fixed"`, `advertised={1: "localhost:19092"}` and `secure="SASL_SSL"` are possible only for real processes
(`zabka.testing.live.start.start_live`).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from zabka.testing.cluster import Cluster
    from zabka.testing.live.cluster import LiveCluster
    from zabka.testing.live.ensemble import LiveEnsemble
    from zabka.testing.worlds.cluster import SimulatedCluster

    def _both_have_the_same_surface(live: LiveCluster, simulated: SimulatedCluster) -> tuple[Cluster, Cluster]:
        return live, simulated


_MARKER = "zabka"
_OF_PROCESSES = ("ports", "advertised", "secure")
"""Parameters of the marker that apply only to clusters of real processes; a simulated world has no such ports."""
_MARKER_KEYS = frozenset({"peers", "brokers", "seed", "settings", *_OF_PROCESSES})
_INI = "zabka_settings"
_MARKER_HELP = "zabka(peers, brokers, seed, settings, ports, advertised, secure): parameters of this test's own cluster"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the plugin, such as the size of the clusters and the seed of the simulated world."""
    group = parser.getgroup("zabka")
    group.addoption("--zabka-peers", type=int, default=3, help="peers of zabka_cluster and zabka_world [3]")
    group.addoption("--zabka-brokers", type=int, default=3, help="brokers of zabka_cluster and zabka_world [3]")
    group.addoption("--zabka-seed", type=int, help="the seed of zabka_world [0], and the only one of simulated tests")
    group.addoption("--zabka-seeds", help="the seeds of simulated tests, as FIRST:END [0 to the test's number]")
    group.addoption("--zabka-faults", help="the numbers of the faults of simulated tests, such as 3,7, or none")
    group.addoption("--zabka-jitter", help="the virtual seconds with jitter in simulated tests: 3.1-3.2,5-6, or none")
    group.addoption("--zabka-report", help="a file for the report of one simulated test, which this process runs")
    parser.addini(_INI, "KEY=VALUE: settings of the clusters of tests whose marker names none", type="linelist")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker `zabka`."""
    config.addinivalue_line("markers", _MARKER_HELP)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Divide the seeds of a simulated test among the workers of pytest-xdist."""
    from zabka.testing.simulated_items import divide_seeds

    divide_seeds(metafunc)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Run a simulated test with the seeds that the options select.

    If PYTHONHASHSEED is not 0, run it in a child process.
    """
    from zabka.testing.simulated_items import selected_seeds

    with selected_seeds(pyfuncitem):
        return (yield)


def _by_default(config: pytest.Config) -> dict[str, Any]:
    """Return the parameters of a cluster that has no marker.  Raises pytest.UsageError."""
    settings: dict[str, str] = {}
    for line in config.getini(_INI):
        key, equals, value = line.partition("=")
        if not equals:
            raise pytest.UsageError(f"{_INI} takes KEY=VALUE, not {line!r}")
        settings[key.strip()] = value.strip()
    size = {"peers": config.getoption("--zabka-peers"), "brokers": config.getoption("--zabka-brokers")}
    return {**size, "settings": settings}


def _marked(request: pytest.FixtureRequest) -> dict[str, Any]:
    marker = request.node.get_closest_marker(_MARKER)
    if marker is None:
        return {}
    if marker.args or not marker.kwargs.keys() <= _MARKER_KEYS:
        # If an argument were ignored, the cluster would not have the parameters that the test requests.
        pytest.fail(
            f"the marker takes {', '.join(sorted(_MARKER_KEYS))}, by name: not {_as_written(marker)}", pytrace=False
        )
    return dict(marker.kwargs)


def _as_written(marker: pytest.Mark) -> str:
    given = [repr(each) for each in marker.args] + [f"{name}={value!r}" for name, value in marker.kwargs.items()]
    return f"{_MARKER}({', '.join(given)})"


_CLUSTERS = ("zabka_ensemble", "zabka_cluster", "zabka_module_cluster", "zabka_session_cluster", "zabka_world")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the cluster's last events, and a command that shows its journal, to the report of a failed test."""
    report = yield
    path = item.config.getoption("--zabka-report")
    if path and (call.when == "call" or not report.passed):
        from zabka.testing.simulated_items import write_report

        write_report(path, report)
    if report.failed and call.when in ("call", "teardown"):
        given = getattr(item, "funcargs", {})
        for cluster in {id(found): found for name in _CLUSTERS if (found := given.get(name)) is not None}.values():
            report.sections.append(("zabka: the journal", _journal_of(cluster)))
            report.sections.append(("zabka: to look closer", cluster.replay(item.nodeid)))
    return report


def _journal_of(cluster: LiveEnsemble | SimulatedCluster) -> str:
    from zabka.testing.journal_report import report

    try:
        return report(cluster.journal(), cluster.began_us)
    except (OSError, ValueError, LookupError) as reason:
        return f"the journal cannot be read: {reason!r}"


@pytest.fixture(scope="session")
def zabka_session_cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveCluster]:
    """The live cluster that all tests of a run share (one per pytest-xdist worker), as the last test left it.

    Use it in fixtures of session scope. A test that uses `zabka_cluster` as well repairs the shared cluster and deletes
    its topics.
    """
    from zabka.testing.live.start import start_live, stop_live

    cluster = start_live(tmp_path_factory.mktemp("zabka"), **_by_default(request.config))
    try:
        yield cluster
    finally:
        stop_live(cluster)


@pytest.fixture(scope="module")
def zabka_module_cluster(zabka_session_cluster: LiveCluster) -> LiveCluster:
    """The shared live cluster, for fixtures of module scope.

    The cluster is repaired once per module, before the first test that uses this fixture.
    """
    zabka_session_cluster.start_test()
    return zabka_session_cluster


@pytest.fixture
def zabka_cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    """A live cluster that is healthy at the start of each test: all nodes run, and there is no fault and no topic.

    All tests of a session share the processes, except tests with the marker `zabka`, which get a cluster of their own.
    """
    from zabka.testing.live.start import start_live, stop_live

    parameters = {name: value for name, value in _marked(request).items() if name != "seed"}
    if not parameters:
        cluster: LiveCluster = request.getfixturevalue("zabka_session_cluster")
        # Remove faults that an earlier test left active, because this test needs a healthy cluster.
        cluster.start_test()
        yield cluster
        # Remove request faults now, because they must not affect clients between two tests. The next test repairs a
        # broken cluster.
        with suppress(AssertionError):
            cluster.faults.heal()
        return
    cluster = start_live(tmp_path_factory.mktemp("zabka"), **{**_by_default(request.config), **parameters})
    try:
        cluster.start_test()
        yield cluster
    finally:
        stop_live(cluster)


@pytest.fixture(scope="session")
def _zabka_session_ensemble(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveEnsemble]:
    """The live ensemble that all tests of a run share."""
    from zabka.testing.live.start import start_ensemble, stop_live

    ensemble = start_ensemble(tmp_path_factory.mktemp("zabka"), **_without_brokers(_by_default(request.config)))
    try:
        yield ensemble
    finally:
        stop_live(ensemble)


@pytest.fixture
def zabka_ensemble(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveEnsemble]:
    """A live ensemble without brokers that is healthy at the start of each test: all peers run, and there is no fault
    and no znode.

    All tests of a session share the processes, except tests with the marker `zabka`, which get an ensemble of their
    own.
    """
    from zabka.testing.live.start import start_ensemble, stop_live

    parameters = _without_brokers(_marked(request))
    if not parameters:
        ensemble: LiveEnsemble = request.getfixturevalue("_zabka_session_ensemble")
        ensemble.start_test()
        yield ensemble
        return
    given = {**_without_brokers(_by_default(request.config)), **parameters}
    ensemble = start_ensemble(tmp_path_factory.mktemp("zabka"), **given)
    try:
        ensemble.start_test()
        yield ensemble
    finally:
        stop_live(ensemble)


def _without_brokers(parameters: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value for name, value in parameters.items() if name not in ("brokers", "seed", "advertised", "secure")
    }


@pytest.fixture
def zabka_seed(request: pytest.FixtureRequest) -> int:
    """Seed of `zabka_world`; parametrize this fixture to run a test in many worlds."""
    seed: int = _marked(request).get("seed", request.config.getoption("--zabka-seed") or 0)
    return seed


@pytest.fixture
def zabka_world(request: pytest.FixtureRequest, zabka_seed: int) -> Iterator[SimulatedCluster]:
    """A simulated cluster that is ready to use.

    If the world has violated an invariant of zabka, the test fails when it ends.
    """
    from zabka.testing.worlds.cluster import start_simulated

    parameters = {n: value for n, value in _marked(request).items() if n != "seed" and n not in _OF_PROCESSES}
    cluster = start_simulated(seed=zabka_seed, **{**_by_default(request.config), **parameters})
    yield cluster
    violations = cluster.violations
    cluster.close()
    assert violations == []
    cluster.check_services()
