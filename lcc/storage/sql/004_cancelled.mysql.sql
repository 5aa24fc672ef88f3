-- Rows of the queue that do nothing at their turn, because of a deletion that came after them: so that they need not be
-- looked for where the queue is counted.  There may be keys of rows that are to be fetched again, or are gone.
CREATE TABLE IF NOT EXISTS cancelled (
    urlkey BINARY(20) NOT NULL PRIMARY KEY
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
REPLACE INTO cancelled (urlkey) SELECT urlkey FROM qdb WHERE operation = 0;
