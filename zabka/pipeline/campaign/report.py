"""Writes the report of a campaign: one HTML file without scripts or links to other files."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from html import escape, unescape
from itertools import pairwise

from zabka.pipeline.campaign.answer import answer, chance, paired, share, short
from zabka.pipeline.campaign.charts import Axis, Mark, Series, chart, format_number, number_axis, scatter
from zabka.pipeline.campaign.figures import FIGURES, Figure
from zabka.pipeline.campaign.provenance import Provenance
from zabka.pipeline.campaign.results import Results
from zabka.pipeline.campaign.statistics import BOOTSTRAP_SEEDS, Estimate, unseen_share
from zabka.pipeline.campaign.stopping import cost_level, level_of

FAILOVER, FALSE = "failover_ms", "false_expiries"
AVAILABILITIES = ("client_availability", "availability")
_RUN_BEGIN, _RUN_END = '<pre id="first-run">', "</pre>"
STYLE = """
:root { color-scheme: light dark; --ink: #1f2328; --soft: #59636e; --rule: #d8dee4; --paper: #ffffff;
  --s1: #0b62c4; --s2: #b35900; --s3: #1a7f37; --s4: #8250df; --s5: #a40e26; --s6: #57606a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --soft: #9198a1; --rule: #30363d; --paper: #0d1117;
  --s1: #58a6ff; --s2: #e3a04d; --s3: #56d364; --s4: #bc8cff; --s5: #ff7b72; --s6: #8b949e; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0 auto;
  max-width: 860px; padding: 24px 20px 64px; }
h1 { font-size: 28px; line-height: 1.2; margin: 8px 0 16px; } h2 { font-size: 19px; margin: 40px 0 4px; }
p, li { max-width: 74ch; } .soft, figcaption { color: var(--soft); font-size: 14px; }
ol.answer { padding-left: 20px; } ol.answer li { margin: 0 0 10px; }
figure { margin: 12px 0 0; } svg { width: 100%; height: auto; display: block; }
svg text { font: 12px system-ui, sans-serif; fill: var(--soft); } svg .axis { fill: var(--ink); }
svg .name { fill: var(--c); paint-order: stroke; stroke: var(--paper); stroke-width: 4px; }
.grid { stroke: var(--rule); stroke-width: 1; }
.line { fill: none; stroke-width: 1.5; opacity: .55; } .whisker { stroke-width: 2; }
.s1 { --c: var(--s1); } .s2 { --c: var(--s2); } .s3 { --c: var(--s3); } .s4 { --c: var(--s4); }
.s5 { --c: var(--s5); } .s6 { --c: var(--s6); }
.line, .whisker { stroke: var(--c); } circle { fill: var(--c); } .bar { fill: var(--c); opacity: .22; }
.seed { opacity: .4; }
ul.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 4px 18px; padding: 0; margin: 4px 0 0;
  font-size: 14px; } ul.legend li::before { content: ""; display: inline-block; width: 10px; height: 10px;
  border-radius: 50%; background: var(--c); margin-right: 6px; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: 14px; margin: 8px 0;
  font-variant-numeric: tabular-nums; } th, td { text-align: right; padding: 4px 10px; border-bottom: 1px solid
  var(--rule); } th:first-child, td:first-child { text-align: left; } th { font-weight: 600;
  vertical-align: bottom; } td { white-space: nowrap; vertical-align: top; }
td span { color: var(--soft); font-size: 13px; }
code, pre { font: 13px/1.45 ui-monospace, monospace; } pre { overflow-x: auto; padding: 12px; border: 1px solid
  var(--rule); border-radius: 6px; }
"""


def report(found: Results, definition: str, made: Provenance) -> str:
    """Return the report as an HTML page. `definition` is the text of the campaign's file."""
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(found.campaign.question)}</title><style>{STYLE}</style></head><body>",
        f'<p class="soft">{escape(_origin(found, made))}</p>',
        f"<h1>{escape(found.campaign.question)}</h1>",
        '<ol class="answer">',
        *(f"<li>{escape(sentence)}</li>" for sentence in answer(found)),
        "</ol>",
        *_charts(found),
        *_table(found),
        *_violations(found),
        *_method(found),
        *_one_run(found),
        f"<h2>The campaign's file</h2><pre>{escape(definition)}</pre>",
        "</body></html>\n",
    ]
    return "\n".join(parts)


