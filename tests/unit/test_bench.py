"""Benchmark arithmetic, and generation of floors (baseline measurements)."""

import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import pytest

from bench import limiter, memory, parts, pgbench, report
from bench.data import row_id
from bench.drain import Drained
from bench.figures import Cpu, Run, Target, cpu_share, percentile, share
from bench.load import request
from bench.parts import Measured, Part, Side
from bench.processes import Foreign
from bench.purchases import STEPS, Figures
from bench.recording import Recorded
from bench.reference import Reference
from bench.statements import floor_of


def run_of(requests: int, *, seconds: float = 1.0, each: float = 0.001, cpu: Cpu | None = None) -> Run:
    timings = [(str(number), each) for number in range(requests)]
    return Run(seconds, timings, Counter({200: requests}), cpu or Cpu())


@pytest.mark.parametrize(
    ("percent", "expected"), [(50, 5), (90, 9), (95, 10), (99, 10), (100, 10), (10, 1), (0.1, 1)]
)
def test_percentile_is_the_nearest_rank(percent: float, expected: float) -> None:
    assert percentile([10, 1, 9, 2, 8, 3, 7, 4, 6, 5], percent) == expected


def test_percentile_of_single_value_is_the_value_and_of_nothing_is_zero() -> None:
    assert percentile([7.5], 99) == 7.5
    assert percentile([], 50) == 0


@pytest.mark.parametrize("percent", [0, -1, 100.1])
def test_percentile_out_of_range_is_refused(percent: float) -> None:
    with pytest.raises(ValueError, match="percentile"):
        percentile([1], percent)


def test_figures_of_two_runs_are_combined() -> None:
    total = run_of(100, seconds=1, cpu=Cpu(0.1, 0.2, 0.3)) + run_of(300, seconds=3, cpu=Cpu(0.3, 0.2, 0.1))
    assert (total.requests, total.seconds, total.per_second) == (400, 4, 100)
    assert total.cpu_ms(total.cpu.web) == pytest.approx(1.0)
    assert total.cpu_ms(total.cpu.database) == pytest.approx(1.0)
    assert total.statuses == {200: 400}
    assert total.percentile_ms(99) == pytest.approx(1.0)


def test_empty_run_has_zero_rates() -> None:
    assert (Run().per_second, Run().cpu_ms(1), share(Run(), Run()), cpu_share(Run(), Run())) == (0, 0, 0, 0)


def test_shares_are_relative_to_the_floor() -> None:
    floor = run_of(2_000, cpu=Cpu(web=0.4, database=0.4, cache=0.2))
    figure = run_of(1_000, cpu=Cpu(web=0.8, database=0.1, cache=0.1))
    assert share(figure, floor) == pytest.approx(0.5)
    assert cpu_share(figure, floor) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("target", "met"),
    [
        (Target(share=0.5), True),
        (Target(share=0.51), False),
        (Target(share=0.5, p99_ms=20), True),
        (Target(share=0.5, p99_ms=19), False),
        (Target(longest_ms=20), True),
        (Target(longest_ms=19), False),
        (Target(p95_ms=12), True),
        (Target(p95_ms=11), False),
        (Target(own_p95_ms=25), True),
        (Target(own_p95_ms=24), False),
    ],
)
def test_target_is_met_only_if_all_parts_are_met(target: Target, *, met: bool) -> None:
    run = Run(1.0, [("", 0.001)] * 90 + [("", 0.012)] * 6 + [("", 0.020)] * 4)
    assert target.met(run, share=0.5, own_p95_ms=25) is met


def test_missing_measurement_meets_no_target() -> None:
    assert not Target(share=0.1).met(Run(), share=None, own_p95_ms=None)
    assert not Target(own_p95_ms=1).met(Run(), share=1, own_p95_ms=None)


def test_memory_above_limit_or_growing_is_reported_as_missed() -> None:
    assert memory.line([(2_000, 100.0), (10_000, 104.9)]).endswith(" met")
    assert memory.line([(2_000, 100.0), (10_000, 105.1)]).endswith(" MISSED")
    assert memory.line([(2_000, 111.0), (10_000, 111.0)]).endswith(" MISSED")


