"""Google's token servers: what turns credentials into access tokens that expire.

The OAuth endpoint (``/token``), the Security Token Service (``/v1/token``), and the metadata server
of the caller's own machine; :mod:`embedded_cloud.iamcredentials` has ``generateAccessToken``.
All are at the embedded cloud's own address, behind the same door: only its owner's processes.
"""
