"""Choice sequences: a run without one records its draws; a run with one repeats the recorded draws."""

from __future__ import annotations

from random import Random

from zabka.simulation.choices import RECORDED_MAX, WORD_MAX, Choices, ReplayedSeed, Stream
from zabka.simulation.draws import derive_random, draw_below


def mixed_draws(random: Random) -> list[float]:
    """Draw random values of every kind that the world uses, and return them."""
    drawn: list[float] = []
    for stop in (1, 2, 7, 1000, 8_000, 1 << 40):
        drawn += [random.random(), random.randrange(0, stop), draw_below(random, stop), random.getrandbits(31)]
    return [*drawn, random.getrandbits(128), random.getrandbits(100), random.random()]


def played(stream: Stream, seed: int = 7) -> Random:
    return derive_random(ReplayedSeed(Choices(seed, {"x": stream})), "x")


def test_empty_choices_give_the_same_draws_as_the_seed() -> None:
    assert mixed_draws(derive_random(ReplayedSeed(Choices(7)), "x")) == mixed_draws(derive_random(7, "x"))


def test_replayed_seed_works_like_an_integer_seed() -> None:
    assert ReplayedSeed(Choices(19)) % 10 == 9
    assert f"{ReplayedSeed(Choices(19))}" == "19"


def test_recorded_draws_return_the_same_values_in_a_replay() -> None:
    seed = ReplayedSeed(Choices(7))
    first = mixed_draws(derive_random(seed, "x"))
    words = seed.recorded()["x"]
    assert mixed_draws(played(Stream(words=words), seed=8)) == first


def test_draw_uses_the_highest_bits_of_a_choice_number() -> None:
    random = played(Stream(words=(3 << 62, 3 << 62, WORD_MAX)))
    assert random.getrandbits(4) == 0b1100
    assert random.random() == 0.75
    assert random.getrandbits(64) == WORD_MAX


def test_choice_stream_that_has_ended_returns_zeros() -> None:
    random = played(Stream(words=(WORD_MAX,), ends=True))
    assert random.getrandbits(8) == 255
    assert [random.random(), random.getrandbits(64), random.randrange(0, 5)] == [0.0, 0, 0]


def test_choice_stream_continues_with_the_draws_of_its_tail_seed() -> None:
    random, theirs = played(Stream(words=(0,), tail=99)), derive_random(99, "x")
    assert random.getrandbits(64) == 0
    assert [random.getrandbits(32) for _ in range(5)] == [theirs.getrandbits(32) for _ in range(5)]


def test_choice_stream_can_use_two_seeds_one_after_the_other() -> None:
    random, own, theirs = played(Stream(own=3, tail=99)), derive_random(7, "x"), derive_random(99, "x")
    expected = [own.random() for _ in range(3)] + [theirs.random() for _ in range(2)]
    assert [random.random() for _ in range(5)] == expected


def test_draws_over_the_stream_limit_are_counted_not_recorded() -> None:
    seed = ReplayedSeed(Choices(7))
    busy, quiet = derive_random(seed, "busy"), derive_random(seed, "quiet")
    for _ in range(RECORDED_MAX + 1):
        busy.random()
    quiet.random()
    assert list(seed.recorded()) == ["quiet"]
    assert seed.busy() == {"busy": RECORDED_MAX + 1}


def test_streams_with_the_same_purpose_are_independent() -> None:
    seed = ReplayedSeed(Choices(7, {"x": Stream(words=(1,)), "x again 1": Stream(words=(2,))}))
    assert [derive_random(seed, "x").getrandbits(64) for _ in range(2)] == [1, 2]
    assert list(seed.recorded()) == ["x", "x again 1"]
