"""The driver whose memory `scripts/bench dask` shows: it brings a part home through a client and prints its cost.

`python -m benchmarks.overhead.dask_driver SCHEDULER WORKER FOLDER`
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

from distributed import Client

from tprof.dask.collecting import Cluster, Host, bring_home

from .children import memory_bytes


async def main(scheduler: str, worker: str, folder: Path) -> None:
    """Bring the part in `away` to `home`, both in the folder."""
    async with Client(scheduler, asynchronous=True) as client:
        before_bytes = memory_bytes("VmHWM")
        begin_s = time.perf_counter()
        host = Host("host", "", str(folder / "away"), is_shared=False, problem=None)
        await bring_home(Cluster(client), worker, host, folder / "home", "host")
        found = {
            "took_s": time.perf_counter() - begin_s,
            "before_bytes": before_bytes,
            "peak_bytes": memory_bytes("VmHWM"),
        }
        print(json.dumps(found))  # noqa: T201 - the answer


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
