-- Sitemaps: documents that tasks of the kind sitemap read (lcc.storage.tasks.polling.sitemaps).
CREATE TABLE IF NOT EXISTS sitemaps (
    task BIGINT NOT NULL,                       -- that polls the document; it may have been removed
    site BIGINT NOT NULL,                       -- task that an operator has made: the index, or the document itself
    kind VARCHAR(255) NOT NULL,                 -- urlset, sitemapindex, text; empty: it was not read to its end yet
    urls BIGINT NOT NULL,                       -- that it lists
    gone BIGINT NOT NULL,                       -- that it listed, lists no longer, and are to be retracted
    held BIGINT NOT NULL,                   -- of these: too many at once, to be confirmed
    left_out BIGINT NOT NULL,                   -- that it lists, and may not
    pid BIGINT NOT NULL,                        -- provider of the document
    connorder BIGINT NOT NULL,                  -- order number of its latest reading
    read_time BIGINT NOT NULL,                  -- of its latest reading
    gone_time BIGINT NOT NULL,                  -- of the latest reading in which URLs had gone; 0: none are
    confirmed SMALLINT NOT NULL,                -- 1: what has gone is to be retracted, however much it is
    PRIMARY KEY (task),
    KEY sitemaps_site (site, gone),
    KEY sitemaps_gone (gone_time, task)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- What sitemaps list, in buckets (lcc.model.sitemaps).
CREATE TABLE IF NOT EXISTS sitemapurls (
    task BIGINT NOT NULL,
    bucket INT NOT NULL,
    listed MEDIUMBLOB NOT NULL,                 -- the text of the bucket, by zlib
    gone MEDIUMBLOB NOT NULL,                   -- what of the site is to be retracted, by zlib
    PRIMARY KEY (task, bucket)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
