"""Objects as they travel: shape only. What is asked for is named `New…`, `…Change` or as a verb."""
