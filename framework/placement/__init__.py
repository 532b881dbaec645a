"""Placement of services on cores and hosts, and the interference that they suffer and inflict."""
