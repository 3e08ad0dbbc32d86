"""A vault with a secret file beside it, and symlinks that lead out of it."""

from __future__ import annotations

from pathlib import Path

SECRET = "Xylographique"
"""What stands in every file outside the folder."""


def make(place: Path, outside: Path, *, real: bool) -> Path:
    """Make a folder with symlinks out of it, and what they lead to, or nothing there."""
    root = place / "vault"
    (root / "sub").mkdir(parents=True)
    (root / "note.md").write_text("# Note\n\nApples keep in a cool cellar.\n")
    (root / "sub/deep.md").write_text("# Deep\n\nPears ripen off the tree.\n")
    (root / "notes.txt").write_text("no note")
    for name, target in {
        "out.md": "secret.md",
        "outdir": "",
        "proc.md": "environ",
        "dev.md": "zero",
    }.items():
        (root / name).symlink_to(outside / target)
    (root / "chain.md").symlink_to("outdir/secret.md")
    (root / "chain").symlink_to("outdir/deeper")
    (root / "loop").symlink_to("loop")
    (root / ".gitignore").symlink_to(outside / "secret.md")
    (root / "sub/.gitignore").symlink_to(outside / "zero")
    (root / "thumbindex.toml").symlink_to(outside / "secret.toml")
    if real:
        for path in ("secret.md", "deeper/secret.md", "secret.toml"):
            for above in (outside, place, place / "vault-2", place / "other vault", place.parent):
                (above / path).parent.mkdir(parents=True, exist_ok=True)
                (above / path).write_text(f"# Secret\n\n{SECRET}\n")
        (outside / "environ").symlink_to("/proc/self/environ")
        (outside / "zero").symlink_to("/dev/zero")
    return root
