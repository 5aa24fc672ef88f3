"""The tests; a package, so that a folder of them (packaging) does not hide a library of the same name."""
