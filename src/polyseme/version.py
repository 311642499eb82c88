"""The library's version, in a place that imports nothing."""

VERSION = "0.1.0"
