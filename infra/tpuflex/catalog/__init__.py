"""Facts about accelerators, models, prices, zones and images: rows with source and date."""
