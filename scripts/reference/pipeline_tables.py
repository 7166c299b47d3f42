"""Reference page of the pipeline's gold tables: the meaning of a row, its key, the required event types, and the
rules.
"""

from __future__ import annotations

from scripts.reference.markdown import code, document, sentence, table
from zabka.pipeline.audits.jobs import SCHEMA
from zabka.pipeline.campaign.results import DIFFERENCES, ESTIMATES, RUNS, VIOLATIONS
from zabka.pipeline.columns import described
from zabka.pipeline.gold import TABLES, Table
from zabka.pipeline.versions import OLDER_NAMES


def _older_names() -> str:
    return " ".join(f"`{older}` is the older name of `{name}`: a link to it." for older, name in OLDER_NAMES.items())


_INTRODUCTION = (
    "What `zabka pipeline tables` makes of journals, as Parquet. `run` tells histories apart: the place of a journal "
    "below `--data`; it is also in `cluster_run` or in `simulated_run`, and the other one is null. Names end in their "
    "units: `_us` is a moment, in microseconds since 1970 on the clock of the node that reported it, `_ts` the same "
    "moment as a timestamp, and `_ms` a duration in milliseconds; `run_us` is a moment on the one clock of a run: "
    "the monotonic clock, shifted to the usual difference from the wall clocks, if the nodes share one (one host, or a "
    "simulated run), and otherwise the wall clock of the node. Durations between lines of different nodes are on it. "
    "Values that did not happen, or that no journal reports, are null. Every run of the job checks the rules of each "
    "table, and names those that are not met.\n\n"
    f"{_older_names()} It will be removed in the release after 0.1."
)


_AUDITS = (
    "## audits\n\n"
    "What `zabka pipeline audit` found: one row a run and invariant, and of a broken one a row a violation. "
    "`verdict` is held, violated, or not_checked where nothing in that history had to do with it; `checked` counts "
    "its checks (null where a check does not count); `set_aside` are the quarantined lines of the run. Its "
    f"versions lie in `_audits/`, so that an audit does not wait for the stream.\n\nColumns: "
    f"{', '.join(f'`{name}`' for name in SCHEMA.names)}.\n"
)
_CAMPAIGNS = (
    "## Tables of campaigns\n\n"
    "A campaign lies in `DATA/analytics/campaigns/NAME/`, and its tables in those of the lake, "
    "partitioned by `campaign`: [what the figures are](../campaigns/index.md#the-figures).\n\n"
    "| table | a row | columns |\n| --- | --- | --- |\n"
    + "".join(
        f"| `campaign_{name}` | {row} | {', '.join(f'`{column}`' for column in schema.names)} |\n"
        for name, row, schema in (
            ("runs", "a run: its setting, verdict, command, figures, and the measures below them", RUNS),
            (
                "estimates",
                "a setting and figure: the mean over seeds with its interval; of rare events, the share of seeds",
                ESTIMATES,
            ),
            (
                "differences",
                "the same: the paired difference from the baseline, its interval and its p-value",
                DIFFERENCES,
            ),
            ("violations", "a run that broke an invariant", VIOLATIONS),
        )
    )
)


def page() -> str:
    """Return the page of gold tables."""
    listed = table(["table", "a row is identified by"], ([f"[`{t.name}`](#{t.name})", _names(t.key)] for t in TABLES))
    return document(
        "Tables of the pipeline", _INTRODUCTION, listed, *(_section(each) for each in TABLES), _AUDITS, _CAMPAIGNS
    )


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(map(code, names))


def _section(each: Table) -> str:
    sources = f"Made of the events {_names(each.sources)}." if each.sources else f"Made of {each.made_of}."
    rules = "".join(f"- {rule.name}\n" for rule in each.expectations)
    key = f"Identified by {_names(each.key)}; written in the order of {_names(each.order)}."
    columns = table(
        ["column", "type", "meaning; unit"],
        ([code(column.name), code(column.kind), column.meaning] for column in described(each.name)),
    )
    about = f"## {each.name}\n\n{sentence(each.build.__doc__)}\n\n{key} {sources}"
    return f"{about}\n\n{columns}\n\nIt must be true that:\n\n{rules}"
