"""What people ask of Tailor, whatever interface they use."""
