-- Sitemaps: documents that tasks of the kind sitemap read (lcc.storage.tasks.polling.sitemaps).
CREATE TABLE sitemaps (
    task INTEGER NOT NULL PRIMARY KEY,          -- that polls the document; it may have been removed
    site INTEGER NOT NULL,                      -- task that an operator has made: the index, or the document itself
    kind TEXT NOT NULL,                         -- urlset, sitemapindex, text; empty: it was not read to its end yet
    urls INTEGER NOT NULL,                      -- that it lists
    gone INTEGER NOT NULL,                      -- that it listed, lists no longer, and are to be retracted
    held INTEGER NOT NULL,                  -- of these: too many at once, to be confirmed
    left_out INTEGER NOT NULL,                  -- that it lists, and may not
    pid INTEGER NOT NULL,                       -- provider of the document
    connorder INTEGER NOT NULL,                 -- order number of its latest reading
    read_time INTEGER NOT NULL,                 -- of its latest reading
    gone_time INTEGER NOT NULL,                 -- of the latest reading in which URLs had gone; 0: none are
    confirmed INTEGER NOT NULL                  -- 1: what has gone is to be retracted, however much it is
);
CREATE INDEX sitemaps_site ON sitemaps (site, gone);
CREATE INDEX sitemaps_gone ON sitemaps (gone_time, task);

-- What sitemaps list, in buckets (lcc.model.sitemaps).
CREATE TABLE sitemapurls (
    task INTEGER NOT NULL,
    bucket INTEGER NOT NULL,
    listed BLOB NOT NULL,                       -- the text of the bucket, by zlib
    gone BLOB NOT NULL,                         -- what of the site is to be retracted, by zlib
    PRIMARY KEY (task, bucket)
) WITHOUT ROWID;
