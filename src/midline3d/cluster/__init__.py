"""More than one machine: recordings as tasks on dask.distributed (extra `cluster`), or as a script for SLURM."""
