"""What a model needs, costs and can reach on given chips: pure arithmetic over the catalog.

The memory plan, from below: ``request`` says what is asked; ``weights``, ``kv_cache`` and
``compile_buckets`` are the rules of the TPU back-end, ``layout`` puts them together and
``diagnostics`` judges it; ``memory`` is the plan, and says what no plan covers. ``flags`` and
``stack`` make requests of flags and stack files, and ``stack`` has the rules of the embedded cloud.
docs/memory.md has the formulas.
"""