def _origin(found: Results, made: Provenance) -> str:
    seeds = found.ended.seeds
    used = f"{seeds[0]}-{seeds[-1]}" if len(seeds) > 1 else f"{seeds[0]}"
    of = "" if len(seeds) == len(found.campaign.seed_numbers()) else f" of {found.campaign.seeds}"
    return f"A campaign of simulated runs: zabka {made.version}, {made.code}, {made.date}; seeds {used}{of}"


def _charts(found: Results) -> Iterator[str]:
    measured = dict.fromkeys((found.campaign.decide, *found.campaign.also))
    yield from (_response(found, name) for name in measured if _is_known(found, name))
    if {FAILOVER, FALSE} <= measured.keys():
        yield _trade_off(found)
    if not any(name in measured for name in AVAILABILITIES) and _is_known(found, AVAILABILITIES[0]):
        yield _response(found, AVAILABILITIES[0])


def _is_known(found: Results, name: str) -> bool:
    return any(each.mean is not None for each in found.estimates[name])


def _response(found: Results, name: str) -> str:
    figure = FIGURES[name]
    x, places, series_key = _first_axis(found)
    series: dict[str, list[Mark]] = {}
    for number, point in enumerate(found.points):
        seen = found.estimates[name][number]
        if seen.mean is not None:
            mark = Mark(places[number], *_drawn(seen), short(point), tuple(found.values[name][number].values()))
            series.setdefault(_series_name(point, series_key), []).append(mark)
    in_order = [Series(key, sorted(marks)) for key, marks in sorted(series.items())]
    values = [value for one in in_order for mark in one.marks for value in (mark.low, mark.high, *mark.seeds)]
    if math.isclose(min(values), max(values)) and all(seen.seeds > 1 for seen in found.estimates[name]):
        return _always(found, name, values[0])
    from_zero = figure.unit != "%"
    y = number_axis("number a run" if figure.unit == "a run" else figure.unit, values, from_zero=from_zero)
    lines = _is_scale([text for _, text in x.ticks])
    # Draw no bars for percentages: most of them are near 100 %, so their axis does not begin at 0, and bars that do not
    # begin at 0 would mislead.
    drawn = chart(figure.title, x, y, in_order, lines=lines, bars=from_zero and not lines)
    caption = (
        f"Mean over seeds and its interval, with a small dot for each seed; "
        f"{'more' if figure.more_is_better else 'less'} is better."
    )
    if any(seen.seeds == 1 for seen in found.estimates[name]):
        caption += " A mark without an interval rests on one seed."
    if any(seen.rare and seen.rare.seeds for seen in found.estimates[name]):
        caption += " A mean that few seeds make has no interval; the table has the share of these seeds."
    return _figure(_heading(figure), drawn, caption)


def _is_scale(values: list[str]) -> bool:
    """Return whether these values are numbers at equal distances, so that a line may join them in a chart."""
    if len(values) < 2 or not all(value.isdigit() for value in values):
        return False
    return len({int(after) - int(before) for before, after in pairwise(values)}) == 1


def _drawn(seen: Estimate) -> tuple[float, float, float]:
    """Return the mean and both ends of its confidence interval. Without an interval, all three are the mean."""
    mean = seen.mean or 0.0
    return mean, mean if seen.low is None else seen.low, mean if seen.high is None else seen.high


def _heading(figure: Figure) -> str:
    return figure.title[0].upper() + figure.title[1:]


def _always(found: Results, name: str, value: float) -> str:
    """Return the sentence that replaces the chart of a figure if every run had the same value."""
    seeds = [seen.seeds for seen in found.estimates[name]]
    caption = (
        f"{format_number(value)} {FIGURES[name].unit} in each of {sum(seeds):,} runs, so there is nothing to draw."
    )
    if value == 0:
        share = format_number(100 * unseen_share(min(seeds), found.campaign.stop.confidence))
        caption += f" What occurs up to {share} % of all seeds need not have shown in {min(seeds)} of them."
    return f"<h2>{escape(_heading(FIGURES[name]))}</h2><p>{escape(caption)}</p>"


