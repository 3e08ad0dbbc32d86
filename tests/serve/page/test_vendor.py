"""What pages load that is not ours is what its table says."""

import hashlib

from thumbindex.serve.page.site import static_files


def test_vendored_files_have_the_hashes_that_are_written_down():
    files = {
        name.removeprefix("vendor/"): body
        for name, body in static_files().items()
        if name.startswith("vendor/")
    }
    rows = [
        line.split()
        for line in files.pop("FILES.txt").decode().splitlines()
        if not line.startswith("#")
    ]
    assert {name: digest for name, _, _, digest in rows} == {
        name: hashlib.sha256(body).hexdigest() for name, body in files.items()
    }
    assert {license_ for _, _, license_, _ in rows} == {"MIT"}
