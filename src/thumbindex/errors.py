"""One error tree. Each message says what happened, where, and what to do next.

ThumbindexError
├── UsageError              a wrong argument, query or path: the caller can mend it (exit code 2)
│   ├── ConfigError         a key, value or file of the configuration
│   ├── UnknownFolderError  a folder that is not configured or not there
│   └── UnknownPathError    a document that is not in the index, with the nearest names
├── StorageError            the index on disk
│   ├── IndexBusyError      another process holds the writer's lock: wait, it is not damage
│   ├── IndexGoneError      there is no index, or another process has just deleted it
│   ├── IndexDamagedError   a file that is unreadable or of an earlier schema: it is built anew
│   ├── IndexTooNewError    written by a later version of thumbindex
│   └── EngineError         the database that folders are published to cannot be used as it is
│       └── EngineLostError the connection was lost or ended: asked again, it may answer
└── ModelError              a model that cannot be had; keyword search goes on
"""


class ThumbindexError(Exception):
    """Anything that thumbindex reports on purpose."""


def install_with(extra: str) -> str:
    """Return how to install thumbindex with an extra, in words: into an environment of its own, as
    the README does, or into the present one.
    """
    return f"`uv tool install '.[{extra}]'` in its checkout (with pip: `pip install '.[{extra}]'`)"


class UsageError(ThumbindexError):
    """The caller asked for something that cannot be done as asked."""


class ConfigError(UsageError):
    """A configuration key, value or file is wrong."""


class UnknownFolderError(UsageError):
    """The folder is not configured, or is not there."""


class UnknownPathError(UsageError):
    """The document is not in the index."""


class StorageError(ThumbindexError):
    """The index on disk cannot be used as it is."""


class IndexBusyError(StorageError):
    """Another process is writing; nothing is damaged."""


class IndexGoneError(StorageError):
    """There is no index where one was to be read: it was never made, is only just begun, or was
    forgotten meanwhile.
    """


class IndexDamagedError(StorageError):
    """A file of the index cannot be read as what it should be."""


class IndexTooNewError(StorageError):
    """The index was written by a later version."""


class EngineError(StorageError):
    """The database that folders are published to cannot be reached, or not be used as it is."""


class EngineLostError(EngineError):
    """The connection to the database was lost, or its server ended what was asked: the same may be
    asked again.
    """


class ModelError(ThumbindexError):
    """A model cannot be loaded or run."""
