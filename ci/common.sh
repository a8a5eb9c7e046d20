# Sourced by the scripts of this folder: where the tree is, how many jobs, how stages are run and summed up.
# shellcheck shell=bash

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
jobs=${ASSAY_BUILD_JOBS:-$(nproc)}
export CMAKE_BUILD_PARALLEL_LEVEL=$jobs

say() { printf '%s\n' "$*"; }

# die CODE MESSAGE: one line on stderr that names the remedy.
die() {
    local code=$1
    shift
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit "$code"
}

# The nvcc that CMake will find, or nothing.
find_nvcc() {
    local candidate
    for candidate in "${CUDACXX:-}" "$(command -v nvcc || true)" "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" \
        /usr/local/cuda-*/bin/nvcc; do
        if [ -n "$candidate" ] && [ -x "$candidate" ]; then
            printf '%s\n' "$candidate"
            return
        fi
    done
}

# build PRESET [CMAKE_OPTION...]: configure and build one preset; Ninja where it is there, else make.
build() {
    local preset=$1 generator=()
    shift
    if ! command -v ninja >/dev/null; then
        generator=(-G "Unix Makefiles")
    fi
    (cd "$top" && cmake --preset "$preset" "${generator[@]}" "$@" && cmake --build --preset "$preset")
}

stage_names=()
stage_results=()
stage_seconds=()
stage_notes=()

# stage NAME COMMAND...: runs it in a shell of its own with a log; the first failure ends the script with the summary.
# The last line of the log that looks like a verdict (ctest's, pytest's) is kept for the summary.
stage() {
    local name=$1 log begin=$SECONDS rc=0
    shift
    mkdir -p "$top/build/log"
    log=$top/build/log/$name.log
    say "== $name"
    # Not `"$@" || rc=$?`: that would switch off errexit inside functions.
    set +e
    (
        set -e
        "$@"
    ) 2>&1 | tee "$log"
    rc=${PIPESTATUS[0]}
    set -e
    stage_names+=("$name")
    stage_seconds+=($((SECONDS - begin)))
    stage_notes+=("$(grep -E '^[0-9]+% tests passed|[0-9]+ (passed|failed|skipped).* in [0-9.]+s' "$log" | tail -n 1 || true)")
    if [ "$rc" -eq 0 ]; then
        stage_results+=(passed)
    else
        stage_results+=("failed ($rc)")
        summary
        say "Log of the failed stage: $log"
        exit "$rc"
    fi
}

summary() {
    local i
    say ""
    printf '%-18s %-12s %8s  %s\n' stage result seconds verdict
    for i in "${!stage_names[@]}"; do
        printf '%-18s %-12s %8s  %s\n' "${stage_names[i]}" "${stage_results[i]}" "${stage_seconds[i]}" "${stage_notes[i]}"
    done
}
