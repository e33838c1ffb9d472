"""Identity and Access Management API v1; also the policies that every service keeps."""
