"""Servers as the documentation of well-known libraries shows them, each with a client that ends it."""

from __future__ import annotations

from .real_programs import WORK, RealProgram

# What clients of servers share: to ask until somebody answers, and to end the server.
CLIENT = """
import http.client, os, signal, socket, sys, time

server = int(sys.argv[1])

class Connection(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect("here")

def ask(path="/"):
    until = time.monotonic() + 60
    while True:
        connection = Connection("localhost", timeout=60)
        try:
            connection.request("GET", path)
            return connection.getresponse().read().decode()
        except OSError:
            with open(f"/proc/{server}/stat") as file:
                ended = file.read().rpartition(")")[2].split()[0] == "Z"
            if ended or time.monotonic() > until:
                raise
            time.sleep(0.02)
        finally:
            connection.close()
"""

WSGI = (
    WORK
    + """
def app(environ, start_response):
    start_response("200 OK", [("Content-Length", "4")])
    return [b"%4d" % marked(20)]
"""
)

ASGI = (
    WORK
    + """
async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]})
    await send({"type": "http.response.body", "body": b"%4d" % marked(20)})
"""
)


SERVERS = [
    RealProgram(
        "gunicorn whose workers are replaced",
        # One worker at a time: how requests fall on several, and so how often these are replaced, is left to chance.
        ("-m", "gunicorn", "--workers", "1", "--max-requests", "2", "--bind", "unix:here", "prog:app"),
        WSGI,
        needs=("gunicorn",),
        task=("prog:work",),
        named={"work": 7},
        marked={"marked": 7},
        client=CLIENT
        + """
for _ in range(7):
    print(ask())
os.kill(server, signal.SIGTERM)
""",
        in_any_order=True,
    ),
    RealProgram(
        "uvicorn",
        ("-m", "uvicorn", "--uds", "here", "prog:app"),
        ASGI,
        needs=("uvicorn",),
        task=("prog:work",),
        named={"work": 4},
        marked={"marked": 4},
        client=CLIENT
        + """
for _ in range(4):
    print(ask())
os.kill(server, signal.SIGINT)
""",
        in_any_order=True,
    ),
    RealProgram(
        "uvicorn with workers",
        ("-m", "uvicorn", "--uds", "here", "--workers", "2", "prog:app"),
        ASGI,
        needs=("uvicorn",),
        task=("prog:work",),
        named={"work": 8},
        marked={"marked": 8},
        client=CLIENT
        + """
for _ in range(8):
    print(ask())
os.kill(server, signal.SIGTERM)
""",
        in_any_order=True,
        thorough=True,
    ),
    RealProgram(
        "uvicorn that reloads",
        ("-m", "uvicorn", "--uds", "here", "--reload", "--no-access-log", "prog:app"),
        ASGI,
        needs=("uvicorn",),
        task=("prog:work",),
        named={"work": 2},
        marked={"marked": 2},
        client=CLIENT
        + """
print(ask())
with open("prog.py", "a") as file:
    file.write("work = lambda n: 2\\n")
until = time.monotonic() + 60
while ask() != "   2":
    assert time.monotonic() < until
    time.sleep(0.05)
os.kill(server, signal.SIGINT)
""",
        in_any_order=True,
        least=True,
        thorough=True,
    ),
    RealProgram(
        "celery's prefork workers",
        ("-m", "celery", "-A", "prog", "--quiet", "worker", "-c", "2", "--max-tasks-per-child", "2", "-l", "ERROR"),
        WORK
        + """
from celery import Celery
os.makedirs("queue", exist_ok=True)
folders = {"data_folder_in": "queue", "data_folder_out": "queue", "control_folder": "control"}
app = Celery("prog", broker="filesystem://", backend="file://" + os.path.abspath("queue"))
app.conf.update(broker_transport_options=folders, worker_hijack_root_logger=False)

@app.task
def add(n):
    return marked(n)
""",
        needs=("celery",),
        task=("prog:work", "prog:add"),
        named={"work": 6, "add": 6},
        marked={"marked": 6},
        client="""
import os, signal, sys
sys.path.insert(0, ".")
import prog
print([result.get(timeout=60) for result in [prog.add.delay(n) for n in range(6)]])
os.kill(int(sys.argv[1]), signal.SIGTERM)
""",
        in_any_order=True,
        thorough=True,
    ),
    RealProgram(
        "Flask's own server",
        ("-m", "flask", "--app", "prog", "run", "--host", "unix://here"),
        WORK
        + """
from flask import Flask
app = Flask("prog")

@app.route("/")
def index():
    return str(marked(20))
""",
        needs=("flask",),
        task=("prog:work", "prog:index"),
        named={"work": 4, "index": 4},
        marked={"marked": 4},
        client=CLIENT
        + """
for _ in range(4):
    print(ask())
os.kill(server, signal.SIGINT)
""",
        in_any_order=True,
    ),
    RealProgram(
        "FastAPI on two processes",
        ("-m", "uvicorn", "--uds", "here", "--workers", "2", "--no-access-log", "prog:app"),
        WORK
        + """
from fastapi import FastAPI
app = FastAPI()

@app.get("/wait")
async def wait():
    return marked(20)

@app.get("/block")
def block():
    return marked(20)
""",
        needs=("fastapi", "uvicorn"),
        task=("prog:work", "prog:wait", "prog:block"),
        named={"work": 8, "wait": 4, "block": 4},
        marked={"marked": 8},
        client=CLIENT
        + """
for _ in range(4):
    print(ask("/wait"), ask("/block"))
os.kill(server, signal.SIGTERM)
""",
        in_any_order=True,
        thorough=True,
    ),
    RealProgram(
        "a server of files that is interrupted",
        ("-m", "http.server", "--bind", "127.0.0.1", "0"),
        client="""
import contextlib, os, signal, sys, time
server = int(sys.argv[1])
until = time.monotonic() + 60
def listens():
    with open("/proc/net/tcp") as file:
        sockets = {line.split()[9] for line in file if line.split()[3] == "0A"}
    folder = f"/proc/{server}/fd"
    links = []
    for entry in os.scandir(folder):
        with contextlib.suppress(FileNotFoundError):  # the server may close one meanwhile
            links.append(os.readlink(entry.path))
    return any(link.removeprefix("socket:[").rstrip("]") in sockets for link in links)
while not listens():
    assert time.monotonic() < until
    time.sleep(0.02)
os.kill(server, signal.SIGINT)
""",
        task=("http.server:SimpleHTTPRequestHandler.*",),
        in_any_order=True,
    ),
]
