"""What `spacy train` plugs in."""
