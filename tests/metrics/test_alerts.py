"""The alerts, evaluated by Prometheus' own tool: each fires on what it is there for, and not on what is near it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from .test_document import ALERTS, ALERTS_FILE

HERE = 'instance="a",job="lcc"'
STORED, FAILED = (
    f'lcc_qm_results_total{{result="stored",{HERE}}}',
    f'lcc_qm_results_total{{result="http-5xx",{HERE}}}',
)
NOW, CAPACITY = f'lcc_qm_waiting_urls{{priority="0",state="now",{HERE}}}', f"lcc_qm_capacity{{{HERE}}}"
LAG, BEAT, TOOK = (
    "lcc_qm_provider_lag_seconds_bucket",
    "lcc_reactor_lag_seconds_bucket",
    "lcc_database_transaction_seconds_bucket",
)

# What Prometheus has read, every minute, as it writes it: "first+step x times".
FIRES: dict[str, dict[str, str]] = {
    "LccDown": {f"up{{{HERE}}}": "0x300"},
    "LccNotReady": {f'lcc_ready{{role="qm",{HERE}}}': "0x300"},
    "LccRestarts": {f"process_start_time_seconds{{{HERE}}}": "0+600x300"},
    "LccPaused": {f"lcc_uns_paused{{{HERE}}}": "1x300"},
    "LccOverloaded": {f"lcc_qm_overloaded{{{HERE}}}": "1x300"},
    "LccNoRobots": {CAPACITY: "0x300", f"lcc_qm_queue_urls{{{HERE}}}": "3x300"},
    # Not one fetch since its start.
    "LccNothingFetched": {NOW: "3x300", CAPACITY: "8x300", STORED: "0x300", FAILED: "0x300"},
    "LccQueueOld": {f"lcc_qm_oldest_seconds{{{HERE}}}": "86401x300"},
    "LccManyProvidersWait": {
        f'{LAG}{{le="14400.0",{HERE}}}': "40x300",
        f'{LAG}{{le="43200.0",{HERE}}}': "100x300",
        f'{LAG}{{le="+Inf",{HERE}}}': "100x300",
    },
    "LccFetchesFail": {STORED: "0+40x300", FAILED: "0+60x300"},
    "LccSitesUnreachable": {
        f'lcc_qm_providers_delayed{{reason="site-error",{HERE}}}': "21x300",
        f"lcc_qm_providers_registered{{{HERE}}}": "100x300",
    },
    "LccLeasesPass": {f"lcc_qm_leases_passed_total{{{HERE}}}": "0+1x300"},
    "LccSpoolFills": {f"lcc_uns_spool_bytes{{{HERE}}}": "6x300", f"lcc_uns_spool_max_bytes{{{HERE}}}": "10x300"},
    "LccSpoolOld": {f"lcc_uns_spool_oldest_seconds{{{HERE}}}": "3601x300"},
    "LccSpoolDamaged": {f"lcc_uns_sets_refused_late_total{{{HERE}}}": "0x280 1x20"},
    "LccContentDiskFull": {
        f"lcc_botm_disk_free_bytes{{{HERE}}}": "19x300",
        f"lcc_botm_disk_reserve_bytes{{{HERE}}}": "10x300",
    },
    "LccDatabaseAway": {f'lcc_database_retries_total{{reason="lost",role="cu",{HERE}}}': "0+1x300"},
    "LccDatabaseSlow": {
        f'{TOOK}{{kind="write",le="5.0",role="qm",{HERE}}}': "0+90x300",
        f'{TOOK}{{kind="write",le="10.0",role="qm",{HERE}}}': "0+100x300",
        f'{TOOK}{{kind="write",le="+Inf",role="qm",{HERE}}}': "0+100x300",
    },
    "LccReactorBlocked": {
        f'{BEAT}{{le="1.0",{HERE}}}': "0+97x300",
        f'{BEAT}{{le="2.5",{HERE}}}': "0+100x300",
        f'{BEAT}{{le="+Inf",{HERE}}}': "0+100x300",
    },
    "LccOpenFiles": {f"process_open_fds{{{HERE}}}": "81x300", f"process_max_fds{{{HERE}}}": "100x300"},
    "LccConnectionsRefused": {f'lcc_port_connections_refused_total{{port="cu.listen",{HERE}}}': "0+61x300"},
    "LccManagersMissing": {f'lcc_scheduler_managers{{state="missing",{HERE}}}': "1x300"},
    "LccJobsLost": {f'lcc_scheduler_jobs_ended_total{{state="lost",{HERE}}}': "0x270 2x30"},
    "LccJobsWait": {f"lcc_scheduler_job_waiting_seconds{{{HERE}}}": "3601x300"},
    # Nothing is copied, of rows or files.
    "LccMoveStuck": {
        f'lcc_qm_move_state_seconds{{state="copying",{HERE}}}': "0+60x300",
        f"lcc_qm_move_rows_total{{{HERE}}}": "70x300",
        f"lcc_qm_move_files_left{{{HERE}}}": "30x300",
    },
    "LccMoveFreezes": {f"lcc_qm_move_freezes_given_up_total{{{HERE}}}": "0+1x300"},
    "LccFrontEndBehind": {f"lcc_qm_moves_behind{{{HERE}}}": "1x300"},
    "LccSearchBehind": {f"lcc_search_lag_seconds{{{HERE}}}": "301x300"},
    "LccFiguresOld": {f"lcc_qm_survey_timestamp_seconds{{{HERE}}}": "1x300"},
}
"""Alert -> series on which it fires in the end."""

IS_WELL: dict[str, dict[str, str]] = {
    "LccDown": {f"up{{{HERE}}}": "0x298 1x2", 'up{instance="a",job="other"}': "0x300"},
    "LccNotReady": {f'lcc_ready{{role="qm",{HERE}}}': "1x297 0x3"},
    "LccRestarts": {f"process_start_time_seconds{{{HERE}}}": "7x300"},
    "LccPaused": {f"lcc_uns_paused{{{HERE}}}": "0x270 1x30"},
    "LccOverloaded": {f"lcc_qm_overloaded{{{HERE}}}": "0x290 1x10"},
    "LccNoRobots": {CAPACITY: "0x300", f"lcc_qm_queue_urls{{{HERE}}}": "0x300"},
    # What is queued must wait for its hours; and: fetches end, though seldom.
    "LccNothingFetched": {NOW: "3x300", CAPACITY: "8x300", STORED: "0x290 1x10", FAILED: "0x300"},
    "LccQueueOld": {f"lcc_qm_oldest_seconds{{{HERE}}}": "86399x300"},
    "LccManyProvidersWait": {f'{LAG}{{le="14400.0",{HERE}}}': "0x300", f'{LAG}{{le="+Inf",{HERE}}}': "0x300"},
    "LccFetchesFail": {STORED: "0+60x300", FAILED: "0+40x300"},
    "LccSitesUnreachable": {
        f'lcc_qm_providers_delayed{{reason="site-error",{HERE}}}': "21x300",
        f"lcc_qm_providers_registered{{{HERE}}}": "1000x300",
    },
    "LccLeasesPass": {f"lcc_qm_leases_passed_total{{{HERE}}}": "5x300"},
    "LccSpoolFills": {f"lcc_uns_spool_bytes{{{HERE}}}": "4x300", f"lcc_uns_spool_max_bytes{{{HERE}}}": "10x300"},
    "LccSpoolOld": {f"lcc_uns_spool_oldest_seconds{{{HERE}}}": "0x300"},
    "LccSpoolDamaged": {f"lcc_uns_sets_refused_late_total{{{HERE}}}": "7x300"},
    "LccContentDiskFull": {
        f"lcc_botm_disk_free_bytes{{{HERE}}}": "21x300",
        f"lcc_botm_disk_reserve_bytes{{{HERE}}}": "10x300",
    },
    # Deadlocks are no trouble.
    "LccDatabaseAway": {f'lcc_database_retries_total{{reason="again",role="cu",{HERE}}}': "0+1x300"},
    "LccDatabaseSlow": {
        f'{TOOK}{{kind="write",le="5.0",role="qm",{HERE}}}': "0+99x300",
        f'{TOOK}{{kind="write",le="+Inf",role="qm",{HERE}}}': "0+100x300",
    },
    "LccReactorBlocked": {
        f'{BEAT}{{le="1.0",{HERE}}}': "0+100x300",
        f'{BEAT}{{le="+Inf",{HERE}}}': "0+100x300",
    },
    "LccOpenFiles": {f"process_open_fds{{{HERE}}}": "79x300", f"process_max_fds{{{HERE}}}": "100x300"},
    "LccConnectionsRefused": {f'lcc_port_connections_refused_total{{port="cu.listen",{HERE}}}': "0+1x300"},
    "LccManagersMissing": {f'lcc_scheduler_managers{{state="connected",{HERE}}}': "1x300"},
    "LccJobsLost": {f'lcc_scheduler_jobs_ended_total{{state="lost",{HERE}}}': "2x300"},
    "LccJobsWait": {f"lcc_scheduler_job_waiting_seconds{{{HERE}}}": "3599x300"},
    # It takes long, but files come.
    "LccMoveStuck": {
        f'lcc_qm_move_state_seconds{{state="copying",{HERE}}}': "0+60x300",
        f'lcc_qm_move_state_seconds{{state="flipped",{HERE}}}': "0x280 0+60x20",
        f"lcc_qm_move_rows_total{{{HERE}}}": "70x300",
        f"lcc_qm_move_files_left{{{HERE}}}": "9000-30x300",
    },
    "LccMoveFreezes": {f"lcc_qm_move_freezes_given_up_total{{{HERE}}}": "0x280 1x20"},
    "LccFrontEndBehind": {f"lcc_qm_moves_behind{{{HERE}}}": "0x300"},
    "LccSearchBehind": {f"lcc_search_lag_seconds{{{HERE}}}": "299x300"},
    "LccFiguresOld": {f"lcc_qm_survey_timestamp_seconds{{{HERE}}}": "0x300"},
}
"""The same, on which it does not."""


def case(all_series: dict[str, dict[str, str]], expected: dict[str, int]) -> dict[str, Any]:
    """A test for promtool: each alert has an instance of its own, and fires as often at the end."""
    series = [
        {"series": name.replace('instance="a"', f'instance="{alert}"'), "values": values}
        for alert, each in all_series.items()
        for name, values in each.items()
    ]
    firing = 'count(ALERTS{{alertname="{}",alertstate="firing"}}) or vector(0)'
    asked = [
        {"expr": firing.format(alert), "eval_time": "299m", "exp_samples": [{"labels": "{}", "value": count}]}
        for alert, count in expected.items()
    ]
    return {"interval": "1m", "input_series": series, "promql_expr_test": asked}


def promtool(folder: Path, *cases: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("there is no promtool here (on Debian: the package prometheus)")
    path = folder / "tests.yml"
    path.write_text(
        yaml.safe_dump({"rule_files": [str(ALERTS_FILE)], "evaluation_interval": "1m", "tests": list(cases)})
    )
    return subprocess.run([program, "test", "rules", path], capture_output=True, text=True, timeout=300, check=False)


def test_all_of_them_are_tried() -> None:
    assert list(FIRES) == list(IS_WELL) == [rule["alert"] for rule in ALERTS]


def test_they_fire_when_they_should_and_only_then(tmp_path: Path) -> None:
    done = promtool(tmp_path, case(FIRES, dict.fromkeys(FIRES, 1)), case(IS_WELL, dict.fromkeys(IS_WELL, 0)))
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_wrong_expectation_is_found(tmp_path: Path) -> None:
    assert promtool(tmp_path, case({"LccDown": FIRES["LccDown"]}, {"LccDown": 0})).returncode != 0
