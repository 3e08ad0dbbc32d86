"""Who sees which folders: from the names by which a client is known to the folders that name them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from thumbindex.errors import ConfigError

EVERYONE = "*"
"""In `tokens`: whoever has a token that is taken."""

OF_AN_ISSUER = ("sub", "scope", "group")
"""What an issuer's token tells of its holder: in `tokens` with a colon, as `group:finance`. No issuer can hand out the name of a token of ours."""

Granted = Mapping[str, Collection[str]]


@dataclass(frozen=True, slots=True)
class Rights:
    """By folder, the names that see it; without any, whoever may ask sees all folders."""

    folders: tuple[str, ...]
    granted: Granted

    def seen_by(self, names: Collection[str]) -> frozenset[str]:
        """Return the folders that the holder of these names sees."""
        if not self.granted:
            return frozenset(self.folders)
        return frozenset(folder for folder in self.folders if {EVERYONE, *names} & set(self.granted.get(folder, ())))


def checked_rights(
    folders: Sequence[tuple[str, Path]],
    granted: Granted,
    known: Collection[str],
    *,
    asks: bool,
    has_issuer: bool,
    configured: Mapping[str, Path] | None = None,
) -> Rights:
    """Return the rights over some folders; raise ConfigError where a folder would be open, or closed, by an oversight.

    `known` are the names in the token file, `asks` says that a token is asked for, `has_issuer` that there is an issuer; `configured` are the
    roots of the folders that `granted` is about: a folder that is only called the same, by its directory, has nobody's rights.
    """
    names = tuple(name for name, _ in folders)
    here = {name: tuple(granted[name]) for name, root in folders if name in granted and (configured or {}).get(name, root) == root}
    if here and not asks:
        raise ConfigError(
            f"The folder {next(iter(here))!r} names the tokens that see it, but no token is asked for: give --token-file or `serve.http.issuer`."
        )
    # Whatever else is served: where rights are configured at all, a folder without any, a part of another one perhaps, is an oversight.
    for name in names if granted else ():
        if name not in here:
            raise ConfigError(
                f"The folder {name!r} names no `tokens`, others of the configuration do: write it as [[folders]] "
                f'with tokens = ["{EVERYONE}"] if every token may see it.'
            )
    for name, tokens in here.items():
        for token in tokens:
            _check_name(name, token, known, has_issuer)
    return Rights(names, here)


def nested(folders: Sequence[tuple[str, Path]], rights: Rights) -> list[str]:
    """Say which folders lie in another one that somebody sees who does not see them: their files are found in the outer one."""
    return [
        f"The folder {inner!r} lies in {outer!r}: who sees {outer!r} finds its files there, unless that folder excludes them (`corpus.exclude`)."
        for inner, root in folders
        for outer, above in folders
        if above in root.parents and rights.granted and set(rights.granted[outer]) - set(rights.granted[inner])
        if EVERYONE not in rights.granted[inner]
    ]


def _check_name(folder: str, token: str, known: Collection[str], has_issuer: bool) -> None:
    kind, colon, _ = token.partition(":")
    if token == EVERYONE or token in known:
        return
    if not colon:
        raise ConfigError(f"The folder {folder!r} names the token {token!r}, which is not in the token file: `thumbindex token {token}` makes it.")
    if kind not in OF_AN_ISSUER:
        raise ConfigError(f"The folder {folder!r} names {token!r}: write {', '.join(f'{each}:NAME' for each in OF_AN_ISSUER)}, or a token's name.")
    if not has_issuer:
        raise ConfigError(f"The folder {folder!r} names {token!r}, but there is no issuer that tells of it: set `serve.http.issuer`.")
