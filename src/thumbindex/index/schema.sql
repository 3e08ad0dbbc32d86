-- One folder's index, built from its notes. Row ids are never reused: readers compare rows by id alone.
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS documents (
    id INTEGER PRIMARY KEY, -- `last_row` in meta, plus 1; documents and chunks share this sequence
    path TEXT NOT NULL UNIQUE,
    size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, inode INTEGER NOT NULL, digest TEXT NOT NULL,
    title TEXT NOT NULL, modified REAL NOT NULL,
    attributes TEXT NOT NULL, -- JSON: the other nonempty fields of model.Document
    ctime_ns INTEGER NOT NULL,
    edited REAL NOT NULL, first_commit TEXT, last_commit TEXT -- as in model.Document
);

CREATE TABLE IF NOT EXISTS sections (
    document INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE,
    ordinal INTEGER NOT NULL, start_line INTEGER NOT NULL, end_line INTEGER NOT NULL, text TEXT NOT NULL,
    heading_path TEXT, -- of the first chunk, as JSON
    checksum INTEGER NOT NULL, -- of the text
    UNIQUE (document, ordinal)
);

CREATE TABLE IF NOT EXISTS chunks (
    id INTEGER PRIMARY KEY,
    document INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE,
    ordinal INTEGER NOT NULL, section INTEGER NOT NULL, kind TEXT NOT NULL,
    heading_path TEXT, -- JSON; NULL if equal to the section's
    start_line INTEGER NOT NULL, end_line INTEGER NOT NULL,
    text_offset INTEGER, text_length INTEGER, -- position of the text in the section's text, in characters
    text TEXT, -- NULL if it is part of the section's text
    salience REAL NOT NULL, language TEXT NOT NULL,
    key BLOB NOT NULL, -- digest of the embedded text
    checksum INTEGER NOT NULL, -- of heading path, text and key
    words BLOB NOT NULL, -- digest of words, kind and language; empty without words
    UNIQUE (document, ordinal)
);
CREATE INDEX IF NOT EXISTS chunks_by_words ON chunks (words);

-- Estimates of vectors, until the model has computed them.
CREATE TABLE IF NOT EXISTS provisional (
    chunk INTEGER PRIMARY KEY REFERENCES chunks ON DELETE CASCADE,
    vector BLOB NOT NULL -- as in the file of vectors
);

CREATE TABLE IF NOT EXISTS links (
    document INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE,
    ordinal INTEGER NOT NULL, kind TEXT NOT NULL, target TEXT NOT NULL, fragment TEXT NOT NULL, text TEXT NOT NULL, line INTEGER NOT NULL,
    resolved TEXT, -- path of the target document, as in `Link.resolved`
    UNIQUE (document, ordinal)
);
CREATE INDEX IF NOT EXISTS links_of_succession ON links (kind) WHERE kind IN ('successor', 'predecessor');

-- Files of the keyword index. They are immutable: a commit adds a file, which may replace others.
CREATE TABLE IF NOT EXISTS segments (
    name TEXT PRIMARY KEY, rows INTEGER NOT NULL,
    size INTEGER NOT NULL, checksum INTEGER NOT NULL, -- of the file, in bytes
    deleted BLOB NOT NULL -- tombstones: document ids in the segment
);

-- States of private files, so that they are not read again. Nothing else about them is stored.
CREATE TABLE IF NOT EXISTS private (
    path_digest BLOB PRIMARY KEY, -- of the meta key `salt` and the path
    size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, inode INTEGER NOT NULL, digest TEXT NOT NULL, ctime_ns INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS problems (path TEXT NOT NULL, line INTEGER, reason TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS problems_by_path ON problems (path);

-- Duplicates, derived from texts and vectors. The user's decisions are in a separate file.
CREATE TABLE IF NOT EXISTS digests ( -- of compared chunks
    chunk INTEGER PRIMARY KEY REFERENCES chunks ON DELETE CASCADE,
    exact BLOB NOT NULL -- of the text
);

CREATE TABLE IF NOT EXISTS repeats ( -- chunks that repeat another chunk of their document
    chunk INTEGER PRIMARY KEY REFERENCES chunks ON DELETE CASCADE,
    keeper INTEGER NOT NULL, -- the repeated chunk
    exact INTEGER NOT NULL -- 1 if the texts are identical
);

CREATE TABLE IF NOT EXISTS boosts ( -- of chunks that are repeated in other words
    chunk INTEGER PRIMARY KEY REFERENCES chunks ON DELETE CASCADE,
    boost REAL NOT NULL, salience REAL NOT NULL -- including the boost
);

CREATE TABLE IF NOT EXISTS duplicate_pairs ( -- chunks of two documents: merged (zone `same`) or for the user to decide
    id INTEGER PRIMARY KEY AUTOINCREMENT, -- never reused
    first INTEGER NOT NULL REFERENCES chunks ON DELETE CASCADE, second INTEGER NOT NULL REFERENCES chunks ON DELETE CASCADE, -- first < second
    cosine REAL NOT NULL, zone TEXT NOT NULL, rule TEXT NOT NULL, differs TEXT NOT NULL,
    UNIQUE (first, second)
);
CREATE INDEX IF NOT EXISTS duplicate_pairs_by_second ON duplicate_pairs (second);

