"""A vault with symlinks to secret files outside it."""

from __future__ import annotations

from pathlib import Path

SECRET = "Xylographique"
"""The word in every file outside the vault."""


def make(parent: Path, outside: Path, *, real: bool) -> Path:
    """Make a vault with symlinks out of it; if `real`, also create their targets."""
    root = parent / "vault"
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
            siblings = (parent / "vault-2", parent / "other vault")
            for folder in (outside, parent, *siblings, parent.parent):
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_text(f"# Secret\n\n{SECRET}\n")
        (outside / "environ").symlink_to("/proc/self/environ")
        (outside / "zero").symlink_to("/dev/zero")
    return root
