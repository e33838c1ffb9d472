"""A small Hugging Face Hub: the models that lie in a directory, over the HTTP API that
huggingface_hub speaks."""
