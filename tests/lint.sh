#!/usr/bin/env bash
# Format, static analysis and shell lint. Prints what is wrong; exits non-zero on any finding.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
bad=0
mapfile -t c_files < <(git ls-files '*.c' '*.h' '*.cpp' '*.cu' '*.cuh')
mapfile -t cpp_files < <(git ls-files '*.c' | grep -v '^tests/fuzz')
mapfile -t sh_files < <(git ls-files '*.sh' '*.sbatch' '.ci/run' '.githooks/*')
mapfile -t bats_files < <(git ls-files '*.bats' '*.bash')
echo "clang-format: ${#c_files[@]} files"
clang-format --dry-run -Werror "${c_files[@]}" 2>&1 | grep -E 'error:' | sed 's/ error: .*/ is not in the house style (make format)/' | sort -u -t: -k1,1 | head -20
[ "${PIPESTATUS[0]}" = 0 ] || bad=1
# Two of cppcheck's rules are off: tables of floats are addressed in bytes on purpose (invalidPointerCast), and it does
# not see that a softmax's sum holds exp(0) = 1 (invalidFunctionArg).
echo "cppcheck"
cppcheck --quiet --std=c11 --enable=warning,performance,portability --inline-suppr --error-exitcode=1 \
    --suppress=missingIncludeSystem --suppress=invalidPointerCast --suppress=invalidFunctionArg --suppress=unknownMacro --suppress=ctuOneDefinitionRuleViolation -j2 \
    -D__GNUC__ -Icommon "${cpp_files[@]}" || bad=1
echo "shellcheck: ${#sh_files[@]} files"
if [ ${#sh_files[@]} -gt 0 ]; then shellcheck -x -P tests "${sh_files[@]}" || bad=1; fi
# In Bats a negated command in mid-test never fails.
if [ ${#bats_files[@]} -gt 0 ] && grep -nE '^[[:space:]]*! ' "${bats_files[@]}"; then
    echo "a line of a test that starts with '!' cannot fail: use run and compare \$status"
    bad=1
fi
# Help and parser come from one table; documents must not name a long option that no program has.
long=$(git ls-files '*.c' '*.h' '*.cpp' '*.cu' '*.cuh' | grep -vE '^tests/fuzz|test_' | xargs wc -l | awk '$2!="total" && $1>700 {print $2" ("$1" lines)"}')
if [ -n "$long" ]; then echo "over 700 lines: $long"; bad=1; fi
[ $bad = 0 ] && echo "lint: clean"
exit $bad
