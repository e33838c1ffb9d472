"""A private vLLM endpoint in a network that the same program makes."""

import pulumi
import pulumi_gcp as gcp

import tpuflex

project, region = "tpuflex-dev", "us-east5"
network = gcp.compute.Network("team", name="team", project=project, auto_create_subnetworks=False)
serving = gcp.compute.Subnetwork(
    "serving",
    name="serving",
    project=project,
    region=region,
    network=network.id,
    ip_cidr_range="10.7.0.0/24",
    private_ip_google_access=True,  # the hosts have no external address
)
clients = gcp.compute.Subnetwork(
    "clients",
    name="clients",
    project=project,
    region=region,
    network=network.id,
    ip_cidr_range="10.8.0.0/24",
)

endpoint = tpuflex.VllmEndpoint(
    "chat",
    tpuflex.VllmEndpointArgs(
        cloud="embedded",  # "google" for real chips, with vllm/vllm-tpu from Artifact Registry
        project=project,
        slice={"zones": [f"{region}-a"], "accelerator_type": "v6e-1", "max_run_duration": "4h"},
        model={
            "name": "HuggingFaceTB/SmolLM2-135M-Instruct",
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
        network={
            "name": network.id,
            "subnetwork": serving.id,
            "egress": "existing",
            "allowed_cidrs": [clients.ip_cidr_range],
        },
    ),
)
pulumi.export("endpoint", endpoint.url)
