"""The search with choice sequences: it finds injected bugs, shrinks its findings, and can be resumed.

A plain seed gives the same run, whether its choices are recorded or not.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from random import Random

import msgspec
import pytest

from tests.simulation import injected_ensemble, search_table
from zabka.simulation.choices import STRIKE, Choices, ReplayedSeed, Stream
from zabka.simulation.faults.actions import ACTION_NUMBERS, ACTIONS
from zabka.simulation.run import SCENARIOS
from zabka.simulation.search.choice_search import ChoiceSearch, Found, Requested, injected, kind_of, shrunk
from zabka.simulation.search.choices_file import ChoicesFile, read_choices, write_choices
from zabka.simulation.search.choices_folder import ChoicesFolder, OtherSearch
from zabka.simulation.search.corpus import Corpus
from zabka.simulation.search.mutation import gone_on_from, mutated
from zabka.simulation.search.runs import SEARCHED, play_choices, run_choices
from zabka.simulation.search.shrinking import Shrinking
from zabka.simulation.seeds.seed_run import SeedRun
from zabka.simulation.settings import WorldSettings

PROTOCOL, FILES = "swarm-protocol", "swarm-files"
SETTINGS = WorldSettings()
INJECTED_BUG = "tests.simulation.injected_ensemble:leader_counts_itself_before_its_fsync"


def fingerprint(run: SeedRun) -> str:
    digest = sha256()
    for line in run.world.record.lines():
        digest.update(line)
    return digest.hexdigest()


def found_in(search: ChoiceSearch, runs_max: int) -> Found:
    with injected(search.wanted.injected_bug):
        for _, found in search.run_here(runs_max):
            if found is not None:
                return found
    raise AssertionError(f"nothing in {runs_max} runs")


# -- runs


@pytest.mark.parametrize(
    "scenario",
    ["ensemble", *(pytest.param(name, marks=pytest.mark.long) for name in ("disks", "swarm", "swarm-ensemble"))],
)
def test_recorded_choices_reproduce_the_history_of_the_seed(scenario: str) -> None:
    plain, seed = SeedRun(2, SCENARIOS[scenario]), ReplayedSeed(Choices(2))
    taped = SeedRun(seed, SCENARIOS[scenario])
    plain.execute()
    taped.execute()
    written = Choices(2, {purpose: Stream(words=words) for purpose, words in seed.recorded().items()})
    again = SeedRun(ReplayedSeed(written), SCENARIOS[scenario])
    again.execute()
    assert fingerprint(plain) == fingerprint(taped) == fingerprint(again)


@pytest.mark.parametrize(
    "scenario",
    [
        "swarm",
        PROTOCOL,
        FILES,
        *(pytest.param(name, marks=pytest.mark.long) for name in ("swarm-ensemble", "swarm-disks")),
    ],
)
def test_seeds_of_the_swarm_scenario_have_no_violation(scenario: str) -> None:
    for seed in range(3):
        assert run_choices(Choices(seed), scenario, SETTINGS).problems == []


def test_run_with_log_files_is_deterministic() -> None:
    one, again = (run_choices(Choices(7), FILES, SETTINGS) for _ in range(2))
    assert (one.written, one.reached) == (again.written, again.reached)


def test_choice_sequence_of_zeros_runs_no_action() -> None:
    verdict = play_choices(Choices(4, {ACTIONS: Stream(ends=True)}), "swarm", SETTINGS)
    assert verdict.taken == []
    assert verdict.held


# -- modified choice sequences


def test_mutation_of_choice_sequence_keeps_actions_whole() -> None:
    choices = Choices(1, {ACTIONS: Stream(words=tuple(range(1, 6 * ACTION_NUMBERS + 1)))})
    for seed in range(200):
        words = mutated(choices, choices, Random(seed)).streams[ACTIONS].words
        assert len(words) % ACTION_NUMBERS == 0


def test_corpus_keeps_choices_that_reach_a_new_or_higher_count() -> None:
    corpus = Corpus()
    assert corpus.keep_run(Choices(1), {10: 1}) is not None
    assert corpus.keep_run(Choices(2), {10: 1}) is None
    assert corpus.keep_run(Choices(3), {10: 2}) is not None
    assert corpus.keep_run(Choices(4), {10: 1, 11: 1}) is not None
    assert [kept.choices.seed for kept in corpus.kept] == [1, 3, 4]


def test_corpus_prefers_choices_that_reach_rare_features() -> None:
    corpus, random = Corpus(), Random(1)
    corpus.keep_run(Choices(1), {10: 1})
    corpus.keep_run(Choices(2), {20: 1})
    for _ in range(50):
        corpus.keep_run(Choices(3), {10: 1})
    chosen = [corpus.choose(random).choices.seed for _ in range(20)]
    assert chosen.count(2) > chosen.count(1)


def test_run_continues_from_the_step_that_reached_a_rare_feature() -> None:
    corpus, random = Corpus(), Random(1)
    kept = corpus.keep_run(Choices(1), {10: 1, 20: 1, 30: 1}, {10: 4, 20: 9})
    for _ in range(500):
        corpus.keep_run(Choices(2), {10: 1})
    assert kept is not None
    assert kept.places == {10: 4, 20: 9}
    assert [corpus.place(kept, random) for _ in range(20)].count(9) > 15


def test_run_without_recorded_positions_continues_from_its_start() -> None:
    corpus = Corpus()
    kept = corpus.keep_run(Choices(1), {10: 1})
    assert kept is not None
    assert corpus.place(kept, Random(1)) == 0


@pytest.mark.parametrize("scenario", [PROTOCOL, FILES])
def test_run_continued_from_a_position_reaches_its_state_again(scenario: str) -> None:
    ran = run_choices(Choices(11), scenario, SETTINGS)
    last = max(ran.places.values())
    for state, place in list(ran.places.items())[:: len(ran.places) // 3]:
        again = run_choices(gone_on_from(ran.written, place, Random(5)), scenario, SETTINGS)
        assert again.places[state] == place
        assert place == last or again.written.streams["steps"].words != ran.written.streams["steps"].words


def test_run_continued_from_an_action_has_the_same_first_part() -> None:
    ran = run_choices(Choices(3), "swarm", SETTINGS)
    place = max(ran.places.values()) // 2
    again = run_choices(gone_on_from(ran.written, place, Random(5)), "swarm", SETTINGS)
    assert place > 0
    before = {feature for feature, reached in ran.places.items() if reached < place}
    assert [feature for feature in before if again.places.get(feature) != ran.places[feature]] == []
    assert again.written.streams[ACTIONS].words != ran.written.streams[ACTIONS].words


# -- violations that the search has found


def test_injected_bug_is_detected_and_its_choices_are_shrunk() -> None:
    wanted = Requested(PROTOCOL, injected_bug=INJECTED_BUG)
    found = found_in(ChoiceSearch(wanted), 2_000)
    with injected(INJECTED_BUG):
        choices, problems, runs = shrunk(found, wanted)
        assert run_choices(choices, PROTOCOL, SETTINGS).problems == problems
        verdict = play_choices(choices, PROTOCOL, SETTINGS)
    assert "committed and durable only on" in problems[0]
    assert runs > 0
    # The shortest choice sequence starts the servers, elects a leader, runs all pending steps, and sends a proposal
    # that no server fsyncs.
    assert len(verdict.taken) <= 8
    assert run_choices(choices, PROTOCOL, SETTINGS).problems == []


def test_search_is_deterministic() -> None:
    def choice_sequences() -> list[Choices]:
        search = ChoiceSearch(Requested(PROTOCOL, seed=3))
        list(search.run_here(40))
        return [kept.choices for kept in search.corpus.kept]

    assert choice_sequences() == choice_sequences()


def test_search_without_choice_sequences_runs_only_seeds() -> None:
    search = ChoiceSearch(Requested(PROTOCOL), plain_share=1)
    search.corpus.keep_run(Choices(1, {"steps": Stream(words=(1, 2))}), {1: 1})
    assert [search.next_choices().streams for _ in range(60)] == [{}] * 60


def test_violations_of_one_invariant_are_reported_as_one_finding() -> None:
    assert kind_of("WeakIsr: broker 1 leads") == kind_of("WeakIsr: broker 2 leads")
    assert kind_of("liveness: a serving ensemble did not come true") != kind_of("liveness: reading every record back")


def test_shrinking_removes_all_unneeded_actions() -> None:
    needed = tuple(range(1, ACTION_NUMBERS + 1))
    choices = Choices(
        1, {ACTIONS: Stream(words=(*range(100, 100 + 5 * ACTION_NUMBERS), *needed, *range(200, 200 + ACTION_NUMBERS)))}
    )

    def shows(asked: Choices) -> Choices | None:
        words = asked.streams[ACTIONS].words
        actions = [words[at : at + ACTION_NUMBERS] for at in range(0, len(words), ACTION_NUMBERS)]
        return asked if any(act[2] == needed[2] for act in actions) else None

    shrinking = Shrinking(choices, shows, 1_000)
    assert shrinking.shrink().streams[ACTIONS] == Stream(words=(0, 0, 3, 0, 0, 0, 0, 0), ends=True)


def test_shrinking_removes_two_actions_that_depend_on_each_other() -> None:
    actions = {what: tuple(range(what, what + ACTION_NUMBERS)) for what in (100, 200, 300, 400)}
    choices = Choices(1, {ACTIONS: Stream(words=(*actions[100], *actions[200], *actions[300], *actions[400]))})

    def shows(asked: Choices) -> Choices | None:
        words = asked.streams[ACTIONS].words
        left = [words[at + 2] for at in range(0, len(words), ACTION_NUMBERS)]
        return asked if 202 in left and (102 in left) == (302 in left) and 402 in left else None

    short = Shrinking(choices, shows, 1_000).shrink().streams[ACTIONS].words
    assert [short[at + 2] for at in range(0, len(short), ACTION_NUMBERS)] == [202, 402]


def test_shrinking_removes_unneeded_faults_and_keeps_their_times() -> None:
    comes = {f"{STRIKE}{number}": Stream(words=(number, 7, number)) for number in range(1, 11)}
    played = {"boot": Stream(words=(5,)), **comes, f"{STRIKE}11": Stream(words=(9,))}

    def shows(asked: Choices) -> Choices | None:
        streams = {**played, **asked.streams}
        needed = all(streams[f"{STRIKE}{number}"].words[1:2] == (7,) for number in (3, 8))
        return Choices(1, streams) if needed else None

    short = Shrinking(Choices(1, played), shows, 1_000).shrink()
    left_out = {name: stream.words for name, stream in short.streams.items()}
    assert left_out == {f"{STRIKE}{number}": (number, 0) for number in range(1, 11) if number not in (3, 8)}


# -- files


def test_choices_file_survives_a_round_trip(tmp_path: Path) -> None:
    file = ChoicesFile(
        PROTOCOL, Choices(3, {"steps": Stream(own=1, words=(1, 2), tail=4)}), ["tickTime=500"], INJECTED_BUG, ["x"]
    )
    write_choices(file, tmp_path / "choices.json")
    assert read_choices(tmp_path / "choices.json") == file


def test_search_resumes_from_its_directory(tmp_path: Path) -> None:
    wanted = Requested(PROTOCOL, seed=5)
    search, folder = ChoiceSearch(wanted), ChoicesFolder(tmp_path, wanted)
    for kept, _ in search.run_here(30):
        if kept is not None:
            folder.keep(search.runs, kept)
    folder.save(search.runs, search.cpu_s)
    again, reopened = ChoiceSearch(wanted), ChoicesFolder(tmp_path, wanted)
    again.resume(reopened.kept(), reopened.state.runs)
    assert again.runs == 30
    assert [kept.choices for kept in again.corpus.kept] == [kept.choices for kept in search.corpus.kept]


def test_directory_of_choices_is_used_by_one_search_only(tmp_path: Path) -> None:
    folder = ChoicesFolder(tmp_path, Requested(PROTOCOL))
    folder.save(1, 0.1)
    with pytest.raises(OtherSearch):
        ChoicesFolder(tmp_path, Requested(PROTOCOL, seed=1))


def test_unknown_injected_bug_is_rejected() -> None:
    for injected_bug in (
        "no.such.module:name",
        "tests.simulation.injected_ensemble:no_such",
        "tests.simulation.injected",
    ):
        with pytest.raises(ValueError, match="MODULE:NAME"):
            injected(injected_bug)


def test_every_seed_scenario_can_be_used_in_a_search() -> None:
    assert set(SCENARIOS) < set(SEARCHED)


def test_choices_file_that_is_not_json_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "choices.json").write_bytes(b"{")
    with pytest.raises(msgspec.DecodeError):
        read_choices(tmp_path / "choices.json")


def test_every_injected_ensemble_bug_can_be_loaded_by_name() -> None:
    for injected_bug in injected_ensemble.INJECTED.values():
        with injected(f"{injected_ensemble.__name__}:{injected_bug.injected_bug.__name__}"):
            pass


def test_search_table_lists_every_bug_once() -> None:
    names = [bug.name for bug in search_table.bugs()]
    assert len(names) == len(dict.fromkeys(names))
    named = search_table.OF_CLIENTS + search_table.OF_THE_PROTOCOL
    assert [name for name in named if name not in names] == []
    assert [bug.scenario for bug in search_table.bugs() if bug.scenario not in SEARCHED] == []


BUG = "pending proposals not given to a newcomer"


def test_search_reports_a_finding_caused_by_the_injected_bug() -> None:
    bug = next(bug for bug in search_table.bugs() if bug.name == BUG)
    tried = search_table.search(bug, search_table.Limits(runs=1_000))
    assert "which is not the oldest one proposed" in tried.problem


def test_search_for_the_table_of_bugs_ends_at_its_limits() -> None:
    bug = next(bug for bug in search_table.bugs() if bug.name == BUG)
    assert search_table.search(bug, search_table.Limits(runs=2)).runs == 2
    assert search_table.search(bug, search_table.Limits(runs=2, cpu_s=1e-9)).runs == 1


def test_search_table_is_resumed_from_its_file(tmp_path: Path) -> None:
    bug = next(bug for bug in search_table.bugs() if bug.name == BUG)
    into, limits = tmp_path / "searches.jsonl", search_table.Limits(runs=2)
    search_table.Searches(limits, into).make(bug, search_table.SEARCH, 0)
    written = into.read_bytes()
    again = search_table.Searches(limits, into)
    again.make(bug, search_table.SEARCH, 0)
    assert into.read_bytes() == written
    assert [tried.runs for tried in again.of(bug, search_table.SEARCH)] == [2]
    assert search_table.Searches(search_table.Limits(runs=3), into).of(bug, search_table.SEARCH) == []


def test_table_row_without_a_median_lists_each_search() -> None:
    found, other, not_found = (
        search_table.Tried(runs, 1.0, problem) for runs, problem in ((7, "a"), (9, "b"), (50, ""))
    )
    assert search_table.runs_of([found, not_found, other]) == "9"
    assert search_table.runs_of([not_found, found, not_found]) == "not in 50, run 7, not in 50"
