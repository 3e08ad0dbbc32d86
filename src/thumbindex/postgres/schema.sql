-- The index of folders as servers read it, published by builders. A folder's number is the partition of all other tables. A document's row id is the builder's; its chunks' are the ones right behind it, in their order.
CREATE TABLE facts (key text PRIMARY KEY, value text NOT NULL);

CREATE TABLE folders (
    folder int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE,
    store_id text NOT NULL, -- of the builder's store: another store uses the same row ids for other rows
    generation bigint NOT NULL, -- of the builder's store
    published timestamptz NOT NULL,
    facts text NOT NULL -- JSON: what is known of the folder as a whole
);

CREATE TABLE documents (
    folder int NOT NULL,
    id bigint NOT NULL,
    path text COLLATE "C" NOT NULL,
    size bigint NOT NULL, digest text NOT NULL, -- of its file
    modified float8 NOT NULL, edited float8 NOT NULL, first_commit text, last_commit text,
    record text NOT NULL, -- JSON: title, and the facts of the builder's store
    salience bytea NOT NULL, -- of its chunks, a float8 each
    flagged boolean NOT NULL,
    links text NOT NULL, -- JSON: a list of model.Link
    resolved text[] COLLATE "C" NOT NULL, -- paths of the documents that these lead to
    mark text NOT NULL, -- digest of what may change while the text does not
    PRIMARY KEY (folder, id),
    UNIQUE (folder, path)
) PARTITION BY LIST (folder);

CREATE TABLE sections (
    folder int NOT NULL, document bigint NOT NULL, ordinal int NOT NULL, -- -1: the whole note as it was read
    start_line int NOT NULL, end_line int NOT NULL, digest text NOT NULL, text bytea NOT NULL,
    PRIMARY KEY (folder, document, ordinal)
) PARTITION BY LIST (folder);
CREATE INDEX sections_digest ON sections (digest);

CREATE TABLE chunks (
    folder int NOT NULL, id bigint NOT NULL, document bigint NOT NULL, section int NOT NULL,
    record text NOT NULL, -- JSON: model.Chunk
    PRIMARY KEY (folder, id)
) PARTITION BY LIST (folder);

-- The parts of each segment of the index of words (index/segments.py) and which of its rows are deleted; under no segment's name, what is known of duplicates.
CREATE TABLE parts (
    folder int NOT NULL, segment text COLLATE "C" NOT NULL, name text COLLATE "C" NOT NULL, data bytea NOT NULL,
    PRIMARY KEY (folder, segment, name)
) PARTITION BY LIST (folder);
ALTER TABLE parts ALTER COLUMN data SET STORAGE EXTERNAL; -- a piece of one is read without the rest

-- Meaning. `halfvec` has no fixed length here: each partition says its own.
CREATE TABLE vectors (
    folder int NOT NULL, id bigint NOT NULL, vector halfvec NOT NULL,
    PRIMARY KEY (folder, id)
) PARTITION BY LIST (folder);
