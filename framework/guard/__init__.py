"""The guard: best-effort jobs beside a latency-critical service, as long as its tail latency stays inside the target.

sense -> decide -> act.  A policy is a pure function of its state and a sample; the plant, a recording and a machine
run the same one.
"""
