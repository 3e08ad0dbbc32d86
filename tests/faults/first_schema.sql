-- The schema of the first version, as its stores have it on disk: no checksums, no census.
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE documents (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    path TEXT NOT NULL UNIQUE,
    size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, inode INTEGER NOT NULL, digest TEXT NOT NULL,
    title TEXT NOT NULL, modified REAL NOT NULL,
    facts TEXT NOT NULL -- JSON: the rest of model.Document
);

CREATE TABLE sections (
    document INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE,
    ordinal INTEGER NOT NULL, start_line INTEGER NOT NULL, end_line INTEGER NOT NULL, text TEXT NOT NULL,
    UNIQUE (document, ordinal)
);

CREATE TABLE chunks (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    document INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE,
    ordinal INTEGER NOT NULL, section INTEGER NOT NULL, kind TEXT NOT NULL, heading_path TEXT NOT NULL,
    start_line INTEGER NOT NULL, end_line INTEGER NOT NULL, text TEXT NOT NULL, salience REAL NOT NULL, language TEXT NOT NULL,
    key BLOB NOT NULL, -- digest of the exact text that is embedded
    UNIQUE (document, ordinal)
);
CREATE INDEX chunks_by_key ON chunks (key);

CREATE TABLE links (
    document INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE,
    ordinal INTEGER NOT NULL, kind TEXT NOT NULL, target TEXT NOT NULL, fragment TEXT NOT NULL, text TEXT NOT NULL, line INTEGER NOT NULL,
    resolved TEXT, -- path of the document that it leads to
    UNIQUE (document, ordinal)
);

CREATE TABLE problems (path TEXT NOT NULL, line INTEGER, reason TEXT NOT NULL);
CREATE INDEX problems_by_path ON problems (path);

CREATE TABLE vectors (
    fingerprint TEXT NOT NULL, key BLOB NOT NULL, vector BLOB NOT NULL, -- float32, normalized
    UNIQUE (fingerprint, key)
);
