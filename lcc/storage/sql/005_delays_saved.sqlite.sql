-- When a delay was saved, on the wall clock that its other times are of: one that is yet to come says that the clock was
-- set back since.  0: that is not known.
ALTER TABLE pdelays ADD COLUMN saved_time DOUBLE NOT NULL DEFAULT 0;
