#!/usr/bin/env bash
# Startup of a serving host, part 90: the phases in order. Nothing runs before this line has
# arrived, so a script that was cut short does nothing at all.
set -Eeuo pipefail

main() {
    set_traps
    make_directories
    # One run at a time; a second one, started by hand, waits for the first.
    exec 9>"$STATE_DIR/lock"
    flock 9
    if leave_to_watch; then
        log 'this host drains: nothing is done'
        export HAS_ENDED=yes
        return 0
    fi
    end_watch
    rm -f "$STATE_DIR/failed"
    begin_boot_log
    # The log keeps its writer when a signal comes to all processes at once, and when whoever reads the
    # script's output has gone (Google's runner that was stopped, a terminal that was closed): bash says
    # of a command that a signal ended that it did, and without a reader would end by SIGPIPE before any
    # trap has run.
    exec > >(trap '' HUP INT TERM &&
        exec tee --append --output-error=warn-nopipe "$LOG_DIR/startup.log" 9>&-) 2>&1

    begin_run
    read_config
    await_no_drain
    check_capacity
    fetch_secrets
    prepare_tls
    begin_compile_cache || without_compile_cache 'it could not be looked for'
    fetch_image_and_weights
    start_container
    wait_for_health
    serve_completion
    warm_up
    pack_compile_cache || log 'the compile cache could not be packed'
    phase READY
    export HAS_ENDED=yes
    begin_watch
    publish_for_good
    keep_boot_log NOTICE || log 'the log could not be written to Cloud Logging'
    # The host serves already; what is left to do concerns the next one.
    upload_compile_cache || log 'the compile cache could not be saved'
    [[ -z $REPORT_IS_DUE ]] || publish_for_good
}

main "$@"
