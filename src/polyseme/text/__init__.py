"""Raw text to a Corpus on disk: read, normalise, split, segment, count."""
