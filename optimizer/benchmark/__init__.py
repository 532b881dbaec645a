"""Problems on which optimizers are compared, a run of one optimizer on one of them, and the statistics of many runs."""
