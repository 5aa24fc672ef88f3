-- Rows of the queue that do nothing at their turn, because of a deletion that came after them: so that they need not be
-- looked for where the queue is counted.  There may be keys of rows that are to be fetched again, or are gone.
CREATE TABLE cancelled (
    urlkey BLOB NOT NULL PRIMARY KEY
) WITHOUT ROWID;
REPLACE INTO cancelled (urlkey) SELECT urlkey FROM qdb WHERE operation = 0;
