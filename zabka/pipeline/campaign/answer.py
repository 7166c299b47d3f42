"""Summarises the results of a campaign in three sentences, which it derives only from the figures."""

from __future__ import annotations

from zabka.pipeline.campaign.charts import format_number
from zabka.pipeline.campaign.engine import seeds_needed
from zabka.pipeline.campaign.figures import FIGURES
from zabka.pipeline.campaign.results import Results
from zabka.pipeline.campaign.statistics import Difference, Estimate, Share
from zabka.pipeline.campaign.stopping import Comparison, Verdict, cost_level

_LACKING = {Verdict.OPEN, Verdict.DIFFERENT}
"""Verdicts about costs that leave open whether a figure differs, because there are too few seeds.

DIFFERENT is one of them: a difference found in one interim analysis or one setting is not significant if all settings
are considered.
"""


def answer(found: Results) -> list[str]:
    """Return the best setting, what it costs, and the evidence, one sentence each."""
    return [_decision(found), _cost(found), _evidence(found)]


def short(point: dict[str, str]) -> str:
    """Return the values of a setting without the keys, which are in the chart's title."""
    return " / ".join(point.values())


def named(found: Results, number: int) -> str:
    """Return a setting as it appears in a sentence: its key and value, or all keys and values if several vary."""
    return ", ".join(f"{key}={value}" for key, value in found.points[number].items())


def interval(estimate: Estimate, unit: str) -> str:
    """Return a mean with its unit and confidence interval; for rare events, the number of seeds with any event."""
    if estimate.mean is None:
        return "not measured"
    mean, rare = f"{format_number(estimate.mean)} {unit}", estimate.rare
    if rare is not None:
        if not rare.seeds:
            return f"{mean} (in all {estimate.seeds} seeds)"
        return (
            f"{mean} ({format_number(rare.usual)} in all but {rare.seeds} of {estimate.seeds} seeds, "
            f"{share(rare)} of all)"
        )
    if estimate.low is None or estimate.high is None:
        return f"{mean} (one seed)"
    return f"{mean} ({format_number(estimate.low)} to {format_number(estimate.high)})"


def share(rare: Share) -> str:
    """Return the confidence interval for a share of seeds."""
    return f"{format_number(100 * rare.low)} to {format_number(100 * rare.high)} %"


def paired(seen: Difference) -> str:
    """Return the mean difference from the baseline and its confidence interval."""
    if seen.mean is None:
        return "not measured"
    ends = "no interval" if seen.low is None or seen.high is None else f"{_signed(seen.low)} to {_signed(seen.high)}"
    return f"{_signed(seen.mean)} ({ends})"


def chance(p: float) -> str:
    """Return a p-value as a phrase. A test by sampling never yields exactly 0."""
    return f"{p:.4f}" if p >= 0.0001 else "< 0.0001"


def _signed(value: float) -> str:
    return f"{'+' if value > 0 else ''}{format_number(value)}"


def _tested(seen: Difference) -> str:
    return f"{paired(seen)}, p {'' if seen.p < 0.0001 else '= '}{chance(seen.p)}"


def _decision(found: Results) -> str:
    name = found.campaign.decide
    figure, estimates = FIGURES[name], found.estimates[name]
    if len(found.points) == 1:
        return f"One setting was played, {named(found, 0)}: {figure.title} {interval(estimates[0], figure.unit)}."
    different = [each for each in found.comparisons if each.verdict is Verdict.DIFFERENT]
    baseline = f"{named(found, 0)} with {interval(estimates[0], figure.unit)}"
    if not different:
        nearest = min(found.comparisons, key=lambda each: each.difference.p)
        return (
            f"{_undecided(found)} in {figure.title}: {baseline}; the smallest p is that of "
            f"{short(found.points[nearest.point])}, {_tested(nearest.difference)}{_too_few(found)}."
        )
    best = found.best
    if best == 0:
        worst = min(
            (each.point for each in different),
            key=lambda number: (estimates[number].mean or 0.0) * (1 if figure.more_is_better else -1),
        )
        return (
            f"{_capital(figure.title)}: nothing was seen to be better than {baseline}; "
            f"{_some(len(different), len(found.comparisons))} worse, the worst being "
            f"{named(found, worst)} with {interval(estimates[worst], figure.unit)}{_open(found)}."
        )
    return (
        f"{_capital(figure.title)}: best is {named(found, best)} with {interval(estimates[best], figure.unit)}, "
        f"against {baseline}{_contested(found)}{_open(found)}."
    )


def _undecided(found: Results) -> str:
    verdicts = {each.verdict for each in found.comparisons}
    if verdicts == {Verdict.EQUAL}:
        return "All settings are as good as equal"
    return "Not enough seeds to tell a difference" if Verdict.OPEN in verdicts else "No difference seen"


def _too_few(found: Results) -> str:
    seeds, needed = max(each.difference.seeds for each in found.comparisons), seeds_needed(found.campaign)
    if seeds >= needed:
        return ""
    return f"; {seeds} seeds with this figure cannot show any difference, at least {needed} are needed"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _some(count: int, of: int) -> str:
    if count == of:
        return "every other setting is"
    return f"{count} of the {of} others {'is' if count == 1 else 'are'}"


