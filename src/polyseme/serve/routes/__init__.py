"""The routes of the API, one module per subject: each has functions that make a router of a Library."""
