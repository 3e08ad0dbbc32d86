-- Vectors of one model, of texts of all folders.
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS vectors (
    key BLOB NOT NULL UNIQUE, -- digest of the exact text that was embedded
    sum INTEGER NOT NULL, -- checksum of key and vector
    vector BLOB NOT NULL -- int8, the largest 127; its length is 1
);
