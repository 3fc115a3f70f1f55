"""One file a version of the record's database."""
