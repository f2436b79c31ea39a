"""What a fit found is in the profile's info, and among its warnings."""

import json

from support.findings import BESIDE, OTHER, fitted_profile

import tprof


def test_findings_are_plain_values_with_their_sizes(tmp_path):
    profile = fitted_profile(tmp_path / "t.tprof", BESIDE, OTHER)

    found = profile.info["fitted"]["findings"]

    assert found[0] == {
        "kind": "contention", "tasks": ["blur", "load"], "size": 0.15, "low": 0.13, "high": 0.17,
        "text": BESIDE.text, "domain": "package-0",
    }  # fmt: skip
    assert (found[1]["size"], found[1]["low"], found[1]["tasks"]) == (None, None, [])
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_each_finding_is_a_warning(tmp_path):
    warnings = fitted_profile(tmp_path / "t.tprof", BESIDE, OTHER).info["warnings"]

    assert warnings[-2:] == [BESIDE.text, OTHER.text]


def test_a_model_without_a_fit_has_no_findings(tmp_path):
    path = tmp_path / "t.tprof"
    fitted_profile(path)

    assert tprof.load(path).profile(model="cputime").info["fitted"] is None
