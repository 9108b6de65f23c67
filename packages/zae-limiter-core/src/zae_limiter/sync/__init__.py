"""The sync variant: facades, drivers, stores. The only I/O, and nothing but I/O."""
