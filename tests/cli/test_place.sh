#!/usr/bin/env bash
# One core only, through taskset; cores that are asked for and not allowed; a locale that writes 1,5 for 1.5.
# shellcheck disable=SC2016 # jq has its own $names
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

first=$(taskset -cp $$ | sed 's/.*: //; s/[,-].*//')
expect 0 taskset -c "$first" "$ASSAY" run "${small[@]}" --rounds 2 --out "$work/one.json"
strict "$work/one.json"
holds "$work/one.json" '.plan.placement.cpus == [$cpu] and .plan.placement.read_back == [$cpu]' --argjson cpu "$first"
holds "$work/one.json" 'all(.cases[]; .status == "done")'

expect 0 "$ASSAY" run "${small[@]}" --cpus "$first" --rounds 2 --out "$work/asked.json"
holds "$work/asked.json" '.plan.placement.cpus == [$cpu] and .plan.placement.chosen_by == "user"' --argjson cpu "$first"

expect 3 "$ASSAY" run "${small[@]}" --cpus 1023 --out "$work/none.json"
said '1023'
if [ "$(nproc)" -gt 1 ]; then
    second=$((first + 1))
    expect 3 taskset -c "$first" "$ASSAY" run "${small[@]}" --cpus "$second" --out "$work/none.json"
    said 'cpus'
fi
[ ! -e "$work/none.json" ] || fail "a result was written"

# Numbers are JSON numbers in every locale.
german=$(locale -a 2>/dev/null | grep -iE '^de_DE' | head -n 1)
if [ -z "$german" ] && command -v localedef >/dev/null && [ -e /usr/share/i18n/locales/de_DE ]; then
    mkdir -p "$work/locale"
    if localedef -i de_DE -f UTF-8 "$work/locale/de_DE.UTF-8" 2>/dev/null; then
        german=de_DE.UTF-8
        LOCPATH=$work/locale
    fi
fi
if [ -n "$german" ]; then
    comma=$(env LC_ALL="$german" ${LOCPATH:+LOCPATH="$LOCPATH"} locale decimal_point)
    [ "$comma" = , ] || fail "the German locale does not take effect"
    expect 0 env LC_ALL="$german" ${LOCPATH:+LOCPATH="$LOCPATH"} "$ASSAY" run "${small[@]}" --rounds 2 --budget 20s --out "$work/german.json"
    strict "$work/german.json"
    holds "$work/german.json" '[.cases[].metrics[].value] | length > 0 and all(.[]; type == "number" and . > 0)'
else
    printf 'no German locale here: not tested\n'
fi
