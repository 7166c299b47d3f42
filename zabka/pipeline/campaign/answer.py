"""Three sentences of answer, made from the figures alone."""

from __future__ import annotations

from zabka.pipeline.campaign.charts import format_number
from zabka.pipeline.campaign.engine import seeds_needed
from zabka.pipeline.campaign.figures import FIGURES
from zabka.pipeline.campaign.results import Results
from zabka.pipeline.campaign.statistics import Estimate
from zabka.pipeline.campaign.stopping import Verdict


def answer(found: Results) -> list[str]:
    """Return the decision, its cost, and its evidence, a sentence each."""
    return [_decision(found), _cost(found), _evidence(found)]


def short(point: dict[str, str]) -> str:
    """Return a setting's values, without the keys, which the title names anyway."""
    return " / ".join(point.values())


def named(found: Results, number: int) -> str:
    """Return a setting for a sentence: its key and value, or all of them if several vary."""
    return ", ".join(f"{key}={value}" for key, value in found.points[number].items())


def interval(estimate: Estimate, unit: str) -> str:
    """Return a mean with its interval and unit."""
    if estimate.mean is None or estimate.low is None or estimate.high is None:
        return "not measured"
    return f"{format_number(estimate.mean)} {unit} ({format_number(estimate.low)} to {format_number(estimate.high)})"


def _decision(found: Results) -> str:
    name = found.campaign.decide
    figure, estimates = FIGURES[name], found.estimates[name]
    if len(found.points) == 1:
        return f"One setting was played, {named(found, 0)}: {figure.title} {interval(estimates[0], figure.unit)}."
    different = [each for each in found.comparisons if each.verdict is Verdict.DIFFERENT]
    baseline = f"{named(found, 0)} with {interval(estimates[0], figure.unit)}"
    if not different:
        equal = all(each.verdict is Verdict.EQUAL for each in found.comparisons)
        seen = "All settings are as good as equal" if equal else "No difference seen"
        return f"{seen} in {figure.title}: {baseline}; no other setting could be told from it{_too_few(found)}."
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


def _too_few(found: Results) -> str:
    seeds, needed = max(each.difference.seeds for each in found.comparisons), seeds_needed(found.campaign)
    if seeds >= needed:
        return ""
    return f", nor could any have been with {seeds} seeds that have this figure: at least {needed} are wanted"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _some(count: int, of: int) -> str:
    if count == of:
        return "every other setting is"
    return f"{count} of the {of} others {'is' if count == 1 else 'are'}"


def _contested(found: Results) -> str:
    """Return the settings that differ from the baseline but could be as good as the best."""
    different = [each.point for each in found.comparisons if each.verdict is Verdict.DIFFERENT]
    close = [short(found.points[number]) for number in found.rivals if number in different]
    return f"; {_listed(close)} may be as good as {short(found.points[found.best])}" if close else ""


def _open(found: Results) -> str:
    rest = [short(found.points[each.point]) for each in found.comparisons if each.verdict is not Verdict.DIFFERENT]
    if not rest:
        return ""
    keys = " / ".join(found.points[0])
    of = f" ({keys})" if len(found.points[0]) > 1 else ""
    return f"; {_listed(rest)} could not be told from {short(found.points[0])}{of} by these seeds"


def _listed(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _cost(found: Results) -> str:
    different = [each.point for each in found.comparisons if each.verdict is Verdict.DIFFERENT]
    other = found.best or (_other_end(found, different) if different else 0)
    if other == 0:
        return _elsewhere(found)
    moved = [also for also in found.campaign.also if _moved(found, also, other, len(found.campaign.also))]
    still = [also for also in found.campaign.also if also not in moved]
    pair = f"With {named(found, other)} in place of {named(found, 0)}"
    if not moved:
        return f"{pair}, no difference was seen in anything else that was measured."
    differences = "; ".join(_values(found, also, other) for also in moved)
    rest = f"; no difference seen in {', '.join(FIGURES[also].title for also in still)}" if still else ""
    return f"{pair}, on the same seeds: {differences}{rest}."


def _elsewhere(found: Results) -> str:
    """Return what else differs from the baseline, if the deciding figure does not."""
    if len(found.points) == 1:
        also = [f"{FIGURES[name].title} {interval(found.estimates[name][0], FIGURES[name].unit)}"
                for name in found.campaign.also]  # fmt: skip
        return f"There is nothing to compare it with{'; besides: ' + '; '.join(also) if also else ''}."
    others = range(1, len(found.points))
    tests = len(found.campaign.also) * len(others)
    moved = [(also, point) for also in found.campaign.also for point in others if _moved(found, also, point, tests)]
    if not moved:
        return "No difference was seen in anything else that was measured either."
    differences = "; ".join(f"with {named(found, point)} {_values(found, also, point)}" for also, point in moved)
    return f"In what else was measured, on the same seeds: {differences}."


def _moved(found: Results, figure: str, point: int, tests: int) -> bool:
    """Return whether the difference from the baseline is significant, as one of `tests` differences."""
    return found.differences[figure][point].p <= (1 - found.campaign.stop.confidence) / tests


def _values(found: Results, figure: str, point: int) -> str:
    values = f"{_plain(found, figure, point)} against {_plain(found, figure, 0)} {FIGURES[figure].unit}"
    return f"{FIGURES[figure].title} {values}"


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
