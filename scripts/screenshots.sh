#!/usr/bin/env bash
# Takes pictures of a report as readers see it, and docs/images/report.png for the README.
#
#   scripts/screenshots.sh RUN [DIRECTORY]    pictures of the run into DIRECTORY [default: target/screenshots]
#
# Pictures: wide.png (1400 pixels), narrow.png (390 pixels), dark.png, print.pdf. Needs chromium. To renew the picture of the
# README, give a run of a quiet machine and copy wide.png to docs/images/report.png.
set -euo pipefail
run=${1:?give the directory of a run; see the head of scripts/screenshots.sh}
mkdir -p "${2:-target/screenshots}"
directory=$(cd "${2:-target/screenshots}" && pwd)
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || {
    echo 'screenshots.sh: chromium is missing; install it (Debian: apt install chromium)' >&2
    exit 2
}
cargo run --quiet -p jetcell -- report "$run" --format html > "$directory/report.html"
# A browser window is at least 500 pixels wide, so that the narrow page is a frame of 390 pixels.
echo '<body style="margin:0"><iframe src="report.html" style="border:0;width:390px;height:2400px"></iframe>' > "$directory/narrow.html"

# picture NAME PAGE SIZE [OPTION...]
picture() {
    local name=$1 page=$2 size=$3
    shift 3
    "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --allow-file-access-from-files --window-size="$size" \
        --screenshot="$directory/$name" "$@" "file://$directory/$page" 2> /dev/null
}
picture wide.png report.html 1400,1100
picture narrow.png narrow.html 500,2400
picture dark.png report.html 1400,1100 --blink-settings=preferredColorScheme=0
"$browser" --headless --no-sandbox --disable-gpu --no-pdf-header-footer --print-to-pdf="$directory/print.pdf" \
    "file://$directory/report.html" 2> /dev/null
rm "$directory/narrow.html"
ls "$directory"
