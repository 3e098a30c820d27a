"""One run of PyTorch's TCPStore, measured as consort's is: a server in this process, every
client a process of its own, set+get pairs for a while, then a meeting. Prints one line of JSON.

    python torch_store.py CLIENTS SECONDS
"""

import json
import os
import sys
import time
from datetime import timedelta

from torch.distributed import TCPStore

LIMIT = timedelta(seconds=120)


def client(index: int, clients: int, seconds: float, port: int) -> None:
    store = TCPStore("127.0.0.1", port, is_master=False, wait_for_workers=False, timeout=LIMIT)
    key = f"key/{index}"
    value = "x" * 32
    expected = value.encode()
    meet = [f"meet/{other}" for other in range(clients)]

    store.set(f"ready/{index}", "")
    store.wait(["go"])
    started = time.monotonic()
    pairs = 0
    while time.monotonic() - started < seconds:
        store.set(key, value)
        if store.get(key) != expected:
            raise RuntimeError("the value read is not the one written")
        pairs += 1
    rate = pairs / (time.monotonic() - started)
    store.set(f"rate/{index}", str(rate))
    store.set(f"paired/{index}", "")

    store.wait(["meet"])
    start = time.monotonic_ns()
    store.set(meet[index], "here")
    store.wait(meet)
    store.set(f"span/{index}", f"{start} {time.monotonic_ns()}")
    store.set(f"met/{index}", "")


def main() -> None:
    clients, seconds = int(sys.argv[1]), float(sys.argv[2])
    # Fork before the server's thread exists; the port follows through a pipe each.
    pipes = []
    for index in range(clients):
        read_end, write_end = os.pipe()
        if os.fork() == 0:
            os.close(write_end)
            client(index, clients, seconds, int(os.read(read_end, 16)))
            os._exit(0)
        os.close(read_end)
        pipes.append(write_end)

    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=LIMIT)
    for pipe in pipes:
        os.write(pipe, str(store.port).encode())

    def wait_for(what: str) -> None:
        store.wait([f"{what}/{index}" for index in range(clients)])

    wait_for("ready")
    store.set("go", "")
    wait_for("paired")
    store.set("meet", "")
    wait_for("met")
    rate = sum(float(store.get(f"rate/{index}")) for index in range(clients))
    spans = [store.get(f"span/{index}").split() for index in range(clients)]
    meet_ns = max(int(end) for _, end in spans) - min(int(start) for start, _ in spans)
    for _ in range(clients):
        os.wait()
    print(json.dumps({
        "impl": "TCPStore",
        "clients": clients,
        "pairs_per_second": rate,
        "meet_ms": meet_ns / 1e6,
    }))


if __name__ == "__main__":
    main()
