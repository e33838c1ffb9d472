   1 sudo docker run --name vllm-gemma4 --privileged --net=host -d \
   2   -v /dev/shm:/dev/shm --shm-size 10gb \
   3   -e HF_HOME=/dev/shm \
   4   -e HF_TOKEN=$(gcloud secrets versions access latest --secret=hf-token) \
   5   -e VLLM_TPU_BUCKET_PADDING_GAP=512 \
   6   -e VLLM_XLA_CACHE_PATH=/dev/shm/vllm_cache \
   7   vllm/vllm-tpu:nightly \
   8   /bin/bash -c "pip install git+https://github.com/huggingface/transformers.git && vllm serve google/gemma-4-26B-A4B-it \
   9     --tensor-parallel-size 4 \
  10     --dtype bfloat16 \
  11     --kv-cache-dtype fp8 \
  12     --gpu-memory-utilization 0.90 \
  13     --block-size 32 \
  14     --max-model-len 16384 \
  15     --max-num-seqs 256 \
  16     --max-num-batched-tokens 4096 \
  17     --speculative-config '{\"method\": \"ngram\", \"num_speculative_tokens\": 3}' \
  18     --enable-prefix-caching \
  19     --disable_chunked_mm_input \
  20     --safetensors-load-strategy prefetch \
  21     --limit-mm-per-prompt '{\"image\":4,\"audio\":1}' \
  22     --enable-auto-tool-choice \
  23     --tool-call-parser gemma4 \
  24     --reasoning-parser gemma4 \
  25     --trust-remote-code"
