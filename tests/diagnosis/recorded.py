"""Lines of logs as people reported them, by the class that they show, each with its source."""

from __future__ import annotations

#: Slug of the class, the thread or page, and lines of it; shortened where they go on.
LOGS: tuple[tuple[str, str, str], ...] = (
    (
        "hbm-out-of-memory",
        "https://github.com/LargeWorldModel/LWM/issues/60",
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: XLA:TPU compile permanent error."
        " Ran out of memory in memory space hbm. Used 21.95G of 15.48G hbm.\n"
        " Exceeded hbm capacity by 6.47G.",
    ),
    (
        "hbm-out-of-memory",
        "https://github.com/vllm-project/vllm/issues/27508",
        '(EngineCore_DP0 pid=223840) ERROR 10-25 13:08:43 [core.py:708]     raise ValueError("No'
        ' available memory for the cache blocks. "\n'
        "RuntimeError: Engine core initialization failed. See root cause above.",
    ),
    (
        "compile-failure",
        "https://github.com/jax-ml/jax/issues/29520",
        "(VllmWorker rank=0 pid=225) ERROR 06-17 19:23:59 [multiproc_executor.py:527] ValueError:"
        " Mosaic failed to compile TPU kernel: Not Implemented: The last dim size is not 128 in"
        " original base memref",
    ),
    (
        "compile-failure",
        "https://github.com/vllm-project/tpu-inference/pull/508",
        "jaxlib._jax.XlaRuntimeError: RESOURCE_EXHAUSTED: Ran out of memory in memory space vmem",
    ),
    (
        "weights",
        "https://github.com/huggingface/diffusers/issues/5520",
        ' with safe_open(checkpoint_file, framework="pt") as f:\n'
        "safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooLarge",
    ),
    (
        "weights",
        "https://github.com/kijai/ComfyUI-LuminaWrapper/issues/21",
        '  File "/usr/local/lib/python3.10/site-packages/safetensors/torch.py", line 311\n'
        "safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooLarge",
    ),
    (
        "tokenizer",
        "https://github.com/allenai/open-instruct/issues/738",
        "Exception: data did not match any variant of untagged enum ModelWrapper at line 1251012"
        " column 3",
    ),
    (
        "tokenizer",
        "https://github.com/ParisNeo/prompt_translator/issues/18",
        "ValueError: Couldn't instantiate the backend tokenizer from one of: \n"
        "(1) a `tokenizers` library serialization file, ",
    ),
    (
        "gated-model",
        "https://github.com/kyegomez/NeoSapiens/issues/3",
        "huggingface_hub.utils._errors.GatedRepoError: 401 Client Error. (Request ID:"
        " Root=1-661471eb)\nCannot access gated repo for url"
        " https://huggingface.co/meta-llama/Llama-2-7b/resolve/main/config.json.",
    ),
    (
        "gated-model",
        "https://github.com/ToTheBeginning/PuLID/issues/97",
        "Access to model black-forest-labs/FLUX.1-dev is restricted. You must have access to it and"
        " be authenticated to access it. Please log in.",
    ),
    (
        "permission",
        "https://github.com/lm-sys/FastChat/issues/94",
        "AccessDeniedException: 403 xxx@gmail.com does not have storage.objects.list access to the"
        " Google Cloud Storage bucket. Permission 'storage.objects.list' denied on resource (or it"
        " may not exist)",
    ),
    (
        "permission",
        "https://github.com/tensorflow/tpu/issues/296",
        "googleapiclient.errors.HttpError: <HttpError 403 when requesting"
        " https://tpu.googleapis.com/v1alpha1/projects/p/locations/us-central1-b/nodes/ai?alt=json"
        " returned \"Permission 'tpu.nodes.get' denied on"
        " 'projects/p/locations/us-central1-b/nodes/ai'\">",
    ),
    (
        "api-not-enabled",
        "https://github.com/GoogleCloudPlatform/community/pull/884",
        "Error creating services: failed to list services: googleapi: Error 403: Service Usage API"
        " has not been used in project 1021909506549 before or it is disabled.,"
        " accessNotConfigured",
    ),
    (
        "api-not-enabled",
        "https://github.com/googleapis/google-api-nodejs-client/issues/2873",
        " Error: People API has not been used in project xxxxx before or it is disabled. Enable it"
        " by visiting https://console.developers.google.com/apis/api/people.googleapis.com",
    ),
    (
        "disk",
        "https://github.com/NVIDIA-NeMo/Speech/issues/1029",
        "failed to register layer: Error processing tar file(exit status 1): write"
        " /opt/conda/lib/python3.6/site-packages/torch/lib/libtorch.so: no space left on device.",
    ),
    (
        "disk",
        "https://github.com/docker/for-win/issues/13751",
        "failed to register layer: no space left on device",
    ),
    (
        "docker",
        "https://github.com/NVIDIA/nvidia-container-toolkit/issues/679",
        "docker: Error response from daemon: failed to create task for container: failed to create"
        " shim task: OCI runtime create failed: runc create failed: unable to start container"
        " process: error during container init: error running hook #0: exit status 1",
    ),
    (
        "docker",
        "https://github.com/moby/moby/issues/35972",
        "Error response from daemon: OCI runtime create failed: unable to retrieve OCI runtime"
        " error",
    ),
    (
        "crash-loop",
        "https://github.com/vllm-project/production-stack/issues/800",
        "vllm-deployment-router-7bdd445bbd-7hvhm         0/1     CrashLoopBackOff   5 (13s ago)"
        "   3m42s",
    ),
    (
        "crash-loop",
        "https://github.com/vectorch-ai/ScaleLLM/issues/38",
        "scalellm          | ./entrypoint.sh: line 28:     7 Killed\nscalellm exited with code 137",
    ),
    (
        "frozen-engine",
        "https://github.com/intel/llm-scaler/issues/77",
        "ERROR 09-06 04:14:11 [core.py:640] TimeoutError: RPC call to execute_model timed out.\n"
        "ERROR 09-06 04:14:11 [async_llm.py:416] AsyncLLM output_handler failed.",
    ),
    (
        "frozen-engine",
        "https://github.com/vllm-project/vllm/issues/51986",
        "\n".join(
            f"(EngineCore pid=2025) INFO 08-13 11:{minute}:02 [shm_broadcast.py:802] No available"
            " shared memory broadcast block found in 60 seconds. This typically happens when some"
            " processes are hanging"
            for minute in range(27, 32)
        ),
    ),
    (
        "quota",
        "https://github.com/marin-community/marin/issues/87",
        "Quota 'TPUV4sPreemptiblePodPerProjectPerRegionForTPUAPI' exhausted. Limit 20800 in region"
        " us-central2",
    ),
    (
        "quota",
        "https://github.com/marin-community/marin/pull/1612",
        "\"Quota limit 'TPUV6EPreemptiblePerProjectPerRegionForTPUAPI' has been exceeded. Limit: 0"
        ' in region us-east5."',
    ),
    (
        "stock-out",
        "https://github.com/thevasudevgupta/gsoc-wav2vec2/issues/11",
        "ERROR: (gcloud.compute.tpus.execution-groups.create) There is no more capacity in the zone"
        ' "europe-west4-a"; you can try in another zone where Cloud TPU Nodes are offered',
    ),
    (
        "stock-out",
        "https://github.com/skypilot-org/skypilot/issues/4579",
        "Got return code 8 in us-central1-a: 'Insufficient reserved capacity. Contact customer"
        " support to increase your reservation. [EID: 0x7adf6d58c08b0aa4]'",
    ),
    (
        "secure-boot",
        "https://github.com/google/fully-homomorphic-encryption/issues/103",
        "google.api_core.exceptions.InvalidArgument: 400 Cloud TPU received a bad request."
        " Constraint constraints/compute.requireShieldedVm violated. Please create TPUs with Secure"
        " Boot enabled or remove the Organization Policy Constraint.",
    ),
    (
        "secure-boot",
        "https://github.com/hashicorp/packer/issues/7846",
        "Error creating instance: googleapi: Error 412: Constraint"
        " constraints/compute.requireShieldedVm violated for project projects/p. Secure Boot is not"
        " enabled in the 'shielded_instance_config' field.",
    ),
    (
        "guest-attributes",
        "https://github.com/GoogleCloudPlatform/osconfig/issues/411",
        "OSConfigAgent Error inventory.go:47: postAttribute error: received status code"
        ' "403 Forbidden" for request "PUT http://metadata.google.internal/computeMetadata/v1/'
        'instance/guest-attributes/guestInventory/Hostname"',
    ),
    (
        "guest-attributes",
        "the help of gcloud 528 on get-guest-attributes of a TPU VM",
        "ERROR: (gcloud.alpha.compute.tpus.tpu-vm.ssh) Failed to connect to TPU. Please check that"
        " the constraint compute.disableGuestAttributesAccess is not enforced.",
    ),
    (
        "arguments",
        "https://github.com/vllm-project/vllm/issues/27389",
        "api_server.py: error: unrecognized arguments: /models/Qwen3-8B",
    ),
    (
        "arguments",
        "https://github.com/EvolvingLMMs-Lab/LongVT/issues/9",
        "Value error, User-specified max_model_len (131072) is greater than the derived"
        " max_model_len (max_position_embeddings=32768.0 or model_max_length=None in model's"
        " config.json).",
    ),
    (
        "device",
        "https://github.com/pytorch/xla/issues/8735",
        "RuntimeError: Bad StatusOr access: UNKNOWN: TPU initialization failed: open(/dev/accel0):"
        " Operation not permitted: Operation not permitted; Couldn't open device: /dev/accel0",
    ),
    (
        "device",
        "https://github.com/google/gvisor/issues/10923",
        "RuntimeError: Unable to initialize backend 'tpu': UNKNOWN: TPU initialization failed:"
        " open(/dev/vfio/0): Operation not permitted: Operation not permitted; Couldn't open iommu"
        " group /dev/vfio/0",
    ),
    (
        "image",
        "https://github.com/vllm-project/vllm/issues/17114",
        "# Error response from daemon: manifest for vllm/vllm-tpu:latest not found: manifest"
        " unknown: manifest unknown",
    ),
    (
        "image",
        "https://github.com/docker/hub-feedback/issues/2429",
        "ERROR: Error response from daemon: toomanyrequests: You have reached your pull rate"
        " limit.",
    ),
)

