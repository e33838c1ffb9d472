#!/usr/bin/env bash
# Startup of a serving host, part 46: archives of the compile cache in a bucket, and what signs them.
# What is read in the bucket may be anybody's: part 45 uses only what that secret has signed.
set -Eeuo pipefail

# fetch_cache_secret: bring what signs archives; without it 1, and what is wrong in cache.problem.
fetch_cache_secret() {
    local status key answer="$MEMORY_DIR/compile-cache.answer"
    key=$(setting compile_cache.key)
    rm -f "$CACHE_SECRET"
    status=$(cache_get 64 "$SECRETMANAGER/$key:access" "$answer")
    if [[ $status != 200 ]]; then
        printf '%s cannot be read (HTTP %s)' "$key" "$status" >"$STATE_DIR/cache.problem"
    elif ! cache_command secret "$answer" "$CACHE_SECRET"; then
        printf '%s has no value of use: %s' "$key" "$(cache_problem)" >"$STATE_DIR/cache.problem"
    fi
    rm -f "$answer"
    [[ -e $CACHE_SECRET ]]
}

cache_objects() {
    printf '%s/%s/' "$(setting compile_cache.prefix)" "${CACHE_DIR##*/}"
}

percent_encoded() {
    python3 -IS -c 'import sys, urllib.parse; print(urllib.parse.quote(sys.argv[1], safe=""))' "$1"
}

# list_archives: the bucket's documents for this key that are worth a try, the newest first.
list_archives() {
    local status listing="$STATE_DIR/cache.listing" query
    query="maxResults=1000&prefix=$(percent_encoded "$(cache_objects)")"
    status=$(cache_get 16384 "$STORAGE/b/$(setting compile_cache.bucket)/o?$query" "$listing")
    if [[ $status != 200 ]]; then
        ignore_cache "the bucket's compile cache cannot be listed (HTTP $status)"
    elif ! cache_command newest "$listing" "$(cache_objects)"; then
        ignore_cache "the list of the bucket's compile cache is not whole: $(cache_problem)"
    fi
}

# fetch_archive NAME: bring the archive of the document NAME to the disk, if it may be used here.
fetch_archive() {
    local object status size fetched="$CACHE_DIR/archive.fetched"
    object="$STORAGE/b/$(setting compile_cache.bucket)/o/$(percent_encoded "${1%.json}")"
    status=$(cache_get 256 "$object.json?alt=media" "$fetched")
    if [[ $status != 200 ]]; then
        ignore_cache "$1 cannot be read (HTTP $status)"
    elif ! size=$(cache_command check "$CACHE_DIR" "$CACHE_SECRET" "$fetched"); then
        ignore_cache "$1 is ignored: $(cache_problem)"
    else
        status=$(cache_get $((size / 1024 + 1)) "$object.tar?alt=media" "$CACHE_DIR/archive.tar")
        if [[ $status == 200 ]]; then
            mv -f "$fetched" "$CACHE_DIR/archive.json"
            return 0
        fi
        ignore_cache "${1%.json}.tar cannot be read (HTTP $status)"
    fi
    rm -f "$CACHE_DIR"/archive.*
    return 1
}

# cache_get BLOCKS URL FILE: print the HTTP status of a GET whose answer ends at that many blocks of
# 1024 bytes. A role that was just granted, and a service in trouble, are given a moment.
cache_get() {
    local delay status=000
    local -a delays
    read -r -a delays <<<"${CACHE_DELAYS:-2 5 10 0}"
    for delay in "${delays[@]}"; do
        if authorize; then
            status=$(download "$1" http_get "$2" "$3" --max-time 600 --speed-limit 1024 --speed-time 30)
        fi
        case $status in
        000 | 401 | 403 | 429 | 5??) pause "$delay" ;;
        *) break ;;
        esac
    done
    printf '%s' "$status"
}

# upload_archive: the archive, then its document: what has a document is whole. The host may only add
# objects, and these have names of their own.
upload_archive() {
    local began name extension status=
    began=$(milliseconds)
    if ! name=$(cache_command name "$CACHE_DIR" "$CACHE_SECRET"); then
        report_cache problem "the compile cache is not saved: $(cache_problem)"
        return 0
    fi
    for extension in tar json; do
        status=$(cache_put "$CACHE_DIR/archive.$extension" "$(cache_objects)$name.$extension")
        if [[ $status != 200 ]]; then
            report_cache problem "the compile cache is not saved: Cloud Storage answers $status"
            return 0
        fi
    done
    : >"$CACHE_DIR/uploaded"
    report_cache saved_bytes "$(stat --format=%s "$CACHE_DIR/archive.tar")" \
        saved_milliseconds $(($(milliseconds) - began))
}

# cache_put FILE OBJECT: print the HTTP status of an upload; 200 also where the object is there.
cache_put() {
    local delay url status=000
    url="${STORAGE%/storage/v1}/upload/storage/v1/b/$(setting compile_cache.bucket)/o"
    url+="?uploadType=media&ifGenerationMatch=0&name=$(percent_encoded "$2")"
    for delay in 5 15 60 120 0; do
        if authorize; then
            status=$(http_get "$url" "$STATE_DIR/cache.answer" --max-time 1800 --request POST \
                --header "@$AUTHORIZATION" --header 'Content-Type: application/octet-stream' \
                --upload-file "$1")
        fi
        case $status in
        412) status=200 ;;
        000 | 401 | 403 | 429 | 5??)
            pause "$delay"
            continue
            ;;
        esac
        break
    done
    printf '%s' "$status"
}
