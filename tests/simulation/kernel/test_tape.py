"""Tapes: a plain seed's draws are its tape, and what a tape says is what is drawn."""

from __future__ import annotations

from random import Random

from zabka.simulation.kernel.draws import derive_random, draw_below
from zabka.simulation.kernel.tape import RECORDED_MAX, WORD_MAX, Stream, Tape, TapedSeed


def mixed_draws(random: Random) -> list[float]:
    """Draws of every kind that the world makes, in turn."""
    drawn: list[float] = []
    for stop in (1, 2, 7, 1000, 8_000, 1 << 40):
        drawn += [random.random(), random.randrange(0, stop), draw_below(random, stop), random.getrandbits(31)]
    return [*drawn, random.getrandbits(128), random.getrandbits(100), random.random()]


def played(stream: Stream, seed: int = 7) -> Random:
    return derive_random(TapedSeed(Tape(seed, {"x": stream})), "x")


def test_a_tape_that_says_nothing_gives_what_its_seed_gives() -> None:
    assert mixed_draws(derive_random(TapedSeed(Tape(7)), "x")) == mixed_draws(derive_random(7, "x"))


def test_a_taped_seed_is_the_number_that_it_stands_for() -> None:
    assert TapedSeed(Tape(19)) % 10 == 9
    assert f"{TapedSeed(Tape(19))}" == "19"


def test_what_was_drawn_gives_the_same_when_it_is_played() -> None:
    seed = TapedSeed(Tape(7))
    first = mixed_draws(derive_random(seed, "x"))
    words = seed.recorded()["x"]
    assert mixed_draws(played(Stream(words=words), seed=8)) == first


def test_a_word_is_the_highest_bits_of_a_number_and_of_a_fraction() -> None:
    random = played(Stream(words=(3 << 62, 3 << 62, WORD_MAX)))
    assert random.getrandbits(4) == 0b1100
    assert random.random() == 0.75
    assert random.getrandbits(64) == WORD_MAX


def test_nothing_but_zeros_follows_where_a_stream_ends() -> None:
    random = played(Stream(words=(WORD_MAX,), ends=True))
    assert random.getrandbits(8) == 255
    assert [random.random(), random.getrandbits(64), random.randrange(0, 5)] == [0.0, 0, 0]


def test_behind_the_words_comes_the_stream_of_the_tail() -> None:
    random, theirs = played(Stream(words=(0,), tail=99)), derive_random(99, "x")
    assert random.getrandbits(64) == 0
    assert [random.getrandbits(32) for _ in range(5)] == [theirs.getrandbits(32) for _ in range(5)]


def test_a_stream_may_begin_with_the_seeds_own_draws() -> None:
    random, own, theirs = played(Stream(own=3, tail=99)), derive_random(7, "x"), derive_random(99, "x")
    expected = [own.random() for _ in range(3)] + [theirs.random() for _ in range(2)]
    assert [random.random() for _ in range(5)] == expected


def test_a_stream_that_gives_too_much_is_counted_and_not_written_down() -> None:
    seed = TapedSeed(Tape(7))
    busy, quiet = derive_random(seed, "busy"), derive_random(seed, "quiet")
    for _ in range(RECORDED_MAX + 1):
        busy.random()
    quiet.random()
    assert list(seed.recorded()) == ["quiet"]
    assert seed.busy() == {"busy": RECORDED_MAX + 1}


def test_who_asks_for_a_purpose_again_has_a_stream_of_its_own() -> None:
    seed = TapedSeed(Tape(7, {"x": Stream(words=(1,)), "x again 1": Stream(words=(2,))}))
    assert [derive_random(seed, "x").getrandbits(64) for _ in range(2)] == [1, 2]
    assert list(seed.recorded()) == ["x", "x again 1"]
