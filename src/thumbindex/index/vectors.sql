-- Vectors of one model, for the texts of all folders.
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS vectors (
    key BLOB NOT NULL UNIQUE, -- digest of the embedded text
    checksum INTEGER NOT NULL, -- of key and vector
    vector BLOB NOT NULL -- int8, scaled to a maximum of 127; normalized when loaded
);
