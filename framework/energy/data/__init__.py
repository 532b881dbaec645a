"""Power of processors, as others have measured and published it."""
