#!/usr/bin/env bash
# Takes pictures of pages as readers see them.
#
#   scripts/screenshots.sh RUN [DIRECTORY [PAGE...]]    pictures of the run into DIRECTORY [default: target/screenshots]
#
# Pages: the report of the run, the run beside a copy of it (compare), the example of jetcell size, raid reliability, and each PAGE, such as
# the report.html that jetcell disk test wrote, with the name of its directory. Pictures of each:
# PAGE-wide.png (1400 pixels), PAGE-narrow.png (390 pixels), PAGE-dark.png, PAGE-print.pdf. Needs chromium. JETCELL=FILE uses that program
# instead of a build. To renew the picture of the README, give a run of a quiet machine and copy report-wide.png to docs/images/report.png.
set -euo pipefail
run=${1:?give the directory of a run; see the head of scripts/screenshots.sh}
mkdir -p "${2:-target/screenshots}"
directory=$(cd "${2:-target/screenshots}" && pwd)
"$(dirname "$0")/check-tools.sh" screenshots.sh chromium
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome)
jetcell() {
    if [[ -n ${JETCELL:-} ]]; then "$JETCELL" "$@"; else cargo run --quiet -p jetcell --features full -- "$@"; fi
}
shot() {
    "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --allow-file-access-from-files "$@" 2> /dev/null
}
# A verdict that is not a pass, as of a short run, is no error here.
jetcell report "$run" --format html > "$directory/report.html" || [[ $? = 1 ]]
rm -rf "$directory/again"
cp -r "$run" "$directory/again"
jetcell compare "$run" "$directory/again" --format html > "$directory/compare.html" || [[ $? = 1 ]]
jetcell size --example > "$directory/site.toml"
jetcell size --config "$directory/site.toml" --html "$directory/size.html" > "$directory/size.txt"
jetcell raid reliability --compare --curve scrub --html "$directory/raid.html" > "$directory/raid.txt"
pages=(report compare size raid)
for page in "${@:3}"; do
    name=$(basename "$(dirname "$(realpath "$page")")")
    cp "$page" "$directory/$name.html"
    pages+=("$name")
done
for page in "${pages[@]}"; do
    # A browser window is at least 500 pixels wide, so that the narrow page is a frame of 390 pixels.
    echo "<body style='margin:0'><iframe src='$page.html' style='border:0;width:390px;height:3000px'></iframe>" > "$directory/narrow.html"
    shot --window-size=1400,1500 --screenshot="$directory/$page-wide.png" "file://$directory/$page.html"
    shot --window-size=1400,1500 --blink-settings=preferredColorScheme=0 --screenshot="$directory/$page-dark.png" "file://$directory/$page.html"
    shot --window-size=500,3000 --screenshot="$directory/$page-narrow.png" "file://$directory/narrow.html"
    shot --no-pdf-header-footer --print-to-pdf="$directory/$page-print.pdf" "file://$directory/$page.html"
done
rm -r "$directory/narrow.html" "$directory/again"
ls "$directory"
