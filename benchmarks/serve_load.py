"""Does one hostile client lock the others out of the live page? Honest and hostile ones at the same time.

    python benchmarks/serve_load.py            # 50 honest and 5 hostile clients for five minutes
    python benchmarks/serve_load.py 60         # for 60 seconds

Each client has its own address of this machine (127.1.0.x, Linux). An honest one opens the page, takes a test
image or uploads one, and certifies it, again and again. A hostile one holds half-sent headers, silent
WebSockets and files that never arrive, and sends progressive JPEGs that are slow to decode, files of 8 MB and
new orders without end. Printed: what the honest ones were refused and how long they waited, and the server's
memory.
"""

import asyncio
import io
import json
import subprocess
import sys
import time
from base64 import b64decode, b64encode
from collections import Counter
from contextlib import suppress
from pathlib import Path

import httpx
import numpy as np
from PIL import Image
from websockets.asyncio.client import connect

HONEST, HOSTILE = 50, 5
DRAWS = 1_000
outcomes: Counter[str] = Counter()
waits: dict[str, list[float]] = {"page": [], "upload": [], "certificate": []}


def picture(side: int, **options: object) -> bytes:
    content = io.BytesIO()
    steps = np.add.outer(np.arange(side), np.arange(side)) * 128 // side
    Image.fromarray(steps.astype(np.uint8)).save(content, **options)
    return content.getvalue()


def many_scans(side: int, scans: int) -> bytes:
    """A progressive JPEG whose last scan is repeated: about a megabyte."""
    plain = picture(side, format="JPEG", progressive=True)
    last = plain.rindex(b"\xff\xda")
    return plain[:last] + plain[last:-2] * scans + plain[-2:]


SMALL = picture(64, format="PNG")
SLOW = many_scans(4_000, 40)
LARGE = bytes(8 * 2**20)


async def honest(address: str, source: str, until: float) -> None:
    # A connection that the server is about to close is not used again.
    transport = httpx.AsyncHTTPTransport(local_address=source, limits=httpx.Limits(keepalive_expiry=2))
    origin = {"origin": address.rstrip("/")}
    async with httpx.AsyncClient(transport=transport, base_url=address, timeout=60, headers=origin) as client:
        socket = None
        for job in range(1_000_000):
            if time.monotonic() > until:
                break
            try:
                await timed("page", client.get("/"))
                if job % 2:
                    answer = await timed("upload", client.post("/upload", content=SMALL))
                else:
                    answer = await client.get(f"/test/{job % 300}")
                if answer.status_code != 200:
                    outcomes[f"honest: refused with {answer.status_code}"] += 1
                    continue
                pixels = answer.json()["pixels"]
                assert len(b64decode(pixels)) == 64
                if socket is None:
                    socket = await connect(f"{address.replace('http', 'ws')}certify", origin=origin["origin"],
                                           local_addr=(source, 0), open_timeout=60)  # fmt: skip
                outcomes[await timed("certificate", certified(socket, pixels, job))] += 1
            except Exception as error:
                outcomes[f"honest: {type(error).__name__}: {error}"] += 1
                socket = None
            await asyncio.sleep(0.5)
        if socket is not None:
            await socket.close()


async def certified(socket, pixels: str, job: int) -> str:  # type: ignore[no-untyped-def]
    await socket.send(json.dumps(
        {"type": "start", "job": job, "run": 0, "vote": "we", "n": DRAWS, "pixels": pixels}
    ))  # fmt: skip
    while (message := json.loads(await socket.recv()))["type"] not in ("done", "error") or message[
        "job"
    ] != job:
        pass
    return "honest: certified" if message["type"] == "done" else f"honest: {message['message']}"


async def timed(what: str, action):  # type: ignore[no-untyped-def]
    began = time.monotonic()
    result = await action
    waits[what].append(time.monotonic() - began)
    return result


