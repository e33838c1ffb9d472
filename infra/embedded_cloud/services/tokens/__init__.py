"""Google's token servers: what turns credentials into access tokens that expire.

The OAuth endpoint (``/token``), the Security Token Service (``/v1/token``), and the metadata server
of the caller's own machine; ``generateAccessToken`` is in
:mod:`embedded_cloud.services.iamcredentials`.
All are at the embedded cloud's own address, behind the same door: only its owner's processes.
"""
