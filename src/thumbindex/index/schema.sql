-- The one truth about a folder. Row ids are never used twice, so that views can be compared with it by id alone.
-- `sum` is a checksum of the row's other columns (index/checksum.py); the fact `census` says how many rows there must be.
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL, sum INTEGER NOT NULL) WITHOUT ROWID;

CREATE TABLE documents (
    id INTEGER PRIMARY KEY, -- from the fact `last_row`, like a chunk's
    path TEXT NOT NULL UNIQUE,
    size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, inode INTEGER NOT NULL, digest TEXT NOT NULL,
    title TEXT NOT NULL, modified REAL NOT NULL,
    facts TEXT NOT NULL, -- JSON: the rest of model.Document, without what is empty
    ctime_ns INTEGER NOT NULL,
    sum INTEGER NOT NULL
);

CREATE TABLE sections (
    document INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE,
    ordinal INTEGER NOT NULL, start_line INTEGER NOT NULL, end_line INTEGER NOT NULL, text TEXT NOT NULL,
    sum INTEGER NOT NULL, -- of the columns so far
    heading_path TEXT, -- of its first chunk
    UNIQUE (document, ordinal)
);

CREATE TABLE chunks (
    id INTEGER PRIMARY KEY,
    document INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE,
    ordinal INTEGER NOT NULL, section INTEGER NOT NULL, kind TEXT NOT NULL, heading_path TEXT, -- NULL where it is its section's
    start_line INTEGER NOT NULL, end_line INTEGER NOT NULL,
    at INTEGER, size INTEGER, text TEXT, -- where it stands in its section's text, in characters; its own text where it is no piece of that
    salience REAL NOT NULL, language TEXT NOT NULL,
    key BLOB NOT NULL, -- digest of the exact text that is embedded
    sum INTEGER NOT NULL, -- of the text and the heading path that it has, wherever they stand, instead of the columns that say where
    UNIQUE (document, ordinal)
);

CREATE TABLE links (
    document INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE,
    ordinal INTEGER NOT NULL, kind TEXT NOT NULL, target TEXT NOT NULL, fragment TEXT NOT NULL, text TEXT NOT NULL, line INTEGER NOT NULL,
    sum INTEGER NOT NULL, -- of the columns so far
    resolved TEXT, -- path of the document that it leads to
    edge INTEGER NOT NULL, -- checksum of document, ordinal and resolved: edges are read in bulk, and change alone
    UNIQUE (document, ordinal)
);

CREATE TABLE problems (path TEXT NOT NULL, line INTEGER, reason TEXT NOT NULL, sum INTEGER NOT NULL);
CREATE INDEX problems_by_path ON problems (path);

-- What is known of duplicates is derived from texts and vectors, but for decisions, which only the owner can make again.
CREATE TABLE digests ( -- of chunks that were looked at
    chunk INTEGER PRIMARY KEY REFERENCES chunks ON DELETE CASCADE,
    exact BLOB NOT NULL, -- of the text as it stands
    plain BLOB NOT NULL, -- half of that of its words, kind and language: equal ones are looked at as copies, whatever their vectors say
    sum INTEGER NOT NULL
);
CREATE INDEX digests_by_plain ON digests (plain);

CREATE TABLE repeats ( -- chunks that repeat another one of their document
    chunk INTEGER PRIMARY KEY REFERENCES chunks ON DELETE CASCADE,
    keeper INTEGER NOT NULL, exact INTEGER NOT NULL, -- 1 where the text is the same byte for byte
    sum INTEGER NOT NULL
);

CREATE TABLE boosts ( -- of chunks that others repeat in other words
    chunk INTEGER PRIMARY KEY REFERENCES chunks ON DELETE CASCADE,
    boost REAL NOT NULL, salience REAL NOT NULL, -- the boost, and what it raises the salience to
    sum INTEGER NOT NULL
);

CREATE TABLE alike ( -- chunks of two documents that are one text twice, or for the owner to decide
    id INTEGER PRIMARY KEY AUTOINCREMENT, -- never used twice: who knows some rows reads the later ones
    first INTEGER NOT NULL REFERENCES chunks ON DELETE CASCADE, second INTEGER NOT NULL REFERENCES chunks ON DELETE CASCADE, -- first < second
    cosine REAL NOT NULL, zone TEXT NOT NULL, rule TEXT NOT NULL, differs TEXT NOT NULL,
    sum INTEGER NOT NULL, -- of the columns after the id
    UNIQUE (first, second)
);
CREATE INDEX alike_by_second ON alike (second);

CREATE TABLE lonely (chunk INTEGER PRIMARY KEY REFERENCES chunks ON DELETE CASCADE); -- lost one that is alike: to be looked at again

CREATE TABLE decisions ( -- of the owner, about texts wherever they stand
    first TEXT NOT NULL, second TEXT NOT NULL, -- hex digests, first < second
    verdict TEXT NOT NULL, note TEXT NOT NULL, made REAL NOT NULL, first_place TEXT NOT NULL, second_place TEXT NOT NULL,
    sum INTEGER NOT NULL,
    UNIQUE (first, second)
);

CREATE TABLE vectors (
    model BLOB NOT NULL, -- short for its fingerprint, so that nine rows of 384 dimensions fit a page
    key BLOB NOT NULL,
    sum INTEGER NOT NULL, -- before the blob: counting needs no vector
    vector BLOB NOT NULL, -- int8, the largest 127; its length is 1
    UNIQUE (model, key)
);
