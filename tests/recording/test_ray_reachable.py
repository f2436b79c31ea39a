"""Nodes of Ray that do not answer are asked for a connection; at a program's end too, where no thread can begin."""

import socket
import subprocess
import sys

import pytest

from tprof.ray.collection import reachable

AT_THE_END = """
import atexit, socket
from tprof.ray.collection import reachable

listening = socket.create_server(("127.0.0.1", 0))
closed = socket.create_server(("127.0.0.1", 0))
there, gone = listening.getsockname(), closed.getsockname()
closed.close()

@atexit.register
def ask():
    # 192.0.2.0/24 is for documentation: nothing answers, or there is no way there
    found = reachable([there, gone, ("192.0.2.1", 9)], wait_s=0.2)
    print(found == {there})
"""


def test_reachable_nodes_are_found_while_python_ends():
    done = subprocess.run([sys.executable, "-c", AT_THE_END], capture_output=True, text=True, timeout=60, check=False)

    assert (done.stdout, done.stderr) == ("True\n", "")


def test_a_node_with_an_address_of_version_6_is_found():
    try:
        listening = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("the machine has no addresses of version 6")
    with listening:
        place = listening.getsockname()[:2]

        assert reachable([place]) == {place}
