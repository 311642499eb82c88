"""Files and folders: written atomically, described by checksums, locked, and read in one consistent version."""
