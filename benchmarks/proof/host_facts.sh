#!/bin/sh
# Run on the host: what the evidence of a run says of it, one section after another. No secret is
# among it: of the container, neither environment nor arguments are asked for.
section() { printf '\n== %s ==\n' "$1"; }
section kernel; uname -a; cat /etc/os-release
section versions; for tool in bash curl python3 docker; do printf '%s: ' "$tool"; "$tool" --version 2>&1 | head -n 1; done
section secure-boot; mokutil --sb-state 2>&1 || od -An -t u1 /sys/firmware/efi/efivars/SecureBoot-* 2>&1
section devices; ls -l /dev/vfio /dev/accel* 2>&1
section memory; grep -E 'MemTotal|MemAvailable' /proc/meminfo; nproc; df -h / /dev/shm
section container; sudo docker inspect --format '{{.Image}} {{.State.Status}} {{.RestartCount}} privileged={{.HostConfig.Privileged}} network={{.HostConfig.NetworkMode}} shm={{.HostConfig.ShmSize}} devices={{len .HostConfig.Devices}}' vllm 2>&1
section container-log; sudo docker logs --tail 200 vllm 2>&1
section egress; for url in https://storage.googleapis.com https://example.com; do printf '%s: ' "$url"; curl -sS -o /dev/null -m 10 -w '%{http_code} %{remote_ip}\n' "$url" 2>&1; done
section boot-log; sudo tail -n 400 /var/log/tpuflex/startup.log
