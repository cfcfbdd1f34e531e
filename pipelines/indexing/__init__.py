"""From files to an archive: readers, tables in text, chunks, vectors and the job that makes them."""
