"""Use all of it once: index a folder, ask by the command, over stdio and over HTTP, open the page.

Prints what was found and where a server listened.

`test_network.py` runs this where there is no network, and where every address that is asked for is
written down.
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

servers.END_SECONDS = 120.0  # how soon a server ends is what other tests look at

QUESTION = "where does fruit stay fresh?"


def raise_loopback() -> None:
    """Raise the loopback device, which a new network namespace has, but down."""
    up, get, put = 1, 0x8913, 0x8914  # IFF_UP, SIOCGIFFLAGS and SIOCSIFFLAGS of Linux
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        request = fcntl.ioctl(asked, get, struct.pack("16sH14x", b"lo", 0))
        (flags,) = struct.unpack_from("H", request, 16)
        fcntl.ioctl(asked, put, struct.pack("16sH14x", b"lo", flags | up))


def is_cut() -> bool:
    """Tell whether no device but loopback is there."""
    return {name for _, name in socket.if_nameindex()} == {"lo"}


def command(*arguments: str) -> dict[str, object]:
    done = subprocess.run(
        [*THUMBINDEX, *arguments, "--json"], check=True, capture_output=True, encoding="utf-8"
    )
    found: dict[str, object] = json.loads(done.stdout)
    return found


def use(place: Path) -> dict[str, object]:
    """Return what each way of asking found, and the port that the server over HTTP was given."""
    where = ["--folder", str(place / "notes"), "--index", str(place / "index")]
    found: dict[str, object] = {
        "embedded": command("index", *where)["embedded"],
        "command": first(command("query", *where, QUESTION)),
    }
    with ServerProcess(where) as server:
        found["stdio"] = first(server.call("query", query=QUESTION))
    with http_server([*where, "--page"]) as (address, _), http_client(address) as call:
        # Imported here as in `servers`, and once it is: no proxy stands between a machine and
        # itself.
        import httpx2

        found["http"] = first(call("query", query=QUESTION))
        page = httpx2.get(address.removesuffix("mcp"), params={"q": QUESTION}, trust_env=False)
        found["page"] = (page.status_code, "cellar.md" in page.text)
        found["port"] = int(address.rpartition(":")[2].partition("/")[0])
    return found


def first(answer: dict[str, object]) -> object:
    """Return the path of the first passage."""
    passages = answer["results"]
    assert isinstance(passages, list)
    return passages[0]["path"]


if __name__ == "__main__":
    if is_cut():
        raise_loopback()
    sys.stdout.write(json.dumps({"cut": is_cut(), **use(Path(sys.argv[1]))}))
