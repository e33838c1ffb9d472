"""Models of the Hugging Face Hub: which files a revision has, and fetching them."""
