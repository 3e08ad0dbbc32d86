"""Use everything once: index a folder, query by command, stdio and HTTP, and open the page.

Prints the results and the server's port. `test_network.py` runs it without a network and under
strace.
"""

import fcntl
import json
import socket
import struct
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import servers
from servers import THUMBINDEX, ServerProcess, http_client, http_server

servers.END_SECONDS = 120.0  # other tests check how fast a server stops

QUESTION = "where does fruit stay fresh?"


def raise_loopback() -> None:
    """Bring up the loopback device, which is down in a new network namespace."""
    up, get, put = 1, 0x8913, 0x8914  # IFF_UP, SIOCGIFFLAGS and SIOCSIFFLAGS of Linux
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as device:
        request = fcntl.ioctl(device, get, struct.pack("16sH14x", b"lo", 0))
        (flags,) = struct.unpack_from("H", request, 16)
        fcntl.ioctl(device, put, struct.pack("16sH14x", b"lo", flags | up))


def is_cut() -> bool:
    """Return whether loopback is the only network device."""
    return {name for _, name in socket.if_nameindex()} == {"lo"}


def command(*arguments: str) -> dict[str, object]:
    result = subprocess.run(
        [*THUMBINDEX, *arguments, "--json"], check=True, capture_output=True, encoding="utf-8"
    )
    output: dict[str, object] = json.loads(result.stdout)
    return output


def use(folder: Path) -> dict[str, object]:
    """Return the result of each kind of query, and the port of the HTTP server."""
    options = ["--folder", str(folder / "notes"), "--index", str(folder / "index")]
    results: dict[str, object] = {
        "embedded": command("index", "--complete", *options)["embedded"],
        "command": first(command("query", *options, QUESTION)),
    }
    with ServerProcess(options) as server:
        results["stdio"] = first(server.call("query", query=QUESTION))
    with http_server([*options, "--page"]) as (address, _), http_client(address) as call:
        import httpx2  # imported here as in `servers`

        results["http"] = first(call("query", query=QUESTION))
        # without the proxy of the environment
        page = httpx2.get(address.removesuffix("mcp"), params={"q": QUESTION}, trust_env=False)
        results["page"] = (page.status_code, "cellar.md" in page.text)
        results["port"] = int(address.rpartition(":")[2].partition("/")[0])
    return results


def first(answer: dict[str, object]) -> object:
    """Return the path of the first passage."""
    passages = answer["results"]
    assert isinstance(passages, list)
    passage = passages[0]
    return passage.get("path") or servers.path_of(passage)


if __name__ == "__main__":
    if is_cut():
        raise_loopback()
    sys.stdout.write(json.dumps({"cut": is_cut(), **use(Path(sys.argv[1]))}))
