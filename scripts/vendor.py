"""Renew what pages load that is not ours: take it from the npm registry, and write down what it is.

`make vendor` runs it.
"""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

VENDOR = (
    Path(__file__).parent.parent / "src" / "thumbindex" / "serve" / "page" / "static" / "vendor"
)

PACKAGES = {"uplot@1.6.32": ("MIT", ("dist/uPlot.iife.min.js", "dist/uPlot.min.css", "LICENSE"))}
"""By package and version, its license and the files that are taken."""


def listed() -> str:
    """Return the table of the files as they are: path, package, license and SHA-256."""
    lines = [
        (
            "# What pages load that is not ours, as `make vendor` took it: path, package, "
            "license, SHA-256."
        )
    ]
    for package, (license_, names) in PACKAGES.items():
        for name in names:
            path = VENDOR / package.partition("@")[0] / Path(name).name
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            lines.append(f"{path.relative_to(VENDOR).as_posix()} {package} {license_} {digest}")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Fetch the packages and put their files in place."""
    for package, (_, names) in PACKAGES.items():
        with tempfile.TemporaryDirectory() as place:
            subprocess.run(
                ["npm", "pack", "--silent", package],
                cwd=place,
                check=True,
                stdout=subprocess.DEVNULL,
            )
            archive = next(Path(place).glob("*.tgz")).read_bytes()
        folder = VENDOR / package.partition("@")[0]
        folder.mkdir(parents=True, exist_ok=True)
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            for name in names:
                found = files.extractfile(f"package/{name}")
                assert found is not None, name
                (folder / Path(name).name).write_bytes(found.read())
    (VENDOR / "FILES.txt").write_text(listed(), encoding="utf-8")
    print((VENDOR / "FILES.txt").read_text(encoding="utf-8"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