def _series_name(point: dict[str, str], keys: list[str]) -> str:
    return ", ".join(f"{key}={point[key]}" for key in keys)


def _first_axis(found: Results) -> tuple[Axis, list[float], list[str]]:
    """Return the x axis, each setting's position on it, and the keys that distinguish the series.

    The axis shows the values of the key with the most values, sorted. The values of the other keys distinguish the
    series. If there would be more than six series, each setting has a separate position instead.
    """
    keys = list(found.points[0])
    values = {key: list(dict.fromkeys(point[key] for point in found.points)) for key in keys}
    first = max(keys, key=lambda key: len(values[key]))
    rest = [key for key in keys if key != first]
    if len({_series_name(point, rest) for point in found.points}) > 6:
        ticks = [(float(number), short(point)) for number, point in enumerate(found.points)]
        return Axis("setting: " + " / ".join(keys), -0.5, len(ticks) - 0.5, ticks), [at for at, _ in ticks], []
    ordered = sorted(values[first], key=_in_order)
    ticks = [(float(number), value) for number, value in enumerate(ordered)]
    places = [float(ordered.index(point[first])) for point in found.points]
    title = first if all(value.isdigit() for value in ordered) else f"setting: {first}"
    return Axis(title, -0.5, len(ticks) - 0.5, ticks), places, rest


def _in_order(value: str) -> tuple[bool, float, str]:
    return (not value.isdigit(), float(value) if value.isdigit() else 0.0, value)


def _trade_off(found: Results) -> str:
    marks, intervals = [], []
    for number, point in enumerate(found.points):
        x, y = found.estimates[FAILOVER][number], found.estimates[FALSE][number]
        if x.mean is not None and y.mean is not None:
            marks.append(Mark(x.mean, *_drawn(y), short(point)))
            intervals.append(_drawn(x)[1:])
    x_axis = number_axis("failover of a partition, ms", [v for pair in intervals for v in pair], from_zero=True)
    y_axis = number_axis("false expiries a run", [v for m in marks for v in (m.low, m.high)], from_zero=True)
    drawn = scatter("Failover time against false expiries", x_axis, y_axis, marks, intervals)
    return _figure(
        "Failover time against false expiries",
        drawn,
        "One mark a setting. Down and to the left is better, and nobody gets both for nothing.",
    )


def _figure(title: str, drawn: str, caption: str) -> str:
    return f"<h2>{escape(title)}</h2><figure>{drawn}<figcaption>{escape(caption)}</figcaption></figure>"


def _table(found: Results) -> Iterator[str]:
    names = list(dict.fromkeys((found.campaign.decide, *found.campaign.also, AVAILABILITIES[0], "lost_records")))
    yield "<h2>All figures</h2><div class='wide'><table><thead><tr><th>setting</th>"
    yield "".join(f"<th>{escape(FIGURES[name].title)}, {escape(FIGURES[name].unit)}</th>" for name in names)
    yield "</tr></thead><tbody>"
    for number, point in enumerate(found.points):
        cells = "".join(f"<td>{_cell(found, name, number)}</td>" for name in names)
        yield f"<tr><td>{escape(short(point))}</td>{cells}</tr>"
    yield "</tbody></table></div>"
    yield f"<p class='soft'>Settings: {escape(' / '.join(found.points[0]))}. The first row is the baseline. "
    yield "Below each mean its interval, the number of its seeds where not all have that figure (the same seeds for "
    yield "each setting), and of its failovers. "
    yield "If few seeds differ from the usual value, their share of all seeds has the interval.</p>"
    if found.comparisons:
        yield from _differences(found)


def _differences(found: Results) -> Iterator[str]:
    yield "<h2>Differences from the baseline, on the same seeds</h2>"
    yield "<div class='wide'><table><thead><tr><th>setting</th>"
    yield "<th>difference</th><th>p</th><th>seeds</th><th>verdict</th></tr></thead><tbody>"
    for name, compared in {found.campaign.decide: found.comparisons, **found.costs}.items():
        yield f"<tr><th colspan='5'>{escape(FIGURES[name].title)}, {escape(FIGURES[name].unit)}</th></tr>"
        for each in compared:
            seen = each.difference
            yield (
                f"<tr><td>{escape(short(found.points[each.point]))}</td><td>{escape(paired(seen))}</td>"
                f"<td>{escape(chance(seen.p))}</td><td>{seen.seeds}</td><td>{each.verdict}</td></tr>"
            )
    yield "</tbody></table></div>"


