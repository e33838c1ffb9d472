"""New projects and new stacks: their files, and what their stack files are made from."""
