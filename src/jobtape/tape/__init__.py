"""What is kept: records, the writer, the tolerant reader and the shelf of runs."""
