"""Operating points: chooses a frequency or power limit and a number of workers from measured points."""

from .advice import Advice, advise, of_task
from .algorithm import Sized, sized
from .choice import DELAY_POWERS, Wish
from .measured import Measured, by_task
from .page import render, write_page
from .significant_tasks import MOST_TASKS, significant_tasks
from .table import check, read

__all__ = [
    "DELAY_POWERS",
    "MOST_TASKS",
    "Advice",
    "Measured",
    "Sized",
    "Wish",
    "advise",
    "by_task",
    "check",
    "of_task",
    "read",
    "render",
    "significant_tasks",
    "sized",
    "write_page",
]