def test_share_of_limiter_is_its_cpu_divided_by_that_of_an_empty_route() -> None:
    empty = run_of(1_000, cpu=Cpu(web=0.2))
    met = limiter.line(empty, run_of(500, cpu=Cpu(web=0.165)))
    assert met.startswith("limiter: 0.130 ms of CPU, 0.65 of an empty Flask route's 0.200 ms")
    assert met.endswith(" met")
    assert limiter.line(empty, run_of(500, cpu=Cpu(web=0.175))).endswith(" MISSED")
    assert limiter.line(empty, Run(1.0, statuses=Counter({429: 9}))).endswith(" MISSED")


def measured(figure: Run, floor: Run) -> Measured:
    side = Side("figure", lambda _seconds: figure)
    part = Part("part", side, (Side("floor", lambda _seconds: floor),), Target(share=0.5))
    return Measured(part, figure, (floor,), None)


def test_table_lists_floors_before_figure_and_marks_met_targets() -> None:
    rows = report.rows_of(measured(run_of(600), run_of(1_000)))
    assert [(row["title"], row["floor"], row.get("met")) for row in rows] == [
        ("floor", True, None),
        ("figure", False, True),
    ]
    lines = report.table(rows).splitlines()
    assert lines[2].startswith("  floor")
    assert "1,000" in lines[2]
    assert lines[3].startswith("figure")
    assert " 0.60 " in lines[3]
    assert lines[3].endswith("met")


def test_busy_and_scaled_rounds_are_marked_and_busy_figure_decides_nothing() -> None:
    quiet = replace(measured(run_of(600), run_of(1_000)), rounds=3, scaled_rounds=1)
    assert report.table(report.rows_of(quiet)).splitlines()[3].endswith("met scaled 1/3")
    busy = replace(quiet, scaled_rounds=0, busy_rounds=2)
    assert report.table(report.rows_of(busy)).splitlines()[3].endswith(">= 0.50  BUSY 2/3")


def test_disturbed_round_is_repeated_and_quietest_try_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    shares = iter([0.9, 0.3, 0.5, 0.4, 0.6, 0.2, 0.05])
    monkeypatch.setattr(Foreign, "share", lambda _self: next(shares))
    sides = iter([Run(1.0), *(Run(1.0, [("", float(number))]) for number in range(7))])
    part = Part("part", Side("figure", lambda _seconds: next(sides)))
    found = parts.measure(
        part,
        seconds=2,
        rounds=2,
        reference=Reference(lambda _seconds: 1.0, recorded=None),
        tell=lambda _line: None,
    )
    assert found.figure is not None
    assert [took for _, took in found.figure.timings] == [1.0, 6.0]
    assert found.busy_rounds == 1


@pytest.mark.parametrize(("present", "factor"), [(1_000, 1.0), (910, 1.0), (800, 0.8), (1_200, 1.2)])
def test_durations_are_scaled_when_reference_is_more_than_a_tenth_off(present: float, factor: float) -> None:
    reference = Reference(lambda _seconds: present, recorded=1_000)
    assert reference.factor() == factor
    scaled = Run(2.0, [("", 0.1)], cpu=Cpu(web=1.0)).scaled(factor)
    assert (scaled.seconds, scaled.timings[0][1], scaled.cpu.web) == pytest.approx(
        (2 * factor, 0.1 * factor, factor)
    )


def test_machine_without_recorded_speed_is_not_scaled() -> None:
    assert Reference(lambda _seconds: 1.0, recorded=None).factor() == 1.0


