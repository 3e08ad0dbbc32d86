"""What else may live on a disk and in a vault: each case makes it, indexes it, and says what came
of it.

A case that fails raises.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import socket
import subprocess
import sys
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from place import NotTriedError, Place, as_nobody

from servers import peak
from thumbindex.errors import UnknownFolderError
from thumbindex.serve.child import IndexingLoop
from thumbindex.settings import CorpusSettings
from waiting import until

APPLES = "# Apples\n\nApples are kept in the cellar. See [[pears]].\n"
PEARS = "# Pears\n\nPears ripen off the tree.\n"


def plant(place: Place) -> None:
    """Write what is found beside anything."""
    place.write("apples.md", APPLES)
    place.write("fruit/pears.md", PEARS)


def check_apples(place: Place) -> None:
    """See that what else was there is found."""
    assert place.found("apples in the cellar")[:1] == ["apples.md"], (
        "what else is there is not found"
    )


# ------------------------------------------------------------------ clocks


def file_times_in_the_future(place: Place) -> str:
    plant(place)
    for ahead in (3600, 10 * 365 * 86400, 400 * 365 * 86400):
        path = place.write(f"ahead {ahead}.md", f"# Ahead {ahead}\n\nwritten aheadmark{ahead}\n")
        os.utime(path, (time.time() + ahead,) * 2)
    place.index()
    # as long as before
    path.write_text(path.read_text().replace("written", "altered"), encoding="utf-8")
    os.utime(path, (time.time() + ahead,) * 2)
    report = place.index()
    assert (report.changed, place.found('"altered"')[:1]) == (1, [path.name]), (
        f"an edit of the same length was missed: {report}"
    )
    place.check()
    return (
        "times 1 hour, 10 and 400 years ahead: indexed, and an edit of the same length with the "
        "same time found"
    )


def a_clock_that_jumps_backward(place: Place) -> str:
    compiler, clock = shutil.which("cc"), place.made / "clock.so"
    if not compiler:
        raise NotTriedError("no C compiler for a clock that is off")
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", clock, Path(__file__).with_name("clock.c")], check=True
    )
    plant(place)
    code = (
        "import sys, time; from pathlib import Path; sys.path.insert(0, sys.argv[1]); from place "
        "import Place;"
        "print(time.time()); Place(Path(sys.argv[2])).index()"
    )
    for number, hours in enumerate((3, -48, 0, -175_000)):
        path = place.write(f"jump {number % 2}.md", f"# Jump\n\njumpmark{number} is here.\n")
        # as an editor that restores times
        os.utime(path, ns=(path.stat().st_atime_ns, 1_700_000_000_000_000_000))
        wrong = {**os.environ, "LD_PRELOAD": str(clock), "CLOCK_OFF": str(3600 * hours)}
        command = [sys.executable, "-c", code, str(Path(__file__).parent), str(place.made)]
        off = (
            float(
                subprocess.run(
                    command, env=wrong, check=True, capture_output=True, text=True
                ).stdout.split()[0]
            )
            - time.time()
        )
        assert abs(off - 3600 * hours) < 1800, (
            f"the clock was {off / 3600:.1f} h off, not {hours} h"
        )
        assert place.found(f'"jumpmark{number}"')[:1] == [path.name], (
            f"what was saved before a run whose clock was {hours} h off is not found"
        )
    place.check()
    return (
        "clock 3 h ahead, 2 days behind, right, 20 years behind; before each run an edit that "
        "keeps its old time: all found"
    )


# ------------------------------------------------------------------ folders that come and go


def a_folder_that_may_not_be_read_for_a_while(place: Place) -> str:
    plant(place)
    place.write("locked/secret.md", "# Locked\n\nlockedmark is here.\n")
    place.index()
    (place.root / "locked").chmod(0)
    told = as_nobody(place)
    assert (told["removed"], [path for path, _ in told["skipped"]]) == (0, ["locked"]), (
        f"what cannot be listed was taken to be gone: {told}"
    )
    found = as_nobody(place, ask='"lockedmark"')["passages"]
    assert [each[0] for each in found][:1] == ["locked/secret.md"], (
        "what cannot be listed is not found any more"
    )
    (place.root / "locked").chmod(0o755)
    place.write("locked/secret.md", "# Locked\n\nlockedmark changed meanwhile.\n")
    place.index()
    place.check()
    return (
        "(chmod 000, as another user) nothing deleted, the folder named; readable again: brought "
        "up to date"
    )


def a_file_that_may_not_be_read(place: Place) -> str:
    plant(place)
    path = place.write("closed.md", "# Closed\n\nclosedmark is here.\n")
    path.chmod(0)
    told = as_nobody(place)
    assert [(name, "cannot be read" in reason) for name, reason in told["skipped"]] == [
        ("closed.md", True)
    ], told
    path.chmod(0o644)
    check_apples(place)
    place.index()
    place.check()
    assert place.found('"closedmark"')[:1] == ["closed.md"], "what can be read again is not found"
    return (
        "(mode 000, as another user) reported by name, the rest indexed; found again once it can "
        "be read"
    )


def a_drive_that_goes_and_comes_back(place: Place) -> str:
    plant(place)
    drive = place.root / "drive"
    drive.mkdir()
    with mounted(["-t", "tmpfs", "tmpfs", str(drive)], drive):
        place.write("drive/on it.md", "# Drive\n\ndrivemark is here.\n")
        place.index()
        with mounted(["-t", "tmpfs", "-o", "ro", "tmpfs", str(place.root)], place.root):
            try:
                place.index()
            except UnknownFolderError as error:
                said = type(error).__name__
            else:
                raise AssertionError("an empty root was indexed without an error")
            assert place.found('"drivemark"')[:1] == ["drive/on it.md"], (
                "an empty root was taken for deleted notes"
            )
        place.index()
        place.check()
    return (
        f"(mounts) an empty file system over the vault: {said}, nothing deleted; taken away: as "
        "before"
    )


@contextmanager
def mounted(arguments: list[str], at: Path) -> Iterator[None]:
    """Mount something for a while."""
    done = (
        subprocess.run(["mount", *arguments], capture_output=True, text=True)
        if shutil.which("mount")
        else None
    )
    if done is None or done.returncode:
        raise NotTriedError(
            f"nothing can be mounted here ({done.stderr.strip() if done else 'no mount'})"
        )
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(at)], check=True)


# ------------------------------------------------------------------ file systems that say nothing


def a_file_system_that_reports_no_changes(place: Place) -> str:
    lower, other = place.made / "lower", place.made / "other"
    lower.mkdir()
    other.mkdir()
    (lower / "apples.md").write_text(APPLES)
    with mounted(
        ["-t", "overlay", "-o", f"lowerdir={lower}:{other}", "overlay", str(place.root)], place.root
    ):
        seconds = followed(place, lambda text: (lower / "apples.md").write_text(text), reconcile=2)
    return (
        f"(overlay, changed below) found by the next comparison, {seconds:.1f} s at "
        "reconcile_seconds = 2"
    )


def no_watch_left(place: Place) -> str:
    """Run in a user namespace whose limit of watches is 0, since the machine's is everybody's."""
    plant(place)
    code = (
        "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[1]); from place import "
        "Place; from cases import followed;"
        "place = Place(Path(sys.argv[2])); print(followed(place, lambda text: "
        "place.write('apples.md', text), complaint='cannot be watched'))"
    )
    command = [
        "unshare",
        "--user",
        "--map-root-user",
        "sh",
        "-c",
        'echo 0 > /proc/sys/user/max_inotify_watches && exec "$@"',
        "sh",
    ]
    if not shutil.which("unshare"):
        raise NotTriedError("no unshare")
    done = subprocess.run(
        [*command, sys.executable, "-c", code, str(Path(__file__).parent), str(place.made)],
        capture_output=True,
        text=True,
    )
    if "max_inotify_watches" in done.stderr or "unshare" in done.stderr:
        raise NotTriedError(done.stderr.strip())
    assert done.returncode == 0, done.stderr[-500:]
    return (
        "(user namespace, max_inotify_watches = 0) the user is told, the folder polled: found "
        f"after {float(done.stdout):.1f} s"
    )


FOLLOWED_SECONDS = 60.0
"""The longest wait for what a loop does."""


def followed(
    place: Place, save: Callable[[str], object], reconcile: int = 3600, complaint: str = ""
) -> float:
    """Save a note under an indexing loop; return the seconds until it is found."""
    said: list[str] = []
    settings = ("serve.watch.quiet_ms=50", f"serve.watch.reconcile_seconds={reconcile}")
    with place.open("index", *settings) as worker, place.open() as reader:
        loop = IndexingLoop(worker, said.append)
        thread = threading.Thread(target=loop.run)
        thread.start()
        try:
            assert until(lambda: loop.is_idle, FOLLOWED_SECONDS), "it never came to rest"
            began = time.monotonic()
            save("# Apples\n\nCider is pressed from apples.\n")
            assert until(
                lambda: bool(reader.query('"cider is pressed"').passages), FOLLOWED_SECONDS
            ), "the change was never found"
            seconds = time.monotonic() - began
        finally:
            loop.stop()
            thread.join()
    assert complaint in "".join(said), f"nobody was told that the folder {complaint}: {said}"
    return seconds


# ------------------------------------------------------------------ names


def the_same_name_composed_and_decomposed(place: Place) -> str:
    composed, apart = (unicodedata.normalize(form, "café crème") for form in ("NFC", "NFD"))
    place.write(f"{composed}.md", "# One\n\nonemark is composed.\n")
    place.write(f"{apart}.md", "# Two\n\ntwomark is decomposed.\n")
    if len(os.listdir(place.root)) < 2:
        raise NotTriedError("this file system takes the two for one name")
    place.write(
        "links.md",
        f"# Links\n\n[[{composed}]] and [[{apart}]] and [x](<{apart}.md>) and "
        f"[y](<{composed}.md>)\n",
    )
    report = place.index()
    assert (report.added, report.links_dangling) == (3, 0), report
    with place.open() as library:
        read = [library.read(f"{name}.md").text for name in (composed, apart)]
    assert ["onemark" in read[0], "twomark" in read[1]] == [True, True], (
        "one of the two is read for the other"
    )
    (place.root / f"{composed}.md").unlink()
    place.index()
    place.check()
    with place.open() as library:
        assert library.query(composed).passages[0].path == f"{apart}.md", (
            "a name is not found in its other form"
        )
    (place.root / f"{apart}.md").rename(place.root / f"{composed}.md")  # as a copy from a Mac does
    report = place.index()
    assert (report.embedded, report.links_dangling) == (0, 0), (
        f"a name in its other form is another note: {report}"
    )
    place.check()
    return (
        "kept apart, each read by its own path; links in either form resolve; a name is found in "
        "its other form; a rename embeds nothing"
    )


def hostile_names(place: Place) -> str:
    plant(place)
    names = [
        "new\nline",
        "-rf",
        "--help",
        " lead",
        "tab\tand\x1b[31m",
        "a" * 252,
        "\u202egnp",
        "%2e%2e",
        "CON",
        "dot.",
        "q'uo\"te",
        "$(x)`y`",
    ]
    names += ["#h^b|c", "[[x]]"]
    for number, name in enumerate(names):
        place.write(f"{name}.md", f"# Name {number}\n\nnamemark{number} is here.\n")
    for raw in (b"caf\xe9.md", b"\xff\xfe.md", b"\xed\xa0\x80.md"):
        Path(os.fsdecode(bytes(place.root) + b"/" + raw)).write_text("# Raw\n\nrawmark\n")
    report = place.index()
    refused = [each.path for each in report.skipped]
    assert len(refused) == 3, f"not each of three names that are no UTF-8 is reported: {refused}"
    with place.open() as library:
        missing = [
            name
            for n, name in enumerate(names)
            if [p.path for p in library.query(f'"namemark{n}"').passages][:1] != [f"{name}.md"]
        ]
    assert not missing, f"not found: {missing}"
    check_apples(place)
    place.check()
    return (
        f"{len(names)} names (line feed, escape, leading dash, 255 bytes, right-to-left, shell) "
        "found; 3 that are no UTF-8 reported by name"
    )


# ------------------------------------------------------------------ what is no note


def things_that_are_no_files(place: Place) -> str:
    plant(place)
    root, made = place.root, []
    os.mkfifo(root / "pipe.md")
    here = os.getcwd()
    os.chdir(root)  # the address of a socket is at most 107 bytes long
    try:
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind("socket.md")
    finally:
        os.chdir(here)
    if os.geteuid() == 0:
        for name, minor in (("null", 3), ("zero", 5), ("random", 8)):
            os.mknod(root / f"{name}.md", 0o20666, os.makedev(1, minor))
            made.append(f"/dev/{name}")
    (root / "folder.md").mkdir()
    (root / "loop.md").symlink_to("loop.md")
    (root / "up").symlink_to("..")
    (root / "round").mkdir()
    (root / "round" / "a").symlink_to("../round")
    (root / "nowhere.md").symlink_to("gone.md")
    (root / "out.md").symlink_to("/etc/passwd")
    report = place.index()
    assert report.added == 2, f"{report.added} documents of 2"
    check_apples(place)
    place.check()
    devices = ", ".join(made) or "no devices (not root)"
    return (
        f"pipe, socket, {devices}, a folder named .md, symlinks in a circle, to nowhere, out: 2 "
        f"of 2 notes, {len(report.skipped)} reported"
    )


SPARSE_MEGABYTES = 100
"""The most memory that two files may take which are left out."""


def a_sparse_file(place: Place) -> str:
    plant(place)
    with (place.root / "huge.md").open("wb") as file:
        file.truncate(10 * 2**30)
    with (place.root / "holes.md").open("wb") as file:
        file.truncate(40 * 2**20)
    with place.open() as library:  # what every index takes is there by then
        library.index(words_only=True)
    try:
        # the peak is counted from here
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError as error:
        raise NotTriedError(
            "the most that a process held can be counted anew on Linux alone"
        ) from error
    before = peak()
    report = place.index()
    grown = peak() - before
    refused = sorted(each.path for each in report.skipped)
    assert refused == ["holes.md", "huge.md"], refused
    assert grown < SPARSE_MEGABYTES, f"{grown:.0f} MB of memory"
    check_apples(place)
    return f"10 GB sparse, and 40 MB of NUL: left out and reported, {grown:.0f} MB of memory more"


# ------------------------------------------------------------------ much of something


MOST_LINKS = CorpusSettings().max_links


def many_files_in_one_folder(place: Place) -> str:
    many = 100_000 if place.full else 500
    for number in range(many):
        place.write(f"note {number}.md", f"# Note {number}\n\nThe text of filemark{number}.\n")
    began = time.process_time()
    with place.open() as library:
        report = library.index(words_only=True)
    seconds = time.process_time() - began
    assert report.added == many, report
    began = time.process_time()
    with place.open() as library:
        again = library.index(words_only=True)
    rest = time.process_time() - began
    assert (again.added, again.changed, again.removed) == (0, 0, 0), again
    assert place.found(f'"filemark{many - 7}"')[:1] == [f"note {many - 7}.md"], (
        "a note among many is not found"
    )
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return (
        f"{many:,} files: {seconds:.1f} s of processor, words alone; again, unchanged: {rest:.2f} "
        f"s; {most} MB at most"
    )


def many_links_in_one_note(place: Place) -> str:
    many = 100_000 if place.full else 1000
    plant(place)
    place.write(
        "hub.md",
        "# Hub\n\n"
        + "\n\n".join(f"[[pears]] and [[missing {n}]] linkmark" for n in range(many // 2))
        + "\n",
    )
    began = time.process_time()
    report = place.index()
    seconds = time.process_time() - began
    followed = min(many, MOST_LINKS)  # of a note; those below are reported
    assert (report.links_resolved, report.links_dangling) == (followed // 2 + 1, followed // 2), (
        report
    )
    began = time.process_time()
    check_apples(place)
    with place.open() as library:
        library.related("hub.md")
        library.broken()
    asked = time.process_time() - began
    place.write("hub.md", "# Hub\n\nnothing\n")
    began = time.process_time()
    place.index()
    place.check()
    return (
        f"{many:,} links: {seconds:.1f} s of processor, asked about in {asked:.1f} s; taken out "
        f"again in {time.process_time() - began:.1f} s"
    )


def folders_a_thousand_deep(place: Place) -> str:
    plant(place)
    deep = 1000
    for number in range(deep):
        (place.root / ("d/" * (number + 1))).mkdir(exist_ok=True)
    (place.root / ("d/" * deep) / "bottom.md").write_text("# Bottom\n\nbottommark is here.\n")
    here = os.open(place.root, os.O_RDONLY)
    for number in range(deep):  # 9,000 bytes: no call takes such a path
        os.mkdir("longname", dir_fd=here)
        below = os.open("longname", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
        if number in (400, deep - 1):
            with os.fdopen(
                os.open(f"at {number}.md", os.O_CREAT | os.O_WRONLY, dir_fd=here), "w"
            ) as file:
                file.write(f"# At {number}\n\ndeepmark{number}\n")
    os.close(here)
    try:
        began = time.process_time()
        report = place.index()
        seconds = time.process_time() - began
        assert place.found('"bottommark"')[:1] == ["d/" * deep + "bottom.md"], (
            "the note at the bottom is not found"
        )
        assert place.found('"deepmark400"')[:1] == ["longname/" * 401 + "at 400.md"], (
            "a note at 3,600 bytes is not found"
        )
        check_apples(place)
        assert any(each.path.startswith("longname") for each in report.skipped), (
            f"what is too deep to be listed is not reported: {report.skipped}"
        )
        place.check()
    finally:
        # Python goes down as deep as the path
        subprocess.run(["rm", "-rf", place.root / "longname", place.root / "d"], check=True)
    return (
        f"1,000 folders: found at the bottom, {seconds:.1f} s of processor; behind 4,096 bytes: "
        "reported, the rest indexed"
    )


# ------------------------------------------------------------------ files that do not keep still


def files_that_change_while_they_are_read(place: Place) -> str:
    plant(place)
    chance, stop, rounds = random.Random(5), threading.Event(), 0
    paths = [place.write(f"restless {n}.md", "# Restless\n\nbegin\n") for n in range(20)]

    def write() -> None:
        while not stop.is_set():
            path = chance.choice(paths)
            with path.open("w") as file:  # empties it first
                for _ in range(chance.randrange(1, 30)):
                    file.write(
                        f"# Part {chance.random()}\n\nrestlessmark {chance.choice(paths).stem}\n\n"
                    )
                    file.flush()
            if chance.random() < 0.3:
                os.truncate(path, chance.randrange(200))
            if chance.random() < 0.1:
                path.unlink()

    writer = threading.Thread(target=write)
    writer.start()
    end = time.monotonic() + (20 if place.full else 1)
    try:
        while time.monotonic() < end:
            place.index()
            check_apples(place)
            rounds += 1
    finally:
        stop.set()
        writer.join()
    place.index()
    place.check()
    return (
        f"20 notes rewritten, cut short, deleted all the time (seed 5): {rounds} runs without an "
        "error; equal to a fresh build when they rest"
    )


CASES: dict[str, Callable[[Place], str]] = {
    function.__name__.replace("_", " "): function
    for function in (
        file_times_in_the_future,
        a_clock_that_jumps_backward,
        a_folder_that_may_not_be_read_for_a_while,
        a_file_that_may_not_be_read,
        a_drive_that_goes_and_comes_back,
        a_file_system_that_reports_no_changes,
        no_watch_left,
        the_same_name_composed_and_decomposed,
        hostile_names,
        things_that_are_no_files,
        a_sparse_file,
        files_that_change_while_they_are_read,
        many_files_in_one_folder,
        many_links_in_one_note,
        folders_a_thousand_deep,
    )
}
