"""What several tests share: brute force, problems, small nets, several processes."""