def test_processor_time_of_unrelated_program_is_foreign_and_of_child_is_not() -> None:
    spin = "import time\ninput()\nwhile time.process_time() < 0.6: pass\nprint(flush=True)\ninput()"
    with subprocess.Popen(
        [sys.executable, "-c", spin], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        # In this order, other programs of a busy machine can only increase the difference.
        without_child, with_child = Foreign(), Foreign(os.getpid())
        child.stdin.write(b"\n")
        child.stdin.flush()
        child.stdout.readline()
        rest, foreign = with_child.seconds(), without_child.seconds()
    assert foreign - rest > 0.3


def test_purchase_figures_are_per_purchase_over_all_rounds() -> None:
    figures = Figures()
    for seconds, took in ((2.0, 0.1), (2.0, 0.3)):
        one = Figures(seconds=seconds, polls=3, cpu={"sync": 0.04})
        for step in STEPS:
            one.timings[step].append(took)
        figures.add(one)
    described = figures.described()
    assert (described["purchases"], described["per_second"], described["polls"]) == (2, 0.5, 3.0)
    assert described["cpu_ms"] == {"sync": pytest.approx(40.0)}
    assert described["steps_ms"]["pin"] == {"p50": 100.0, "p95": 300.0, "p99": 300.0}


def test_figure_with_failed_requests_meets_no_target() -> None:
    refused = Run(1.0, [("", 0.001)] * 900, Counter({200: 100, 429: 800}))
    row = report.rows_of(measured(refused, run_of(1_000)))[1]
    assert row["met"] is False
    assert "FAILURES {429: 800}" in report.table([row])


def test_recorded_ids_become_parameters_of_the_floor_statements() -> None:
    order = row_id("shipped", 7)
    recorded = Recorded([], ["BEGIN", f"SELECT '{order}', 'order:{order}', 'a%'", "COMMIT"], None)
    floor = floor_of(recorded, {order: "order"})
    assert [statement % {"order": "x"} for statement in floor.statements] == [
        "BEGIN",
        "SELECT 'x', 'order:x', 'a%'",
        "COMMIT",
    ]


def test_floor_without_a_recorded_value_is_refused() -> None:
    with pytest.raises(LookupError, match="absent"):
        floor_of(Recorded([], ["SELECT 1"], None), {"absent": "value"})


def test_generated_id_is_captured_and_reused() -> None:
    statements = ["INSERT INTO orders RETURNING id", "INSERT INTO items VALUES ('new')"]
    floor = floor_of(Recorded([], statements, None, {"new": 0}), {}, new_id="new")
    assert floor.captures == 0
    content = pgbench.script(
        settings=[r"\set n :first + :i"],
        prepared=["PREPARE one AS SELECT 1"],
        statements=floor.statements,
        values={},
        captures=floor.captures,
    )
    assert content.splitlines() == [
        r"\set i :i + 1",
        r"\set n :first + :i",
        r"\if :i = 0",
        "PREPARE one AS SELECT 1;",
        r"\endif",
        r"INSERT INTO orders RETURNING id \gset new_",
        "INSERT INTO items VALUES (':new_id');",
    ]


def test_request_bytes_have_request_line_headers_and_body() -> None:
    head, _, body = request("POST", "/path?a=b", body=b"{}", headers={"X-Some": "thing"}).partition(
        b"\r\n\r\n"
    )
    assert head.startswith(b"POST /path?a=b HTTP/1.1\r\nHost: ")
    assert b"\r\nX-Some: thing\r\n" in head
    assert head.endswith(b"\r\nContent-Length: 2")
    assert body == b"{}"


def test_drain_with_lost_or_duplicate_events_or_broken_rules_is_unsound() -> None:
    good = Drained(3_000, 100, 20.0, lost=0, doubled=0, broken_rules=0, processor_ms=8.0)
    assert (good.a_second, good.sound) == (150, True)
    assert "events a second      150 (target 150: met)" in good.lines()
    assert any("250 a second on 2 idle cores" in line for line in good.lines())
    slow = replace(good, seconds=21.0)
    assert slow.sound
    assert any(line.endswith("missed)") for line in slow.lines())
    for fault in ("lost", "doubled", "broken_rules"):
        assert not replace(good, **{fault: 1}).sound
