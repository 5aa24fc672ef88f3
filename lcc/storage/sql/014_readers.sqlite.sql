-- Who reads the cache, and how far: written by the content user API, some seconds late.
CREATE TABLE cureads (
    cuid INTEGER NOT NULL PRIMARY KEY,          -- of cudb; 0: whoever has no token
    last_time INTEGER NOT NULL,                 -- of its last request
    timeline TEXT NOT NULL,                     -- of this change; empty: from the beginning
    number INTEGER                              -- of the last change that it has; NULL: it never asked for changes
);
