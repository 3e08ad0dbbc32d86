-- What is made of one folder's notes. Row ids are never used twice, so that views can be compared with it by id alone.
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS documents (
    id INTEGER PRIMARY KEY, -- from the fact `last_row`, like a chunk's
    path TEXT NOT NULL UNIQUE,
    size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, inode INTEGER NOT NULL, digest TEXT NOT NULL,
    title TEXT NOT NULL, modified REAL NOT NULL,
    facts TEXT NOT NULL, -- JSON: the rest of model.Document, without what is empty
    ctime_ns INTEGER NOT NULL,
    edited REAL NOT NULL, first_commit TEXT, last_commit TEXT -- as in model.Document
);

CREATE TABLE IF NOT EXISTS sections (
    document INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE,
    ordinal INTEGER NOT NULL, start_line INTEGER NOT NULL, end_line INTEGER NOT NULL, text TEXT NOT NULL,
    heading_path TEXT, -- of its first chunk
    sum INTEGER NOT NULL, -- checksum of the text: what is returned is what was written
    UNIQUE (document, ordinal)
);

CREATE TABLE IF NOT EXISTS chunks (
    id INTEGER PRIMARY KEY,
    document INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE,
    ordinal INTEGER NOT NULL, section INTEGER NOT NULL, kind TEXT NOT NULL, heading_path TEXT, -- NULL where it is its section's
    start_line INTEGER NOT NULL, end_line INTEGER NOT NULL,
    at INTEGER, size INTEGER, text TEXT, -- where it stands in its section's text, in characters; its own text where it is no piece of that
    salience REAL NOT NULL, language TEXT NOT NULL,
    key BLOB NOT NULL, -- digest of the exact text that is embedded
    sum INTEGER NOT NULL, -- checksum of heading path, text and key
    UNIQUE (document, ordinal)
);

CREATE TABLE IF NOT EXISTS links (
    document INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE,
    ordinal INTEGER NOT NULL, kind TEXT NOT NULL, target TEXT NOT NULL, fragment TEXT NOT NULL, text TEXT NOT NULL, line INTEGER NOT NULL,
    resolved TEXT, -- path of the document that it leads to
    UNIQUE (document, ordinal)
);

-- Files of the index of words. They never change: a commit writes a file and takes others off this list.
CREATE TABLE IF NOT EXISTS segments (
    name TEXT PRIMARY KEY, rows INTEGER NOT NULL,
    size INTEGER NOT NULL, sum INTEGER NOT NULL, -- bytes and checksum of the file
    deleted BLOB NOT NULL -- numbers of the rows that do not count any more
);

-- Files that were read and are private: nothing else is kept of them, so that they are not read each time.
CREATE TABLE IF NOT EXISTS private (
    mark BLOB PRIMARY KEY, -- digest of the fact `salt` and the path
    size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, inode INTEGER NOT NULL, digest TEXT NOT NULL, ctime_ns INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS problems (path TEXT NOT NULL, line INTEGER, reason TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS problems_by_path ON problems (path);

-- What is known of duplicates, derived from texts and vectors. What the owner decided is kept in a file of its own.
CREATE TABLE IF NOT EXISTS digests ( -- of chunks that were looked at
    chunk INTEGER PRIMARY KEY REFERENCES chunks ON DELETE CASCADE,
    exact BLOB NOT NULL, -- of the text as it stands
    plain BLOB NOT NULL -- half of that of its words, kind and language: equal ones are looked at as copies, whatever their vectors say
);
CREATE INDEX IF NOT EXISTS digests_by_plain ON digests (plain);

CREATE TABLE IF NOT EXISTS repeats ( -- chunks that repeat another one of their document
    chunk INTEGER PRIMARY KEY REFERENCES chunks ON DELETE CASCADE,
    keeper INTEGER NOT NULL, exact INTEGER NOT NULL -- 1 where the text is the same byte for byte
);

CREATE TABLE IF NOT EXISTS boosts ( -- of chunks that others repeat in other words
    chunk INTEGER PRIMARY KEY REFERENCES chunks ON DELETE CASCADE,
    boost REAL NOT NULL, salience REAL NOT NULL -- the boost, and what it raises the salience to
);

CREATE TABLE IF NOT EXISTS alike ( -- chunks of two documents that are one text twice, or for the owner to decide
    id INTEGER PRIMARY KEY AUTOINCREMENT, -- never used twice: who knows some rows reads the later ones
    first INTEGER NOT NULL REFERENCES chunks ON DELETE CASCADE, second INTEGER NOT NULL REFERENCES chunks ON DELETE CASCADE, -- first < second
    cosine REAL NOT NULL, zone TEXT NOT NULL, rule TEXT NOT NULL, differs TEXT NOT NULL,
    UNIQUE (first, second)
);
CREATE INDEX IF NOT EXISTS alike_by_second ON alike (second);

