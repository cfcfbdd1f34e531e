"""From files to an archive: parsers, tables in text, chunks, vectors and the job that makes them."""