async def hostile(address: str, source: str, until: float) -> None:
    url = httpx.URL(address)
    origin = address.rstrip("/")
    head = f"POST /upload HTTP/1.1\r\nHost: {url.netloc.decode()}\r\nOrigin: {origin}\r\n"

    async def raw(content: bytes, seconds: float) -> None:
        reader, writer = await asyncio.open_connection(url.host, url.port, local_addr=(source, 0))
        writer.write(content)
        with suppress(TimeoutError):
            await asyncio.wait_for(reader.read(), seconds)
        writer.close()

    async def silent() -> None:
        async with connect(
            f"{address.replace('http', 'ws')}certify", origin=origin, local_addr=(source, 0)
        ) as it:
            await asyncio.wait_for(it.recv(), 300)

    async def restless() -> None:
        pixels = b64encode(bytes(64)).decode()
        async with connect(
            f"{address.replace('http', 'ws')}certify", origin=origin, local_addr=(source, 0)
        ) as it:
            for job in range(1_000_000):
                await it.send(json.dumps({"type": "start", "job": job, "run": 0, "vote": "eas", "n": 100_000,
                                          "pixels": pixels}))  # fmt: skip
                await asyncio.sleep(0.01)

    def upload(content: bytes) -> bytes:
        return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content

    attacks = {
        "half-sent headers": (60, lambda: raw(b"GET / HTTP/1.1\r\nHost: loc", 300)),
        "files that never arrive": (20, lambda: raw(upload(LARGE)[: 4 * 2**20], 300)),
        "slow JPEGs": (10, lambda: raw(upload(SLOW), 300)),
        "files of 8 MB": (10, lambda: raw(upload(LARGE), 300)),
        "silent WebSockets": (40, silent),
        "orders without end": (5, restless),
    }

    async def again(name: str, attack) -> None:  # type: ignore[no-untyped-def]
        while time.monotonic() < until:
            outcomes[f"hostile: {name}"] += 1
            with suppress(Exception):
                await asyncio.wait_for(attack(), until - time.monotonic())
            await asyncio.sleep(0.1)

    await asyncio.gather(
        *(again(name, attack) for name, (times, attack) in attacks.items() for _ in range(times))
    )


def resident(process: int) -> int:
    """Megabytes of a process."""
    status = Path(f"/proc/{process}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) // 1024


async def watch(process: int, until: float, seconds: float) -> None:
    while time.monotonic() < until:
        await asyncio.sleep(seconds / 10)
        with suppress(OSError):
            now = sum(count for name, count in outcomes.items() if name.startswith("honest"))
            busy = sum(map(int, Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]))
            children = map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split())
            memory = (
                f"{resident(process)} MB, decoders {' '.join(str(resident(child)) for child in children)} MB"
            )
            print(f"  {memory}, {busy / 100:.0f} s of CPU, {now} answers to honest clients")


async def main(seconds: float) -> None:
    command = [
        sys.executable,
        "-m",
        "shieldwall",
        "serve",
        "digits-gaussian-0.25",
        "--port",
        "0",
        "--no-open",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = next(word for word in server.stdout.readline().split() if word.startswith("http"))
        until = time.monotonic() + seconds
        try:
            await asyncio.gather(
                *(honest(address, f"127.1.0.{k + 1}", until) for k in range(HONEST)),
                *(hostile(address, f"127.1.1.{k + 1}", until) for k in range(HOSTILE)),
                watch(server.pid, until, seconds),
            )
        finally:
            server.terminate()
    for name, count in sorted(outcomes.items()):
        print(f"{count:>8,}  {name}")
    print(f"the clients took {time.process_time():.0f} s of CPU")
    for name, found in ((name, found) for name, found in waits.items() if found):
        median, late = np.percentile(found, [50, 99])
        print(f"{name}: median {median:.2f} s, 99% within {late:.2f} s, longest {max(found):.2f} s")


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1]) if len(sys.argv) > 1 else 300))
