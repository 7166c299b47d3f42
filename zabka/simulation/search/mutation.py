"""Mutation of choice sequences: changes words, omits, repeats or moves spans, and crosses two choice sequences.

A word is one 64-bit value of a choice sequence. Most changes are made in the streams whose choices matter most: actions
(`zabka.simulation.faults.actions`), steps of the bare protocol, and the nemesis of the older scenarios. The words of
one action are changed together.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from zabka.simulation.choices import STRIKE, WORD_BITS, WORD_MAX, Choices, Stream
from zabka.simulation.faults.actions import ACTION_NUMBERS, ACTIONS
from zabka.simulation.search.protocol import STEP_WORDS, STEPS

MIDDLE = (ACTIONS, STEPS, "nemesis")
"""Streams in which the search makes most of its changes."""
MIDDLE_CHANCE = 0.75
CHANGES_MAX = 4
SPAN_MAX = 6
SMALL = 1 << 56
LAST_BORN = 1 << 31

ActionNumbers = list[int]


def unit_of(purpose: str) -> int:
    """Return how many words of a stream form one action or step."""
    return {ACTIONS: ACTION_NUMBERS, STEPS: STEP_WORDS}.get(purpose, 1)


def mutated(choices: Choices, other: Choices, random: Random) -> Choices:
    """Return a choice sequence similar to `choices`, in some cases with a part of `other`."""
    for _ in range(1 + int(random.random() ** 2 * CHANGES_MAX)):
        choices = _changed(choices, other, random)
    return choices


def gone_on_from(choices: Choices, place: int, random: Random) -> Choices:
    """Return the first `place` steps or actions of a choice sequence, followed by new random ones."""
    purpose = STEPS if STEPS in choices.streams else ACTIONS
    words = choices.streams.get(purpose, Stream()).words[: place * unit_of(purpose)]
    return choices.changed(purpose, Stream(words=words, tail=random.randrange(LAST_BORN)))


def _changed(choices: Choices, other: Choices, random: Random) -> Choices:
    known = [purpose for purpose, stream in choices.streams.items() if stream.words]
    middle = [purpose for purpose in known if purpose in MIDDLE or purpose.startswith(STRIKE)]
    if not known or random.random() < 0.05:
        return _with_other_luck(choices, random)
    eligible = middle if middle and random.random() < MIDDLE_CHANCE else known
    purpose = eligible[random.randrange(len(eligible))] if len(eligible) > 1 else eligible[0]
    stream = choices.streams[purpose]
    words = list(stream.words)
    theirs = other.streams.get(purpose)
    if theirs is not None and theirs.words and random.random() < 0.2:
        words = _crossed(words, list(theirs.words), unit_of(purpose), random)
    else:
        change = _CHANGES[random.randrange(len(_CHANGES))]
        words = change(words, unit_of(purpose), random)
    return choices.changed(purpose, Stream(words=tuple(words), tail=random.randrange(LAST_BORN)))


def _with_other_luck(choices: Choices, random: Random) -> Choices:
    """Replace the seed.

    This changes all choices that are not recorded, such as network delays and disk latencies.
    """
    return Choices(random.randrange(LAST_BORN), choices.streams)


# -- changes of words --------------------------------------------------------------------------------------------------


def _span(words: ActionNumbers, unit: int, random: Random) -> tuple[int, int]:
    """Choose a few successive actions or steps, each of which consists of `unit` words.

    Return the indexes of the words at which they begin and end.
    """
    units = max(1, len(words) // unit)
    begin = random.randrange(units)
    length = 1 + int(random.random() ** 3 * min(SPAN_MAX, units - begin))
    return begin * unit, min(len(words), (begin + length) * unit)


def _flip(words: ActionNumbers, unit: int, random: Random) -> ActionNumbers:
    words[random.randrange(len(words))] = random.getrandbits(WORD_BITS)
    return words


def _nudge(words: ActionNumbers, unit: int, random: Random) -> ActionNumbers:
    place = random.randrange(len(words))
    words[place] = min(WORD_MAX, max(0, words[place] + random.randrange(-SMALL, SMALL)))
    return words


def _copy_one(words: ActionNumbers, unit: int, random: Random) -> ActionNumbers:
    """Replace a word by the word at the same position of another action or step."""
    place, units = random.randrange(len(words)), max(1, len(words) // unit)
    words[place] = words[(place % unit + unit * random.randrange(units)) % len(words)]
    return words


def _insert(words: ActionNumbers, unit: int, random: Random) -> ActionNumbers:
    begin, _ = _span(words, unit, random)
    return words[:begin] + [random.getrandbits(WORD_BITS) for _ in range(unit)] + words[begin:]


def _replace(words: ActionNumbers, unit: int, random: Random) -> ActionNumbers:
    begin, _ = _span(words, unit, random)
    return words[:begin] + [random.getrandbits(WORD_BITS) for _ in range(unit)] + words[begin + unit :]


def _delete(words: ActionNumbers, unit: int, random: Random) -> ActionNumbers:
    begin, end = _span(words, unit, random)
    return words[:begin] + words[end:]


def _repeat(words: ActionNumbers, unit: int, random: Random) -> ActionNumbers:
    begin, end = _span(words, unit, random)
    to, _ = _span(words, unit, random)
    return words[:to] + words[begin:end] + words[to:]


def _move(words: ActionNumbers, unit: int, random: Random) -> ActionNumbers:
    begin, end = _span(words, unit, random)
    moved, left = words[begin:end], words[:begin] + words[end:]
    to = _span(left, unit, random)[0] if left else 0
    return left[:to] + moved + left[to:]


def _cut_off(words: ActionNumbers, unit: int, random: Random) -> ActionNumbers:
    """Replace all words after a random position by new random words."""
    begin, _ = _span(words, unit, random)
    return words[: max(begin, unit)]


_CHANGES: tuple[Callable[[ActionNumbers, int, Random], ActionNumbers], ...] = (
    _flip, _flip, _nudge, _copy_one, _insert, _insert, _replace, _delete, _repeat, _move, _cut_off,
)  # fmt: skip


def _crossed(one: ActionNumbers, other: ActionNumbers, unit: int, random: Random) -> ActionNumbers:
    """Join the first part of `one` and the last part of `other`, or insert a span of `other` into `one`."""
    begin, _ = _span(one, unit, random)
    if random.random() < 0.5:
        return one[:begin] + other[_span(other, unit, random)[0] :]
    their_begin, their_end = _span(other, unit, random)
    return one[:begin] + other[their_begin:their_end] + one[begin:]
