-- The index of folders as servers read it, published by builders. A folder's number is the partition of all other tables. A document's row id is the builder's; its chunks' are the ones right behind it, in their order.
CREATE TABLE facts (key text PRIMARY KEY, value text NOT NULL);

CREATE TABLE folders (
    folder int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE,
    incarnation text NOT NULL, -- of the builder's store: another one counts rows from the beginning
    generation bigint NOT NULL, -- of the builder's store
    published timestamptz NOT NULL,
    facts text NOT NULL -- JSON: what is known of the folder as a whole
);

CREATE TABLE documents (
    folder int NOT NULL,
    id bigint NOT NULL,
    path text COLLATE "C" NOT NULL,
    chunks int NOT NULL,
    day date, -- on which it was last updated
    written date NOT NULL, -- on which its file was modified
    folded text COLLATE "C" NOT NULL, -- its path, folded
    titles text COLLATE "C" NOT NULL, -- words of title and aliases, folded, a line each, a space before and behind each word
    tags text[] COLLATE "C" NOT NULL, -- folded, with those that they are nested in
    names text[] COLLATE "C" NOT NULL, -- letters of each name
    lengths int[] NOT NULL, -- of those names in characters, 0 where one is not in ASCII
    language text NOT NULL,
    size bigint NOT NULL, digest text NOT NULL, -- of its file
    flagged boolean NOT NULL,
    record text NOT NULL, -- JSON: model.Document
    source bytea, -- its text as it was read; NULL where the file was another one by then
    PRIMARY KEY (folder, id),
    UNIQUE (folder, path)
) PARTITION BY LIST (folder);
CREATE INDEX documents_day ON documents (folder, day);
CREATE INDEX documents_tags ON documents USING gin (tags);
CREATE INDEX documents_names ON documents USING gin (names);

CREATE TABLE abbreviations (folder int NOT NULL, document bigint NOT NULL, short text COLLATE "C" NOT NULL, long text COLLATE "C" NOT NULL, key text COLLATE "C" NOT NULL)
    PARTITION BY LIST (folder);
CREATE INDEX abbreviations_short ON abbreviations (short);
CREATE INDEX abbreviations_key ON abbreviations (key);
CREATE INDEX abbreviations_document ON abbreviations (document);

CREATE TABLE sections (
    folder int NOT NULL, document bigint NOT NULL, ordinal int NOT NULL,
    start_line int NOT NULL, end_line int NOT NULL, digest text NOT NULL, text bytea NOT NULL,
    PRIMARY KEY (folder, document, ordinal)
) PARTITION BY LIST (folder);
CREATE INDEX sections_digest ON sections (digest);

CREATE TABLE chunks (
    folder int NOT NULL, id bigint NOT NULL, document bigint NOT NULL, section int NOT NULL,
    headings text NOT NULL, -- JSON
    record bytea NOT NULL, -- JSON: model.Chunk without its headings
    salience float8 NOT NULL, -- with what repeats it
    PRIMARY KEY (folder, id)
) PARTITION BY LIST (folder);

CREATE TABLE links (
    folder int NOT NULL, document bigint NOT NULL, ordinal int NOT NULL,
    resolved text COLLATE "C", -- path of the document that it leads to
    record text NOT NULL, -- JSON: model.Link
    PRIMARY KEY (folder, document, ordinal)
) PARTITION BY LIST (folder);
CREATE INDEX links_resolved ON links (folder, resolved);

CREATE TABLE problems (folder int NOT NULL, path text COLLATE "C" NOT NULL, line int, reason text NOT NULL) PARTITION BY LIST (folder);
CREATE INDEX problems_folder ON problems (folder);

-- Words: the postings of each term in each field of each segment (index/segments.py), as columns.
CREATE TABLE segments (
    folder int NOT NULL, segment int NOT NULL,
    name text NOT NULL, -- Whoosh's
    PRIMARY KEY (folder, segment)
) PARTITION BY LIST (folder);

CREATE TABLE postings (
    folder int NOT NULL,
    field smallint NOT NULL,
    term text COLLATE "C" NOT NULL,
    segment int NOT NULL,
    columns bytea NOT NULL,
    places bytea NOT NULL,
    PRIMARY KEY (folder, field, term, segment)
) PARTITION BY LIST (folder);
CREATE INDEX postings_segment ON postings (folder, segment);

CREATE TABLE words (
    folder int NOT NULL, length int NOT NULL, word text COLLATE "C" NOT NULL, segment int NOT NULL,
    PRIMARY KEY (folder, length, word, segment)
) PARTITION BY LIST (folder);
CREATE INDEX words_segment ON words (folder, segment);

-- Meaning. `halfvec` has no fixed length here: each partition says its own.
CREATE TABLE vectors (
    folder int NOT NULL, id bigint NOT NULL, document bigint NOT NULL, vector halfvec NOT NULL,
    PRIMARY KEY (folder, id)
) PARTITION BY LIST (folder);

-- What says the same.
CREATE TABLE repeats (folder int NOT NULL, chunk bigint NOT NULL, keeper bigint NOT NULL, PRIMARY KEY (folder, chunk)) PARTITION BY LIST (folder);
CREATE INDEX repeats_keeper ON repeats (folder, keeper);
CREATE TABLE clusters (folder int NOT NULL, chunk bigint NOT NULL, cluster bigint NOT NULL, PRIMARY KEY (folder, chunk)) PARTITION BY LIST (folder);
CREATE INDEX clusters_cluster ON clusters (folder, cluster);
CREATE TABLE decided (folder int NOT NULL, chunk bigint NOT NULL, digest text NOT NULL, PRIMARY KEY (folder, chunk)) PARTITION BY LIST (folder);
CREATE TABLE alike (
    folder int NOT NULL, id bigint NOT NULL, first bigint NOT NULL, second bigint NOT NULL,
    cosine float8 NOT NULL, zone text NOT NULL, rule text NOT NULL, differs text NOT NULL,
    PRIMARY KEY (folder, id)
) PARTITION BY LIST (folder);
