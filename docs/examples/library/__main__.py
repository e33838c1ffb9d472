"""A private vLLM endpoint in a Pulumi project of your own."""

import pulumi

import tpuflex

endpoint = tpuflex.VllmEndpoint(
    "chat",
    tpuflex.VllmEndpointArgs(
        cloud="embedded",  # "google" for real chips, with vllm/vllm-tpu from Artifact Registry
        project="tpuflex-dev",
        slice={"zones": ["us-east5-a"], "accelerator_type": "v6e-1", "max_run_duration": "4h"},
        model={
            "name": "HuggingFaceTB/SmolLM2-135M-Instruct",
            # The hash that `tpuflex weights hash` prints: the host serves no others.
            "weights": {
                "manifest_sha256": "85beaec7b7518277b93958ab8a2a157d"
                "e58e498920f9781538d8191904c7ecc6"
            },
        },
        serving={
            "image": "tpuflex/vllm-cpu@sha256:"
            "82fe761a6afadfcfa20344c2fcd3f20004a0eb1ab2e51f6a009dfac30e07231f",
            "flags": {"dtype": "bfloat16", "max_model_len": 512, "enforce_eager": True},
            "env": {"VLLM_CPU_KVCACHE_SPACE": "1", "TORCH_COMPILE_DISABLE": "1"},
        },
    ),
)
pulumi.export("endpoint", endpoint.url)
pulumi.export("api_key_secret", endpoint.api_key_secret)