#: Lines that tell nothing: of servers that are well, of clients, and of failures of others.
HARMLESS: tuple[str, ...] = (
    "(EngineCore pid=7) INFO 11-28 10:00:00 [kv_cache_utils.py:1087] KV cache size: 162,704 tokens",
    "(APIServer pid=1) INFO 11-28 10:00:00 [api_server.py:2] Starting vLLM API server on 0.0.0.0",
    'INFO: 10.0.0.9:1 - "GET /RESOURCE_EXHAUSTED:%20Ran%20out%20of%20memory HTTP/1.1" 404',
    "(APIServer pid=1) INFO 11-28 10:00:00 [logger.py:40] Received request cmpl-1: prompt: 'why"
    " RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm'",
    "(EngineCore pid=7) INFO 08-13 11:27:02 [shm_broadcast.py:802] No available shared memory"
    " broadcast block found in 60 seconds.",
    "(EngineCore pid=7) WARNING 11-28 10:00:00 [tpu.py:9] Pin memory is not supported on TPU.",
    "2026-11-28T10:00:00Z phase weights",
    "2026-11-28T10:00:00Z secrets: the metadata server answers 000 for instance/id",
    "2026-11-28T10:00:00Z watch: serving",
    "sh: 1: nvidia-smi: Permission denied",
    "user@tpu.1: Permission denied (publickey).",
    "Traceback (most recent call last):\nKeyError: 'colour'",
)
