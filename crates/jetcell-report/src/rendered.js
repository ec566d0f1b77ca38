// What a reader would see of a page, sent to the page around it. Only tests have this.
(() => {
  const found = [], width = document.documentElement.clientWidth;
  const text = (element) => `${element.tagName} ${element.className}: ${element.textContent.trim().slice(0, 60)}`;
  const scrolls = (element) => {
    for (let each = element; each; each = each.parentElement)
      if (["auto", "scroll"].includes(getComputedStyle(each).overflowX)) return true;
    return false;
  };
  for (const element of document.body.querySelectorAll("*:not(svg *)")) {
    const box = element.getBoundingClientRect();
    if (box.width && (box.right > width + 1 || box.left < -1) && !scrolls(element.parentElement)) found.push(`clipped ${text(element)}`);
  }
  for (const svg of document.querySelectorAll("figure svg")) {
    const drawing = svg.getBoundingClientRect();
    for (const label of svg.querySelectorAll("text")) {
      const box = label.getBoundingClientRect();
      if (box.width && (box.right > drawing.right + 1 || box.left < drawing.left - 1)) found.push(`clipped label ${text(label)}`);
    }
  }
  for (const cell of document.querySelectorAll("th, td, dt, dd")) {
    const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    for (let node = texts.nextNode(); node; node = texts.nextNode()) {
      for (const word of node.data.matchAll(/[\p{L}\p{N}]+(?:[.,_:][\p{L}\p{N}]+)*/gu)) {
        const range = document.createRange();
        range.setStart(node, word.index);
        range.setEnd(node, word.index + word[0].length);
        const lines = new Set([...range.getClientRects()].map((line) => Math.round(line.top)));
        if (lines.size > 1) found.push(`broken word ${word[0]} in ${text(cell)}`);
      }
    }
  }
  const shown = {}, plot = document.querySelector(".plot");
  if (plot) {
    const output = plot.querySelector("output"), cursor = plot.querySelector("svg > line:last-child");
    const seen = (name) => (shown[name] = [output.textContent, cursor.getAttribute("visibility")]);
    const key = (name) => {
      const event = new KeyboardEvent("keydown", { key: name, cancelable: true, bubbles: true });
      plot.dispatchEvent(event);
      seen(name);
      return event.defaultPrevented;
    };
    const pointer = (share) => {
      const box = plot.querySelector("svg").getBoundingClientRect();
      plot.dispatchEvent(new PointerEvent("pointermove", { clientX: box.left + share * box.width, clientY: box.top + 5, bubbles: true }));
      seen(`pointer ${share}`);
    };
    plot.focus();
    shown.focus = document.activeElement === plot;
    shown.taken = ["Home", "ArrowRight", "End", "ArrowLeft"].map(key);
    shown.left = key("Tab");
    shown.visible = output.getBoundingClientRect().height > 0 && getComputedStyle(output).display !== "none";
    key("Escape");
    pointer(0);
    pointer(1);
    plot.dispatchEvent(new PointerEvent("pointerleave"));
    seen("gone");
  }
  parent.postMessage({ name: document.title, width, found, shown }, "*");
})();
