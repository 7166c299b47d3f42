"""The lake's table `audits` as an API response: verdicts for each invariant, and the first violations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from zabka.api.analytics.tables import rows_of
from zabka.api.http.problems import Problem
from zabka.api.scenarios.campaign_models import Audits, AuditVerdicts, AuditViolation

AUDITS = "audits"
SHOWN_MAX = 50
VERDICTS = ("held", "violated", "not_checked")


def audits(lake: Path, data: Path) -> Audits:
    """Return the results of the last audit, or a result with zero runs if there was no audit.

    Raises Problem 503 if the table cannot be read.
    """
    place, command = lake / AUDITS, f"zabka pipeline audit {data}"
    about = rows_of(place)
    none = Audits(
        runs=0, events=0, set_aside=0, written_ms=None, verdicts=[], violated=0, violations=[], command=command
    )
    if about is None:
        return none
    import pyarrow as pa
    import pyarrow.dataset as ds

    try:
        # The table's path is a symbolic link to one version of the table. After the link has been changed to a newer
        # version, the old version is kept for some time and then deleted.
        table = ds.dataset(place.resolve(), format="parquet", exclude_invalid_files=True)
        verdicts = table.to_table(columns=["run", "invariant", "verdict", "events", "set_aside"])
        broken = ds.field("verdict") == "violated"
        shown = table.head(SHOWN_MAX, columns=[*AuditViolation.model_fields], filter=broken).to_pylist()
        violated = table.count_rows(filter=broken)
    except FileNotFoundError:
        # The file does not exist because the pipeline is replacing the table, or is deleting old versions of it.
        return none
    except (pa.ArrowException, OSError) as reason:
        raise Problem(503, f"the table of audits is damaged: {reason}", command=command) from None
    runs = verdicts.group_by("run").aggregate([("events", "max"), ("set_aside", "max")])
    return Audits(
        runs=runs.num_rows,
        events=sum(runs["events_max"].to_pylist()),
        set_aside=sum(runs["set_aside_max"].to_pylist()),
        written_ms=about[1],
        verdicts=_verdicts(verdicts),
        violated=violated,
        violations=[AuditViolation(**row) for row in shown],
        command=command,
    )


def _verdicts(verdicts: Any) -> list[AuditVerdicts]:
    counts: dict[str, dict[str, int]] = {}
    for row in verdicts.group_by(["invariant", "verdict"]).aggregate([("run", "count_distinct")]).to_pylist():
        counts.setdefault(row["invariant"], dict.fromkeys(VERDICTS, 0))[row["verdict"]] = row["run_count_distinct"]
    return [AuditVerdicts(invariant=name, **of) for name, of in sorted(counts.items())]
