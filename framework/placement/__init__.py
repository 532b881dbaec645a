"""Which service beside which, on which cores and hosts: the machine, and what services suffer and inflict."""
