"""What ranks run: one module for each subject, one function for each behaviour."""
