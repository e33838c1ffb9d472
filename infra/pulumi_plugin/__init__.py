"""Pulumi's plugin protocol, as far as a resource provider in Python needs it.

    values, changes    property values and how they change (pure)
    printable          foreign text made safe to show (pure)
    protocol           the protocol's messages, loaded without the Pulumi SDK
    wire               property values to and from messages
    replies            diffs, refused inputs and failures as the engine expects them
    log                progress lines in the engine's log
    peer, door         which user is calling; nobody but the owner gets in
    user_namespace     uids that stand for more than one user
    serve              the calls that every plugin answers alike, and its process

A package of its own: the tpuflex provider and the embedded cloud's stand-in for the gcp plugin
both use it, and it imports neither.
"""
