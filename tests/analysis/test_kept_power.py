"""The power over time of a recording that kept sums."""

import json

import numpy as np
import pytest

import tprof
from tprof.trace.manifest import MANIFEST
from tprof.trace.sums import DOMAIN_SUMS, TASK_SUMS, Block, SumsFile, SumsReader

SECOND_NS = 10**9


def power_of(path, rows):
    """Return the power where rows of (span, domain, seconds, joules) were kept in place of those of a recording."""
    with tprof.record(path, energy="estimate", counters="none", keep="summary"):
        pass
    begin_ns = SumsReader(path).begin_ns
    manifest = json.loads((path / MANIFEST).read_text())
    manifest["domains"].append({**manifest["domains"][0], "name": "gpu-0"})
    (path / MANIFEST).write_text(json.dumps(manifest))
    (path / "sums").unlink()
    file = SumsFile(path, begin_ns, SECOND_NS)
    for number, (span, domain, seconds, joules) in enumerate(rows):
        row = np.zeros(1, DOMAIN_SUMS)
        row["span"], row["domain"], row["seconds"], row["measured_j"] = span, domain, seconds, joules
        until_ns = begin_ns + (number + 1) * SECOND_NS
        file.append(Block(until_ns - SECOND_NS, until_ns, np.zeros(0, TASK_SUMS), row))
    file.close()
    return tprof.load(path).profile().power


def test_each_row_ends_where_the_next_begins(tmp_path):
    """The readings that began in a span may end in the next, by more or less from one span to the other."""
    found = power_of(tmp_path / "t.tprof", [(0, 0, 1.2, 12.0), (1, 0, 0.9, 18.0), (2, 0, 0.8, 4.0)])

    assert found["time_s"].tolist() == pytest.approx([0.0, 1.2, 2.1])
    assert found["duration_s"].tolist() == pytest.approx([1.2, 0.9, 0.8])
    assert found["package-0_w"].tolist() == pytest.approx([10.0, 20.0, 5.0])


def test_domains_whose_readings_end_at_other_times_have_the_same_rows(tmp_path):
    """Their times do not drift away from the spans."""
    rows = [(span, 0, seconds, 5.0) for span, seconds in enumerate([1.3, 0.8] * 50)]
    rows += [(span, 1, seconds, 6.0) for span, seconds in enumerate([1.1, 1.2, *[0.8, 1.2] * 49])]

    found = power_of(tmp_path / "t.tprof", rows)

    assert found["time_s"].to_numpy() == pytest.approx(np.arange(100) + 0.2, abs=0.3)
    ends_s = (found["time_s"] + found["duration_s"]).to_numpy()
    assert ends_s[:-1] == pytest.approx(found["time_s"].to_numpy()[1:])


def test_time_without_readings_is_in_no_row(tmp_path):
    """As after the process that keeps the sums was replaced, or while a sensor failed."""
    found = power_of(tmp_path / "t.tprof", [(0, 0, 1.2, 12.0), (5, 0, 0.5, 1.0), (6, 0, 1.0, 2.0)])

    assert found["time_s"].tolist() == pytest.approx([0.0, 5.0, 6.0])
    assert found["duration_s"].tolist() == pytest.approx([1.2, 0.5, 1.0])


def test_the_power_of_a_recording_sums_to_its_joules(tmp_path):
    with tprof.record(tmp_path / "t.tprof", energy="estimate", counters="none", keep="summary", span_s=0.02) as kept:
        sum(range(10_000_000))
    profile = kept.profile()

    power = profile.power
    begins_s, lengths_s = power["time_s"].to_numpy(), power["duration_s"].to_numpy()
    assert len(power) > 1
    assert begins_s[1:] == pytest.approx(begins_s[:-1] + lengths_s[:-1])
    assert (power["package-0_w"] * lengths_s).sum() == pytest.approx(profile.measured_j)