def _contested(found: Results) -> str:
    """Return a sentence about settings that differ from the baseline but could be as good as the best setting."""
    different = [each.point for each in found.comparisons if each.verdict is Verdict.DIFFERENT]
    close = [short(found.points[number]) for number in found.rivals if number in different]
    return f"; {_listed(close)} may be as good as {short(found.points[found.best])}" if close else ""


def _open(found: Results) -> str:
    keys = " / ".join(found.points[0])
    baseline = short(found.points[0]) + (f" ({keys})" if len(found.points[0]) > 1 else "")
    endings = {
        Verdict.OPEN: f"there are not enough seeds to tell {{}} from {baseline}",
        Verdict.NOT_SEEN: f"no difference seen between {{}} and {baseline}",
        Verdict.EQUAL: f"{{}} and {baseline} are as good as equal",
    }
    rest = {
        verdict: [short(found.points[each.point]) for each in found.comparisons if each.verdict is verdict]
        for verdict in endings
    }
    return "".join(f"; {endings[verdict].format(_listed(names))}" for verdict, names in rest.items() if names)


def _listed(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _cost(found: Results) -> str:
    different = [each.point for each in found.comparisons if each.verdict is Verdict.DIFFERENT]
    other = found.best or (_other_end(found, different) if different else 0)
    if other == 0:
        return _elsewhere(found)
    pair = f"With {named(found, other)} in place of {named(found, 0)}"
    if not found.campaign.also:
        return f"{pair}: nothing else was asked for."
    compared = {also: found.costs[also][other - 1] for also in found.campaign.also}
    parts = [
        *(_values(found, also, each) for also, each in compared.items() if each.verdict is Verdict.DIFFERENT),
        *(
            f"{FIGURES[also].title}: {_phrase(each)} ({_tested(each.difference)})"
            for also, each in compared.items()
            if each.verdict is not Verdict.DIFFERENT
        ),
    ]
    return f"{pair}, on the same seeds: {'; '.join(parts)}."


def _phrase(compared: Comparison) -> str:
    seen = compared.difference
    if compared.verdict is Verdict.OPEN and seen.seeds and seen.mean == seen.low == seen.high == 0:
        return f"no difference on any of {seen.seeds} seeds, which are too few for a rare one"
    return "as good as equal" if compared.verdict is Verdict.EQUAL else str(compared.verdict)


def _elsewhere(found: Results) -> str:
    """Return a sentence about other figures that differ from the baseline, although the deciding figure does not
    differ.
    """
    if len(found.points) == 1:
        also = [f"{FIGURES[name].title} {interval(found.estimates[name][0], FIGURES[name].unit)}"
                for name in found.campaign.also]  # fmt: skip
        return f"There is nothing to compare it with{'; besides: ' + '; '.join(also) if also else ''}."
    if not found.costs:
        return "Nothing else was asked for."
    # Every other figure of every setting is tested for a difference, so the significance level must account for all
    # these tests.
    stop, tests = found.campaign.stop, len(found.costs) * len(found.comparisons)
    level = cost_level(stop.confidence, found.ended.looks, tests)
    moved = [(also, each) for also, compared in found.costs.items() for each in compared if each.difference.p <= level]
    if not moved:
        verdicts = {each.verdict for compared in found.costs.values() for each in compared}
        seen = "Not enough seeds to tell a difference" if _LACKING & verdicts else "No difference seen"
        return f"{seen} in anything else that was measured; the table has each with its interval."
    differences = "; ".join(f"with {named(found, each.point)} {_values(found, also, each)}" for also, each in moved)
    return f"In what else was measured, on the same seeds: {differences}."


def _values(found: Results, figure: str, compared: Comparison) -> str:
    values = f"{_plain(found, figure, compared.point)} against {_plain(found, figure, 0)} {FIGURES[figure].unit}"
    return f"{FIGURES[figure].title} {values} ({_tested(compared.difference)})"


def _other_end(found: Results, numbers: list[int]) -> int:
    estimates, sign = found.estimates[found.campaign.decide], 1 if FIGURES[found.campaign.decide].more_is_better else -1
    return min(numbers, key=lambda number: sign * (estimates[number].mean or 0.0))


def _plain(found: Results, figure: str, number: int) -> str:
    mean = found.estimates[figure][number].mean
    return "unknown" if mean is None else format_number(mean)


def _evidence(found: Results) -> str:
    count, seeds = len(found.points), len(found.ended.seeds)
    broke = len(found.violating)
    held = "every invariant held in all of them" if not broke else f"{broke} of them broke an invariant (see below)"
    looks = f"look {found.ended.look} of {found.ended.looks}" if found.ended.looks > 1 else "the only look"
    return (
        f"This rests on {count * seeds} runs, {count} settings on the same {seeds} seeds each, and {held}; "
        f"it ended at {looks}, since {found.ended.reason}."
    )
