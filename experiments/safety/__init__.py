"""A campaign against a service, its gate for compose files and its import; in short: test_safety_campaign.py."""
