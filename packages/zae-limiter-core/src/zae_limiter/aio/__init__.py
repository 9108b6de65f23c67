"""The async variant: facades, driver, stores. It does I/O, and nothing else."""
