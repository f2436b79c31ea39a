"""Comparisons: what changed between runs, with intervals and the chance that it is noise."""

from __future__ import annotations

from tprof.lazy_names import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .comparison import Comparison, compare, compare_runs
    from .run_figures import RunFigures, figures_of

__all__ = ["Comparison", "RunFigures", "compare", "compare_runs", "figures_of"]

# The command line uses texts of figures where pandas is not loaded.
__getattr__ = lazy_names(
    __name__,
    {
        "Comparison": "comparison",
        "compare": "comparison",
        "compare_runs": "comparison",
        "RunFigures": "run_figures",
        "figures_of": "run_figures",
    },
)
