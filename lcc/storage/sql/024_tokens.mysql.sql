-- A token that a provider may give in place of its password.
ALTER TABLE pidb ADD COLUMN token VARCHAR(255) NOT NULL DEFAULT '';  -- hashed; empty: it has none
