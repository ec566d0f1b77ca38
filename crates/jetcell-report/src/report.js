for (const plot of document.querySelectorAll(".plot")) {
  const { unit, names, places } = JSON.parse(plot.dataset.values);
  const drawing = plot.querySelector("svg"), output = plot.querySelector("output");
  const [, , width, height] = drawing.getAttribute("viewBox").split(" ").map(Number);
  const cursor = document.createElementNS(drawing.namespaceURI, "line");
  for (const [name, value] of Object.entries({ y1: 13, y2: height - 52, stroke: "currentColor", visibility: "hidden" }))
    cursor.setAttribute(name, value);
  drawing.append(cursor);
  let at = -1;
  const show = (place) => {
    if (!places.length) return;
    at = Math.max(0, Math.min(places.length - 1, place));
    const [x, name, values] = places[at];
    const parts = names.map((name, line) => (values[line] === null ? "" : `${name} ${values[line]}`)).filter(Boolean);
    output.textContent = `${name}: ${parts.join("; ") || "no value"} (${unit})`;
    for (const end of ["x1", "x2"]) cursor.setAttribute(end, x * width);
    cursor.setAttribute("visibility", "visible");
  };
  const hide = () => {
    at = -1;
    output.textContent = "";
    cursor.setAttribute("visibility", "hidden");
  };
  const nearest = (x) =>
    places.reduce((best, place, i) => (Math.abs(place[0] - x) < Math.abs(places[best][0] - x) ? i : best), 0);
  plot.addEventListener("pointermove", (event) => {
    const box = drawing.getBoundingClientRect();
    show(nearest((event.clientX - box.left) / box.width));
  });
  plot.addEventListener("pointerleave", hide);
  plot.addEventListener("blur", hide);
  plot.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: places.length - 1, PageUp: at - 10, PageDown: at + 10 };
    if (event.key === "Escape") hide();
    else if (event.key in steps) show(steps[event.key]);
    else return;
    event.preventDefault();
  });
}
