"""What the terminal shows: results, progress, tables, bars."""
