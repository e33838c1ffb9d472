"""Facts about Google Cloud and the models, as rows of data: each with its source and date."""
