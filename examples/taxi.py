"""Which hours of the week bring most tips? Trips of a taxi company in 40 files, read and added up by dask."""

import csv
import random
import tempfile
from datetime import datetime, timedelta
from pathlib import Path

import dask
import pandas as pd


def make_files(folder, files=40, trips=4000):
    """Write what a company would have: a file a day, in local notation."""
    chance = random.Random(0)
    for day in range(files):
        begin = datetime(2024, 1, 1) + timedelta(days=day)
        with (folder / f"{begin:%Y-%m-%d}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["start", "fare", "tip"])
            for _ in range(trips):
                start = begin + timedelta(seconds=chance.randrange(86_400))
                fare = round(chance.uniform(5, 60), 2)
                writer.writerow([start.strftime("%d/%m/%Y %H:%M:%S"), fare, round(fare * chance.uniform(0, 0.3), 2)])


@dask.delayed
def read(path):
    return pd.read_csv(path)


@dask.delayed
def with_hour(trips):
    start = trips["start"].map(lambda text: datetime.strptime(text, "%d/%m/%Y %H:%M:%S"))
    return trips.assign(hour=[one.weekday() * 24 + one.hour for one in start])


@dask.delayed
def tips_by_hour(trips):
    return trips.groupby("hour")[["fare", "tip"]].sum()


@dask.delayed
def best_hours(parts):
    total = pd.concat(parts).groupby(level=0).sum()
    return (total["tip"] / total["fare"]).nlargest(3)


def main():
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        make_files(folder)
        parts = [tips_by_hour(with_hour(read(path))) for path in sorted(folder.glob("*.csv"))]
        best = best_hours(parts).compute(scheduler="processes", num_workers=2)
    for hour, share in best.items():
        print(f"weekday {hour // 24}, {hour % 24:02} h: tips are {share:.1%} of fares")


if __name__ == "__main__":
    main()
