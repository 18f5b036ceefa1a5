"""What the command line shows and asks; `starter.py` parses, and the verbs are those of `client.py`."""
