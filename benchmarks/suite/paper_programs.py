"""The TProf paper's tables 5 and 6, beside which the suite puts its own; they are no target for another machine.

Table 6 as printed contradicts the paper's own text (section 4.3) in three places; it is corrected here, and
`PaperProgram.notes` states what was changed: its unit is mJ and not J (Jacobi's 67.3 is "67.3 mJoules" in the text),
the rows of Multisort are swapped (the text gives sort 173.4 and merge 51.3), and so are potrf and trsm of Cholesky (the
text gives trsm 85 to 120 mJ and three tasks that take energy; the fourth, near zero, is the one without a correlation).
Table 5's MB is 1,024,000 bytes: only so do all its footprints follow from the inputs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

SOURCE = "the TProf paper, tables 5 and 6, corrected after its section 4.3"
MACHINE = "Intel Core i5-2500, 4 cores, 6 MB last-level cache; energy of the processor without the memory"
BYTES_A_MB = 1_024_000


@dataclass(frozen=True)
class PaperTask:
    """A row of table 6; the correlation is NaN where time or energy do not vary."""

    name: str
    energy_mean_j: float
    energy_time_corr: float


@dataclass(frozen=True)
class PaperProgram:
    """A program in tables 5 and 6; footprint_mb is None where the paper does not give it."""

    name: str
    figure: int
    footprint_mb: float | None
    instances: int
    tasks: tuple[PaperTask, ...]
    notes: tuple[str, ...] = ()

    def task(self, name: str) -> PaperTask | None:
        """Return the task of that name, in whatever way its words are joined."""
        return next((task for task in self.tasks if _joined(task.name) == _joined(name)), None)


def _joined(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


PAPER = {
    program.name: program
    for program in (
        PaperProgram("jacobi", 5, 32.8, 800, (PaperTask("jacobi", 67.3e-3, 0.483),)),
        PaperProgram(
            "fft",
            6,
            0.6,
            1363,
            (
                PaperTask("fft1", 849.8e-3, 0.904),
                PaperTask("fft2", 837.9e-3, 0.409),
                PaperTask("transp_blk", 3.6e-3, -0.084),
                PaperTask("transp_swp", 6.0e-3, -0.014),
                PaperTask("tw_transp_blk", 15.1e-3, 0.291),
                PaperTask("tw_transp_swp", 29.0e-3, -0.022),
            ),
        ),
        PaperProgram(
            "multisort",
            7,
            12.3,
            256,
            (PaperTask("sort", 173.4e-3, 0.579), PaperTask("merge", 51.3e-3, 0.794)),
            ("sort and merge are printed swapped in table 6",),
        ),
        PaperProgram(
            "ferret",
            8,
            None,
            1000,
            (PaperTask("ferret", 262.8e-3, 0.983),),
            ("the text gives ferret 300 mJ, table 6 262.8 mJ",),
        ),
        PaperProgram(
            "cholesky",
            9,
            2.4,
            5984,
            (
                PaperTask("gemm", 59.8e-3, 0.091),
                PaperTask("syrk", 69.4e-3, -0.081),
                PaperTask("trsm", 102.7e-3, 0.053),
                PaperTask("potrf", 1.3e-3, math.nan),
            ),
            ("potrf and trsm are printed swapped in table 6",),
        ),
        PaperProgram("blackscholes", 10, 1.2, 363, (PaperTask("blackscholes", 58.5e-3, 0.062),)),
    )
}
