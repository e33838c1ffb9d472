"""Google's services: a file or a folder each. contributing/SERVICE.md says how one is added."""
