"""A fitted profile whose fit found what a test says it found."""

import dataclasses
import math

from tprof.analysis.models.fitted.findings import Finding
from tprof.analysis.profile.information import describe
from tprof.analysis.profile.profile_warnings import fit_warnings

import tprof
from benchmarks.simulator import ICE_LAKE, Mix, Package, Run, random_mix, stated, write

TASKS = (stated("load", 50e-6, 4.0), stated("blur", 200e-6, 12.0))
BESIDE = Finding("contention", ("blur", "load"), 0.15, 0.13, 0.17, "blur draws 15 % (13 … 17 %) more beside load")
OTHER = Finding("unexplained", (), math.nan, math.nan, math.nan, "something ran that no sample shows")


def fitted_profile(path, *findings):
    """Profile a tenth of a second of two tasks on two cores."""
    run = Run(Package(), [task.kernel for task in TASKS], random_mix(TASKS, Mix(2, 0.1), seed=1), 0.5)
    write(path, [task.name for task in TASKS], run, sensor=ICE_LAKE, seed=1, counters=False)
    profile = tprof.load(path).profile(model="fitted")
    fits = {name: dataclasses.replace(fit, findings=findings) for name, fit in profile.recipe.fits.items()}
    recipe = dataclasses.replace(profile.recipe, fits=fits)
    warnings = fit_warnings(fits, [task.name for task in TASKS])
    return dataclasses.replace(profile, recipe=recipe, info=profile.info | describe(profile.trace, recipe, warnings))
