"""Published files of sentence encoders."""
