"""An archive on disk: its versions, vectors and index shards, and the search over them."""
