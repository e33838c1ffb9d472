#!/usr/bin/env bash
# Startup of a serving host, part 35: TLS, if the stack has a certificate. Without it, keys and
# answers cross the network in clear.
set -Eeuo pipefail

# Certificate and key, mounted into the container, and the pin: what the host knows its own server by.
export TLS_DIR="$MEMORY_DIR/tls"
export TLS_PIN="$MEMORY_DIR/tls.pin"

has_tls() {
    [[ -e $TLS_PIN ]]
}

prepare_tls() {
    local pem="$SECRETS_DIR/tls-certificate" problem="$STATE_DIR/tls.problem"
    rm -rf "$TLS_DIR" "$TLS_PIN"
    [[ -e $pem ]] || return 0
    python_source certificate >"$STATE_DIR/certificate.py"
    python3 -IS "$STATE_DIR/certificate.py" "$pem" "$TLS_DIR" 2>"$problem" ||
        fail tls "the secret tls-certificate cannot be used: $(tail --lines=1 "$problem")"
    openssl x509 -in "$TLS_DIR/certificate.pem" -noout -checkend 0 >/dev/null ||
        fail tls "the certificate in the secret tls-certificate has expired"
    openssl x509 -in "$TLS_DIR/certificate.pem" -noout -pubkey |
        openssl pkey -pubin -outform DER | openssl dgst -sha256 -binary | base64 --wrap=0 >"$TLS_PIN"
}

# server_get PATH FILE [CURL OPTION...]: ask our server; over TLS, only one that has our key. Its
# certificate names what clients call it, which is not the address that we know. FILE is in memory: it
# ends after 1 MiB, however much the server sends.
server_get() {
    local -a tls=()
    ! has_tls || tls=(--insecure --pinnedpubkey "sha256//$(<"$TLS_PIN")")
    (
        trap '' XFSZ
        ulimit -S -f 1024
        http_get "$(server_url)$1" "$2" "${tls[@]}" "${@:3}"
    )
}
