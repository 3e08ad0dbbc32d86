-- Published folders. All tables except `facts` and `folders` are partitioned by folder number.
-- A document has the row id of the builder's store. Its chunks have the next ids, in order.
CREATE TABLE facts (key text PRIMARY KEY, value text NOT NULL);

CREATE TABLE folders (
    folder int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE,
    store_id text NOT NULL, -- of the builder's store; a rebuilt store has a new id, since its row ids are reassigned
    publication text NOT NULL, -- random id of the last publication
    generation bigint NOT NULL, -- of the builder's store
    published timestamptz NOT NULL, -- last publication or confirmation
    facts text NOT NULL -- JSON: counts, model and other facts about the folder
);

CREATE TABLE documents (
    folder int NOT NULL,
    id bigint NOT NULL,
    path text COLLATE "C" NOT NULL,
    size bigint NOT NULL, file_digest text NOT NULL,
    modified float8 NOT NULL, edited float8 NOT NULL, first_commit text, last_commit text,
    metadata text NOT NULL, -- JSON: title and attributes
    salience bytea NOT NULL, -- a little-endian float8 per chunk
    flagged boolean NOT NULL,
    links text NOT NULL, -- JSON: a list of model.Link
    link_targets text[] COLLATE "C" NOT NULL, -- paths of the linked documents
    row_digest text NOT NULL, -- of this row and its link targets; shows whether the row must be published again
    PRIMARY KEY (folder, id),
    UNIQUE (folder, path)
) PARTITION BY LIST (folder);

CREATE TABLE sections (
    folder int NOT NULL, document bigint NOT NULL, ordinal int NOT NULL, -- -1: the whole note
    start_line int NOT NULL, end_line int NOT NULL, text_digest text NOT NULL, text bytea NOT NULL,
    PRIMARY KEY (folder, document, ordinal)
) PARTITION BY LIST (folder);
CREATE INDEX sections_digest ON sections (text_digest);

CREATE TABLE chunks (
    folder int NOT NULL, id bigint NOT NULL, document bigint NOT NULL, section int NOT NULL, -- ordinal
    record text NOT NULL, -- JSON: model.Chunk
    PRIMARY KEY (folder, id)
) PARTITION BY LIST (folder);

-- The parts of each keyword segment (index/segments.py), including its tombstones. Segment '' holds the duplicates.
CREATE TABLE parts (
    folder int NOT NULL, segment text COLLATE "C" NOT NULL, name text COLLATE "C" NOT NULL, data bytea NOT NULL,
    PRIMARY KEY (folder, segment, name)
) PARTITION BY LIST (folder);
ALTER TABLE parts ALTER COLUMN data SET STORAGE EXTERNAL; -- not compressed: numbers compress badly

-- `halfvec` has no fixed length here, since folders may use different models.
CREATE TABLE vectors (
    folder int NOT NULL, id bigint NOT NULL, vector halfvec NOT NULL, provisional boolean NOT NULL,
    PRIMARY KEY (folder, id)
) PARTITION BY LIST (folder);
