"""Files and folders: written whole, described, locked, read as one version."""
