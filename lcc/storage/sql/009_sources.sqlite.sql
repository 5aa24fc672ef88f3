-- Who names a URL: masks of lcc.model.sources.  Until now it was the provider's own sets (1: told) in any case.
ALTER TABLE qdb ADD COLUMN source INTEGER NOT NULL DEFAULT 1;  -- all that name it
ALTER TABLE qdb ADD COLUMN words TEXT NOT NULL DEFAULT '';     -- order numbers of the site's own words, as source:number,
                                                               -- where they are not as usual (lcc.model.Standing)
ALTER TABLE lccurl ADD COLUMN words TEXT NOT NULL DEFAULT '';  -- the same
-- Of whose word the URL was fetched.  Errors below number 0 are not for its provider, because it is not the site's own.
ALTER TABLE urlerrs ADD COLUMN source INTEGER NOT NULL DEFAULT 1;
CREATE INDEX urlerrs_key ON urlerrs (urlkey);  -- whoever names a URL asks what became of it
ALTER TABLE pstats ADD COLUMN errothers INTEGER NOT NULL DEFAULT 0;  -- such errors ever counted: the last has this number,
                                                                     -- with a minus
