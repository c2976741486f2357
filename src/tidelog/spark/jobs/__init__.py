"""Whole jobs on Spark: what `tidelog spark …` runs, one file each."""
