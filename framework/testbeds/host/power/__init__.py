"""Power sources of a machine, one file each: meters of the kernel and of others, recordings, and models of CPU use."""
