"""What a deployment has to keep: rules over planned resources and settings, written once. Pure.

`tpuflex preview` and `tpuflex up` evaluate them, and so does the CrossGuard pack in
``tpuflex/policy_pack``. docs/policy.md is made from the rows.
"""
