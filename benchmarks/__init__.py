"""What a run of Signoff costs, against a workflow written by hand for the same work."""
