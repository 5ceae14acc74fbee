#!/usr/bin/env bash
# For a GPU machine that has no compiler, no HDF5 and no network: builds here and packs what tests/gpu.sh runs, with the
# shared libraries that it needs beside those of the C library and of CUDA.
#
#   tests/gpu_pack.sh [FILE.tar.gz]     (default: build/gpu-pack.tar.gz)
#
# There, in a checkout of the same commit:  tar xzf FILE.tar.gz && GPU_SH_BUILT=1 tests/gpu.sh
# It needs bash, a C library as new as the one here, NVIDIA's driver, and cuBLAS of the major version that nvcc has here.
# GPU_SH_SMALL=1: what is built already, without the plugin: a test of this script.
set -euo pipefail
cd "$(dirname "$0")/.."
variant=${VARIANT:-cpu}
out=${1:-build/gpu-pack.tar.gz}
built=build/$variant
plugin=$built/lib/backend_cuda.so
if [ "${GPU_SH_SMALL:-0}" = 1 ]; then
    plugin=$built/tests/backend_shim.so
else
    make -j"$(nproc)" CUDA=1 VARIANT="$variant" all tools cuda-tests
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
programs=("$built/bin/dntrain" "$built/bin/dnpredict" "$built/tools/gpubench" "$built/tools/mkmodel" "$built"/cuda/test_cuda_*)
mkdir -p "$tmp/build/gpu-libs"
for f in "${programs[@]}" "$plugin"; do
    case $f in *.d) continue ;; esac
    mkdir -p "$tmp/$(dirname "$f")"
    strip -o "$tmp/$f" "$f"
done
# Not the C library, the compiler's, or CUDA's: those must be the machine's own.
ldd "${programs[@]}" | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u |
    grep -vE '/(libc|libm|libdl|librt|libpthread|libresolv|libgcc_s|libstdc\+\+|libcuda|libcublas|libcublasLt|ld-linux[^/]*|lib[at]san|libubsan|liblsan)\.so' |
    while read -r lib; do strip -o "$tmp/build/gpu-libs/$(basename "$lib")" "$lib"; done
tar -C "$tmp" -czf "$out" build
printf '%s: %d files, %d MiB\n' "$out" "$(tar tzf "$out" | grep -vc '/$')" $(($(stat -c %s "$out") / 1048576))