def _cell(found: Results, name: str, number: int) -> str:
    seen = found.estimates[name][number]
    if seen.mean is None:
        return "not measured"
    below = []
    if seen.rare is not None and seen.rare.seeds:
        usual = format_number(seen.rare.usual)
        below += [f"{usual} in all but {_counted(seen.rare.seeds, 'seed')}", f"({share(seen.rare)} of all seeds)"]
    elif seen.low is not None and seen.high is not None and not math.isclose(seen.low, seen.high):
        below.append(f"{format_number(seen.low)} to {format_number(seen.high)}")
    if seen.seeds != len(found.ended.seeds):
        below.append(_counted(seen.seeds, "seed"))
    if (failovers := found.failovers(name, number)) is not None:
        below.append(_counted(failovers, "failover"))
    return format_number(seen.mean) + (f"<br><span>{'<br>'.join(below)}</span>" if below else "")


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _violations(found: Results) -> Iterator[str]:
    if not found.violating:
        return
    yield "<h2>Broken invariants</h2><ul>"
    for run in found.violating:
        yield f"<li><code>{escape(run.command)}</code><br>{escape(run.problems[0])}</li>"
    yield "</ul>"


def _one_run(found: Results) -> Iterator[str]:
    """Yield the lines of the report about the baseline's first run.

    `run_of_report` reads these lines to check whether this run still has the same figures.
    """
    run = next((run for run in found.runs if run.point == 0), None)
    if run is None:
        return
    names = dict.fromkeys((found.campaign.decide, *found.campaign.also))
    known = {name: value for name in names if (value := run.figures.get(name)) is not None}
    text = json.dumps({"seed": run.seed, "figures": known}, indent=1)
    yield "<h2>Whether it still holds</h2>"
    yield (
        f"<p>The baseline with seed {run.seed} had these figures. If a later version has others, the campaign must be "
        f"run again: <code>{escape(run.command)}</code></p>"
    )
    yield f"{_RUN_BEGIN}{escape(text, quote=False)}{_RUN_END}"


def run_of_report(page: str) -> tuple[int, dict[str, float]]:
    """Return the seed and the figures of the baseline's first run in a report. Raises ValueError if it has none."""
    _, found, after = page.partition(_RUN_BEGIN)
    if not found:
        raise ValueError("the report has no run of the baseline: it was made by an older version")
    run = json.loads(unescape(after.partition(_RUN_END)[0]))
    return run["seed"], run["figures"]


def _method(found: Results) -> Iterator[str]:
    stop = found.campaign.stop
    percent = format_number(100 * stop.confidence)
    level = level_of(stop.confidence, found.ended.looks, len(found.points))
    cost = cost_level(stop.confidence, found.ended.looks, len(found.campaign.also))
    yield "<h2>How it was measured</h2>"
    yield (
        f"<p>Every setting suffers the same faults at the same times, seed by seed; figures are taken while faults are "
        f"done, and records count as lost where they were acknowledged and are in the end not in their log. Means have "
        f"{percent} % intervals over seeds: bootstrap-t from {BOOTSTRAP_SEEDS} seeds on, and Student's t below that. "
        f"A difference is called one where the paired sign-flip test's p is at most {level:.2g}: "
        f"{format_number(100 - 100 * stop.confidence)} % shared out among {_counted(found.ended.looks, 'look')} and "
        f"{_counted(max(1, len(found.points) - 1), 'comparison')}, so that looking early makes "
        f"no false alarm likelier; "
        f"in the other figures, {cost:.2g}, and where the answer searches all settings for other differences, that "
        f"divided by the number of other settings. The interval of a difference has all differences that the test does "
        f"not reject at that level: without 0, if and only if p is at most the level. No difference counts as absent "
        f"unless the file gives a size (equal_within) that these seeds would have shown in 80 % of cases.</p>"
    )
    yield (
        "<p class='soft'>Not measured: clients that are far away, disks and networks of a real machine, and how often "
        "such faults happen to you. The figures say how settings compare under these faults, not what your cluster "
        "will have.</p>"
    )
