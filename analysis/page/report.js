// Draws the curves of the report, and sorts its run table. It estimates nothing: means, bands and smoothing come as
// numbers. Text from specs enters by textContent alone. Leaves out: everything that reads well without a script.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const state = { view: 0, metric: 0, off: new Set(), zoom: null, at: null };
  const HEIGHT = 250, TOP = 8, BOTTOM = 34, LEFT = 46;
  let panels = [], lines = [], labelled = true;

  const svg = (name, attributes, parent, text = "") => {
    const node = parent.appendChild(document.createElementNS("http://www.w3.org/2000/svg", name));
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.textContent = text;
    return node;
  };
  const html = (name, text, parent) => {
    const node = parent.appendChild(document.createElement(name));
    node.textContent = text;
    return node;
  };
  const view = () => data.views[state.view], arm = (line) => view().arms[line.arm];
  const ink = (node, line) => { node.style.setProperty("--c", arm(line).colour); return node; };
  const short = (text, length) => (text.length > length ? text.slice(0, length - 1) + "…" : text);
  const number = (value) => String(Number(value.toPrecision(4)));
  const reading = () => (byId("smooth").checked ? "smooth" : "raw");
  const shown = () => lines.filter((line) => !state.off.has(line.arm));
  const inside = (x) => !state.zoom || (x >= state.zoom[0] && x <= state.zoom[1]);

  function ticks(low, high, most, whole) {
    const rough = Math.max((high - low) / most, 1e-12), power = 10 ** Math.floor(Math.log10(rough));
    let step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999);
    if (whole) step = Math.max(1, Math.round(step));
    const found = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) found.push(Number((i * step).toPrecision(8)));
    return found;
  }

  function range() { // of all panels: the lines with room, and of the bands as much as leaves the lines readable
    const least = (values, from = Infinity) => values.reduce((a, b) => Math.min(a, b), from);
    const most = (values, from = -Infinity) => values.reduce((a, b) => Math.max(a, b), from);
    const pick = (values, x) => values.filter((value, i) => inside(x[i]));
    const all = shown().flatMap((line) => [line, ...(byId("seeds").checked ? line.seeds : [])]);
    const heights = all.flatMap((line) => pick(line[reading()].mean || line[reading()], line.x));
    const far = byId("band").checked ? shown().flatMap((line) => ["low", "high"].flatMap((edge) => pick(line[reading()][edge], line.x))) : [];
    const [low, high] = heights.length ? [least(heights), most(heights)] : [0, 1], span = high - low || Math.abs(high) * 0.2 || 1;
    const y = [Math.max(low - 0.4 * span, least(far, low - 0.08 * span)), Math.min(high + 0.4 * span, most(far, high + 0.08 * span))];
    if (low >= 0) y[0] = Math.max(0, y[0]); // what cannot be negative starts at 0 at the lowest
    const x = lines.flatMap((line) => [line, ...line.seeds].flatMap((one) => one.x)), full = [least(x), most(x)];
    return { x: state.zoom || [full[0], Math.max(full[1], full[0] + 1)], full, y };
  }

  // a gap in the record lifts the pen; a point alone is a short stroke, or it would not show
  const point = (x, y, px, py) => `${px(x).toFixed(1)} ${py(y).toFixed(1)}`;
  const path = (x, y, cuts, px, py) => x.map((step, i) => {
    const first = !i || cuts.includes(i), last = i + 1 === x.length || cuts.includes(i + 1);
    return `${first ? "M" : "L"}${point(step, y[i], px, py)}${first && last ? "h2.5" : ""}`;
  }).join("");
  const area = (line, band, px, py) => [0, ...line.cuts].map((from, k) => {
    const x = line.x.slice(from, line.cuts[k] ?? line.x.length), edge = (y) => x.map((step, i) => point(step, y[from + i], px, py));
    return x.length ? `M${[...edge(band.high), ...edge(band.low).reverse()].join("L")}Z` : "";
  }).join("");

  function draw() {
    const metric = data.metrics[state.metric], cells = view().places.map(([panel, arm, cell]) => [panel, arm, metric.lines[cell]]);
    lines = cells.filter(([, , line]) => line).map(([panel, arm, line]) => ({ ...line, panel, arm }));
    const { x, full, y } = range();
    for (const panel of panels) {
      const width = Math.max(260, panel.root.clientWidth), names = Math.max(...view().arms.map((arm) => short(arm.name, 12).length));
      const right = labelled ? 14 + 7 * names : 12;
      const px = (step) => LEFT + ((step - x[0]) / (x[1] - x[0])) * (width - LEFT - right);
      const py = (value) => TOP + ((y[1] - value) / (y[1] - y[0])) * (HEIGHT - TOP - BOTTOM);
      Object.assign(panel, { px, py, x, full, width, right, lines: shown().filter((line) => line.panel === panel.index) });
      const root = panel.svg;
      root.replaceChildren();
      root.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
      root.setAttribute("aria-label", `${view().panels[panel.index]}: ${metric.label} over training steps, a line per ${view().axis || "stratum"}`);
      const clip = svg("clipPath", { id: `clip${panel.index}` }, root);
      svg("rect", { x: LEFT, y: TOP, width: width - LEFT - right, height: HEIGHT - TOP - BOTTOM }, clip);
      for (const tick of ticks(y[0], y[1], 5)) {
        svg("path", { class: "grid", d: `M${LEFT} ${py(tick)}H${width - right}` }, root);
        svg("text", { x: LEFT - 6, y: py(tick) + 4, "text-anchor": "end" }, root, number(tick));
      }
      const across = { y: HEIGHT - BOTTOM + 16, "text-anchor": "middle" };
      for (const tick of ticks(x[0], x[1], Math.max(3, width / 90), true)) svg("text", { x: px(tick), ...across }, root, tick);
      svg("text", { x: (LEFT + width - right) / 2, y: HEIGHT - 3, "text-anchor": "middle" }, root, "training step");
      const plot = svg("g", { "clip-path": `url(#clip${panel.index})` }, root);
      const ordered = [...panel.lines].sort((a, b) => arm(a).baseline - arm(b).baseline);
      for (const line of ordered) {
        const read = line[reading()], dash = arm(line).dash;
        if (byId("band").checked) ink(svg("path", { class: "band", d: area(line, read, px, py) }, plot), line);
        if (byId("seeds").checked) {
          for (const seed of line.seeds) {
            const node = ink(svg("path", { class: "line seed", d: path(seed.x, seed[reading()], seed.cuts, px, py) }, plot), line);
            svg("title", {}, node, `${arm(line).name}, seed ${seed.seed}${seed.state ? `, ${seed.state}` : ""}`);
          }
        }
        ink(svg("path", { class: "line", d: path(line.x, read.mean, line.cuts, px, py), "stroke-dasharray": dash }, plot), line);
      }
      if (!panel.lines.length) svg("text", { x: width / 2, y: HEIGHT / 2, "text-anchor": "middle" }, root, "nothing recorded");
      if (labelled && view().arms.length > 1) label(panel, y);
      panel.mark = svg("g", {}, root);
    }
    byId("reset").hidden = !state.zoom;
    const counts = shown().map((line) => line.n), bands = [...new Set(shown().map((line) => data.bands[line.band]).filter(Boolean))];
    const most = Math.max(...counts), least = Math.min(...counts), seeds = most === least ? most : `${least} to ${most}`;
    byId("said").textContent = !counts.length ? "" : `${metric.label}. Lines: mean of ${seeds} seed${most === 1 ? "" : "s"}` +
      `${byId("smooth").checked ? ", each smoothed (centred 11-step mean, then exponential 0.8)" : ", not smoothed"}; a line ends where ` +
      `the first seed ends.${byId("band").checked && bands.length ? ` Band: ${bands.join("; ")}. A wide band may leave the panel.` : ""} ${data.left_out}`;
    mark();
  }

  function label(panel, y) { // names at the ends of the lines, pushed apart until none covers another
    const ends = panel.lines.map((line) => {
      const last = line.x.findLastIndex(inside);
      return last < 0 ? null : { line, at: panel.py(Math.min(y[1], Math.max(y[0], line[reading()].mean[last]))) };
    }).filter(Boolean).sort((a, b) => a.at - b.at);
    ends.forEach((end, i) => { end.at = Math.max(end.at, i ? ends[i - 1].at + 14 : TOP + 6); });
    for (let i = ends.length - 1; i >= 0; i--) ends[i].at = Math.min(ends[i].at, i + 1 < ends.length ? ends[i + 1].at - 14 : HEIGHT - BOTTOM);
    for (const { line, at } of ends) {
      const name = short(arm(line).name, 12);
      ink(svg("text", { class: "label", x: panel.width - panel.right + 6, y: at + 4 }, panel.svg, name), line);
    }
  }

  function mark() { // the rule at one step in every panel, and the numbers in the one that is looked at
    for (const panel of panels) {
      panel.mark.replaceChildren();
      panel.tip.hidden = true;
      if (state.at === null) continue;
      svg("path", { class: "rule", d: `M${panel.px(state.at.step)} ${TOP}V${HEIGHT - BOTTOM}` }, panel.mark);
      panel.tip.replaceChildren();
      html("div", `step ${state.at.step}`, panel.tip);
      for (const line of panel.lines) {
        const i = line.x.indexOf(state.at.step), read = line[reading()];
        if (i < 0) continue;
        ink(svg("circle", { class: "dot", cx: panel.px(line.x[i]), cy: panel.py(read.mean[i]), r: 3.5 }, panel.mark), line);
        const band = line.band === "none" ? "" : ` [${number(read.low[i])}, ${number(read.high[i])}]`;
        const row = html("div", "", panel.tip);
        ink(html("i", "", row), line);
        row.append(`${short(arm(line).name, 20)}  ${number(read.mean[i])}${band}  n ${line.n}`);
      }
      if (panel.index !== state.at.panel) continue;
      panel.tip.hidden = false;
      const x = panel.px(state.at.step) * (panel.root.clientWidth / panel.width), wide = panel.tip.offsetWidth, room = panel.root.clientWidth;
      panel.tip.style.left = `${Math.max(0, Math.min(room - wide, x + wide + 12 < room ? x + 12 : x - wide - 12))}px`;
      panel.tip.style.top = "30px";
    }
  }

  const steps = (panel) => [...new Set(panel.lines.flatMap((line) => line.x))].filter(inside).sort((a, b) => a - b);
  const stepAt = (panel, event) => {
    const box = panel.svg.getBoundingClientRect(), at = ((event.clientX - box.left) / box.width) * panel.width;
    return panel.x[0] + ((at - LEFT) / (panel.width - LEFT - panel.right)) * (panel.x[1] - panel.x[0]);
  };
  function look(panel, step) {
    const near = steps(panel).reduce((a, b) => (a === null || Math.abs(b - step) < Math.abs(a - step) ? b : a), null);
    state.at = near === null ? null : { panel: panel.index, step: near };
    mark();
  }
  function zoom(panel, low, high) { // three steps at least; the whole range is no zoom
    const [first, last] = panel.full, from = Math.max(first, low), to = Math.min(last, high);
    if (to - from < 3) return;
    state.zoom = from <= first && to >= last ? null : [from, to];
    if (state.at && !inside(state.at.step)) state.at = null;
    draw();
  }
  const scale = (panel, middle, by) => zoom(panel, middle - (middle - panel.x[0]) * by, middle + (panel.x[1] - middle) * by);
  const reset = () => { state.zoom = null; draw(); };
  function listen(panel) {
    let start = null;
    panel.svg.addEventListener("pointerdown", (event) => { start = stepAt(panel, event); look(panel, start); });
    panel.svg.addEventListener("pointermove", (event) => {
      const step = stepAt(panel, event);
      look(panel, step);
      if (start === null || !event.buttons) return;
      const [a, b] = [start, step].sort((m, n) => m - n).map((s) => panel.px(Math.min(panel.x[1], Math.max(panel.x[0], s))));
      svg("rect", { class: "brush", x: a, y: TOP, width: b - a, height: HEIGHT - TOP - BOTTOM }, panel.mark);
    });
    panel.svg.addEventListener("pointerup", (event) => {
      const step = stepAt(panel, event), from = start;
      start = null;
      if (from !== null && Math.abs(panel.px(step) - panel.px(from)) > 8) zoom(panel, Math.min(from, step), Math.max(from, step));
    });
    panel.svg.addEventListener("pointerleave", () => { start = null; state.at = null; mark(); });
    panel.svg.addEventListener("dblclick", reset);
    panel.svg.addEventListener("wheel", (event) => { // else a page that scrolls under the pointer would stop at each panel
      if (document.activeElement !== panel.svg && !event.ctrlKey) return;
      event.preventDefault();
      scale(panel, stepAt(panel, event), event.deltaY > 0 ? 1.25 : 0.8);
    }, { passive: false });
    panel.svg.addEventListener("blur", () => { state.at = null; mark(); });
    panel.svg.addEventListener("keydown", (event) => {
      const all = steps(panel), now = state.at ? all.indexOf(state.at.step) : -1;
      if (event.key === "ArrowRight") look(panel, all[Math.min(all.length - 1, now + 1)]);
      else if (event.key === "ArrowLeft") look(panel, all[Math.max(0, now - 1)]);
      else if ("+-".includes(event.key)) scale(panel, state.at ? state.at.step : (panel.x[0] + panel.x[1]) / 2, event.key === "+" ? 0.8 : 1.25);
      else if (event.key === "Escape") reset();
      else return;
      event.preventDefault();
    });
  }

  function turn() { // its arms as the legend, its panels
    const used = new Set(view().places.map(([, arm]) => arm));
    byId("legend").replaceChildren();
    byId("panels").replaceChildren();
    Object.assign(state, { off: new Set(), at: null });
    labelled = used.size <= 6;
    view().arms.forEach((arm, i) => {
      if (!used.has(i)) return;
      const button = html("button", "", byId("legend")), mini = svg("svg", { width: 30, height: 8, "aria-hidden": "true" }, button);
      button.type = "button";
      ink(svg("path", { class: "line", d: "M0 4H30", "stroke-dasharray": arm.dash }, mini), { arm: i });
      button.append(arm.baseline ? `${arm.name} (baseline)` : arm.name);
      button.setAttribute("aria-pressed", "true");
      button.addEventListener("click", () => {
        if (!state.off.delete(i)) state.off.add(i);
        button.setAttribute("aria-pressed", String(!state.off.has(i)));
        draw();
      });
    });
    byId("panels").classList.toggle("many", used.size > 3);
    panels = view().panels.map((name, index) => {
      const root = html("figure", "", byId("panels"));
      html("figcaption", name, root);
      const panel = { index, root, svg: svg("svg", { role: "img", tabindex: 0 }, root), tip: html("div", "", root) };
      panel.tip.className = "tip";
      panel.tip.setAttribute("role", "status");
      listen(panel);
      return panel;
    });
    draw();
  }

  function curves() {
    for (const line of data.metrics.flatMap((metric) => metric.lines.filter(Boolean)).flatMap((line) => [line, ...line.seeds])) line.x = data.grids[line.x];
    for (const one of data.views) html("option", one.axis, byId("axis"));
    for (const metric of data.metrics) html("option", metric.label, byId("metric"));
    byId("compare").hidden = data.views.length < 2;
    byId("axis").addEventListener("change", (event) => { state.view = event.target.selectedIndex; turn(); });
    byId("metric").addEventListener("change", (event) => { state.metric = event.target.selectedIndex; draw(); });
    for (const id of ["smooth", "seeds", "band"]) byId(id).addEventListener("change", draw);
    byId("reset").addEventListener("click", reset);
    turn();
    new ResizeObserver(draw).observe(byId("panels"));
  }

  function sortable(table) { // numbers before text; what is missing comes last, either way
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => head.firstElementChild.addEventListener("click", () => {
      const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1, text = (row) => row.cells[column].textContent.trim();
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
      const order = (a, b) => (/^[\d.+-]/.test(a) && /^[\d.+-]/.test(b) ? parseFloat(a) - parseFloat(b) : 0) || a.localeCompare(b);
      const missing = (row) => Number(text(row) === "-");
      const rows = [...table.tBodies[0].rows];
      table.tBodies[0].append(...rows.sort((a, b) => missing(a) - missing(b) || sign * order(text(a), text(b))));
    }));
  }

  if (data.metrics.length) curves();
  document.querySelectorAll("table.sortable").forEach(sortable);
  addEventListener("beforeprint", () => { for (const fold of document.querySelectorAll("details")) fold.open = true; });
})();
