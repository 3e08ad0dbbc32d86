"""The tree of errors. Each message says what happened, where, and what to do next.

ThumbindexError
├── UsageError                    a wrong argument, query or path (exit code 2)
│   ├── ConfigError               a key, value or file of the configuration
│   ├── UnknownFolderError        a folder that is not configured or does not exist
│   └── UnknownPathError          a document that is not in the index; suggests similar paths
├── StorageError                  the index cannot be used
│   ├── IndexBusyError            another process is writing; nothing is damaged: try again
│   ├── IndexMissingError         there is no index, or another process has just deleted it
│   ├── IndexDamagedError         a file is unreadable or of an old schema: the index is rebuilt
│   ├── IndexTooNewError          written by a later version of thumbindex
│   └── EngineError               the database that holds published folders cannot be used
│       └── EngineConnectionError the connection was lost: a retry may succeed
└── ModelError                    a model is unavailable; keyword search still works
"""


class ThumbindexError(Exception):
    """Base class of all errors that thumbindex raises deliberately."""


def install_hint(extra: str) -> str:
    """Return instructions to install thumbindex with an extra, for use in an error message."""
    return (
        f"run `uv tool install '.[{extra}]'` in the thumbindex checkout (with pip: "
        f"`pip install '.[{extra}]'`)"
    )


class UsageError(ThumbindexError):
    """An argument, query or path is wrong."""


class ConfigError(UsageError):
    """A configuration key, value or file is wrong."""


class UnknownFolderError(UsageError):
    """The folder is not configured, or does not exist."""


class UnknownPathError(UsageError):
    """The document is not in the index."""


class StorageError(ThumbindexError):
    """The index cannot be used."""


class IndexBusyError(StorageError):
    """Another process is writing; nothing is damaged."""


class IndexMissingError(StorageError):
    """The index was never built, or has been deleted."""


class IndexDamagedError(StorageError):
    """A file of the index is unreadable or of an earlier schema.

    `reason` describes the damage, but names neither the file nor the remedy.
    """

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason or message


class IndexTooNewError(StorageError):
    """The index was written by a later version."""


class EngineError(StorageError):
    """The database that holds published folders cannot be reached or used."""


class EngineConnectionError(EngineError):
    """The connection was lost, or the database server closed it: a retry may succeed."""


class ModelError(ThumbindexError):
    """A model cannot be loaded or run."""
