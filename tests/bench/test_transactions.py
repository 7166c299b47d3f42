"""The benchmark of transactions, against real brokers."""

from __future__ import annotations

import pytest
import typer

from bench.transactions import PRODUCERS, RECORDS, Work, main


def test_titles_of_transactional_workloads_differ() -> None:
    titles = {Work(producers, records).title for producers in PRODUCERS for records in RECORDS}
    assert len(titles) == len(PRODUCERS) * len(RECORDS)


@pytest.mark.long
def test_short_run_measures_transactions_of_zabka_brokers(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended:
        main(only="ours", quick=True)
    assert ended.value.exit_code == 0
    assert "16 producers, 100 records each" in capsys.readouterr().out
