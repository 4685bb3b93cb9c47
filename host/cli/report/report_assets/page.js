// The page of a report: draws the curves of curves.js with dygraphs.
(() => {
  const root = document.documentElement;
  const palettes = {
    light: ["#2563eb", "#e8590c", "#0d9488", "#9333ea", "#dc2660", "#5c8a0c", "#0284c7", "#a16207"],
    dark: ["#60a5fa", "#fb923c", "#2dd4bf", "#c084fc", "#fb7185", "#a3e635", "#38bdf8", "#facc15"],
  };
  const hues = [217, 21, 173, 271, 340, 85, 200, 42];  // of the palettes
  const sectionTitles = {train: "Training", perf: "Performance"};
  const maxTipRows = 10;
  const isLong = data.curves.some((curve) => curve.values.length > 300);
  const state = {smoothing: isLong ? 0.91 : 0, range: null, hidden: new Set()};
  const charts = [];

  // ---- looks

  const isDark = () => root.dataset.theme ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  const shade = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const runColor = (run) => {
    const palette = palettes[isDark() ? "dark" : "light"];
    return palette[run % palette.length];
  };
  const faint = (color) => color.startsWith("#") ? color + "44" : color.replace(")", " / .27)");
  const colorOf = (chart, curve) => {
    if (curve.layer >= 0) {
      const share = chart.layers > 1 ? curve.layer / (chart.layers - 1) : 0;
      const hue = data.runs.length > 1 ? hues[curve.run % hues.length] : 215 + 170 * share;
      const light = isDark() ? 62 + (data.runs.length > 1 ? 22 * share - 8 : 0)
        : 46 + (data.runs.length > 1 ? 22 * share - 8 : 0);
      return `hsl(${Math.round(hue % 360)} 70% ${Math.round(light)}%)`;
    }
    return runColor(data.runs.length > 1 ? curve.run : curve.isEval ? 1 : 0);
  };
  const dashOf = (curve) => data.runs.length > 1 && curve.isEval ? [6, 3] : null;

  const make = (tag, props = {}, ...children) => {
    const out = Object.assign(document.createElement(tag), props);
    out.append(...children);
    return out;
  };
  const dot = (color) => {
    const out = make("span", {className: "dot"});
    out.style.background = color;
    return out;
  };
  const stroke = (color, dash) => {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("width", 22), svg.setAttribute("height", 8);
    const line = document.createElementNS(svg.namespaceURI, "line");
    for (const [key, value] of Object.entries({x1: 0, x2: 22, y1: 4, y2: 4, stroke: color,
                                               "stroke-width": 2, "stroke-dasharray": dash || "none"}))
      line.setAttribute(key, value);
    svg.append(line);
    return svg;
  };

  const isSmoothed = (curve) => state.smoothing > 0 && !curve.isEval && curve.values.length > 3 && isNoisy(curve.values);

  // The columns of a chart and their rows: steps of all visible curves, in order.
  const tableOf = (chart) => {
    const columns = [];
    chart.shown = chart.curves.filter((curve) => !state.hidden.has(curve.run));
    for (const curve of chart.shown) {
      const label = `${data.runs[curve.run]} ${curve.label}`;
      const color = colorOf(chart, curve);
      curve.smooth = isSmoothed(curve) ? smoothed(curve.values, state.smoothing) : null;
      if (curve.smooth)
        columns.push({label: label + " (raw)", x: curve.x, y: curve.values, color: faint(color), width: 1});
      const few = curve.x.length < (curve.isEval ? 80 : 40);
      columns.push({label, x: curve.x, y: curve.smooth || curve.values, color, dash: dashOf(curve),
                    width: chart.layers > 8 || (!curve.smooth && curve.x.length > 300) ? 1.2 : 1.8, points: few || curve.x.length === 1,
                    highlight: true});
    }
    const rows = new Map();
    columns.forEach((column, c) => column.x.forEach((step, i) => {
      if (!rows.has(step)) rows.set(step, [step, ...columns.map(() => null)]);
      const value = column.y[i];
      rows.get(step)[c + 1] = chart.log && !(value > 0) ? null : value;
    }));
    const file = [...rows.values()].sort((a, b) => a[0] - b[0]);
    return {columns, file: file.length ? file : [[0, ...columns.map(() => null)]]};
  };

  const optionsOf = (chart) => {
    const {columns, file} = tableOf(chart);
    chart.file = file;
    const series = {};
    for (const column of columns)
      series[column.label] = {color: column.color, strokeWidth: column.width,
                              strokePattern: column.dash || null, drawPoints: Boolean(column.points),
                              pointSize: 2.2, highlightCircleSize: column.highlight ? 3.5 : 0};
    return {file: columns.length ? file : [[0, null]], labels: ["step", ...(columns.length ? columns.map((c) => c.label) : ["none"])],
            series, logscale: chart.log, axisLineColor: shade("--line"), gridLineColor: shade("--grid")};
  };

  // ---- crosshair and values

  const tip = make("div", {id: "tip", className: "card"});
  document.body.append(tip);

  const nearest = (steps, step) => {
    let low = 0, high = steps.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (steps[middle] < step) low = middle + 1;
      else high = middle;
    }
    return low > 0 && step - steps[low - 1] <= Math.abs(steps[low] - step) ? low - 1 : low;
  };
  const whenOf = (step, per, by) => per > 1 ? `steps ${number(step - (per - 1) * by, 9)} to ${number(step, 9)}, mean`
    : `step ${step.toLocaleString("en")}`;

  const showTip = (chart, step, event) => {
    const entries = chart.shown.map((curve) => {
      const i = nearest(curve.x, step);
      return {curve, step: curve.x[i], value: (curve.smooth || curve.values)[i],
              raw: curve.smooth ? curve.values[i] : null};
    });
    let shown = entries.filter((entry) => entry.value !== null);
    if (shown.length > maxTipRows) {
      const y = chart.plot.toDataYCoord(event.clientY - chart.box.getBoundingClientRect().top);
      shown.sort((a, b) => Math.abs(a.value - y) - Math.abs(b.value - y));
      shown = shown.slice(0, maxTipRows);
    }
    shown.sort((a, b) => b.value - a.value);
    const per = Math.max(1, ...shown.filter((e) => e.step === step).map((e) => e.curve.per));
    const by = shown.length && shown[0].curve.x.length > 1 ? Math.max(1, Math.round((shown[0].curve.x[1] - shown[0].curve.x[0]) / per)) : 1;
    tip.replaceChildren(make("div", {className: "when"}, whenOf(step, per, by)));
    for (const {curve, step: at, value, raw} of shown) {
      const name = (data.runs.length > 1 ? data.runs[curve.run] + " " : "") + curve.label;
      const row = make("div", {className: "row"}, dot(colorOf(chart, curve)),
                       make("span", {className: "name"}, name));
      if (at !== step) row.append(make("small", {}, `at ${at.toLocaleString("en")}`));
      row.append(make("b", {}, number(value)));
      if (raw !== null) row.append(make("small", {}, number(raw, 4)));
      tip.append(row);
    }
    if (entries.length > shown.length)
      tip.append(make("div", {className: "when"}, `${entries.length - shown.length} more`));
    tip.style.display = "block";
    const {width, height} = tip.getBoundingClientRect(), gap = 16;
    const left = event.clientX + gap + width > innerWidth ? event.clientX - gap - width : event.clientX + gap;
    const top = Math.min(event.clientY + gap, innerHeight - height - 8);
    tip.style.left = Math.max(4, left) + "px";
    tip.style.top = Math.max(4, top) + "px";
  };

  const hideHairs = () => {
    tip.style.display = "none";
    for (const chart of charts) chart.hair.style.display = "none", chart.plot && chart.plot.clearSelection();
  };
  const showHairs = (from, step) => {
    for (const chart of charts) {
      if (!chart.plot || !chart.card.offsetParent) continue;
      const area = chart.plot.getArea(), x = chart.plot.toDomXCoord(step);
      const inside = x >= area.x - 1 && x <= area.x + area.w + 1;
      chart.hair.style.display = inside ? "block" : "none";
      chart.hair.style.left = Math.round(x) + "px";
      chart.hair.style.top = area.y + "px";
      chart.hair.style.height = area.h + "px";
      if (chart === from || !inside) continue;
      const row = nearest(chart.file.map((r) => r[0]), step);
      if (chart.file[row][0] === step) chart.plot.setSelection(row);
      else chart.plot.clearSelection();
    }
  };

  const zoomAll = (from, range) => {
    state.range = range;
    resetButton.disabled = !range;
    for (const chart of charts)
      if (chart !== from && chart.plot) chart.plot.updateOptions({dateWindow: range, valueRange: null});
  };

  // ---- drawing

  // Ticks of a logarithmic axis: 1, 2, 5 of each power of ten, or only powers; below a factor of
  // three the ticks of a linear axis.
  const logTicks = (low, high, pixels) => {
    const room = Math.max(2, Math.floor(pixels / 28));
    for (const digits of [[1, 2, 5], [1]]) {
      const out = [];
      for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); ++power)
        for (const digit of digits) {
          const v = digit * 10 ** power;
          if (v >= low && v <= high) out.push({v, label: number(v)});
        }
      if (out.length >= 3 && out.length <= room) return out;
      if (digits.length === 1 && out.length > room)
        return out.filter((_, i) => i % Math.ceil(out.length / room) === 0);
    }
    return null;
  };
  const ticksOf = (chart) => (low, high, pixels, options, plot, values) =>
    (chart.log && low > 0 && logTicks(low, high, pixels)) ||
    Dygraph.numericLinearTicks(low, high, pixels, options, plot, values);

  const drawChart = (chart) => {
    const all = chart.curves.flatMap((curve) => [curve.x[0], curve.x[curve.x.length - 1]]);
    const single = Math.min(...all) === Math.max(...all);
    chart.plot = new Dygraph(chart.box, optionsOf(chart).file, {
      ...optionsOf(chart), legend: "never", connectSeparatedPoints: true, xlabel: "step", xLabelHeight: 16,
      axisLabelFontSize: 11, yRangePad: 10, xRangePad: 4, highlightCircleSize: 3.5, animatedZooms: false,
      dateWindow: state.range || (single ? [all[0] - 1, all[0] + 1] : null),
      rightGap: 12, gridLineWidth: 1, axisLineWidth: 1,
      axes: {
        x: {axisLabelFormatter: (x) => Number.isInteger(x) ? number(x) : "", pixelsPerLabel: 48, axisLabelWidth: 56},
        y: {axisLabelFormatter: (y) => number(y), ticker: ticksOf(chart), pixelsPerLabel: 28, axisLabelWidth: 52},
      },
      highlightCallback: (event, step) => showHairs(chart, step) || showTip(chart, step, event),
      unhighlightCallback: hideHairs,
      zoomCallback: () => {
        const zoomed = chart.plot.isZoomed("x");
        zoomAll(chart, zoomed ? chart.plot.xAxisRange() : null);
      },
    });
    chart.box.append(chart.hair);
    if (window.ResizeObserver) new ResizeObserver(() => chart.plot.resize()).observe(chart.box);
  };

  const keyOf = (chart) => {
    const key = make("div", {className: "key"});
    const add = (color, dash, text) => key.append(make("span", {}, stroke(color, dash), text));
    const kinds = [...new Map(chart.curves.filter((c) => c.layer < 0).map((c) => [c.label, c])).values()];
    if (data.runs.length > 1 && chart.name === "loss") {
      if (kinds.length > 1) for (const curve of kinds) add(shade("--muted"), dashOf(curve), curve.label);
    } else if (data.runs.length === 1 && kinds.length > 1) {
      for (const curve of kinds) add(colorOf(chart, curve), null, curve.label);
    } else if (chart.layers > 1) {
      for (const layer of [...new Set([0, chart.layers - 1])])
        add(colorOf(chart, {layer, run: 0}), null, "layer " + layer);
    }
    return key;
  };

  const cardOf = (chart) => {
    chart.log = false;
    chart.box = make("div", {className: "plot"});
    chart.hair = make("div", {className: "hair"});
    const hasPositive = chart.curves.some((curve) => curve.values.some((value) => value > 0));
    const log = make("button", {type: "button", textContent: "log", disabled: !hasPositive,
                                title: "Logarithmic y axis"});
    const wide = make("button", {type: "button", textContent: "\u2922", title: "Full width"});
    log.setAttribute("aria-pressed", false), wide.setAttribute("aria-pressed", false);
    wide.setAttribute("aria-label", "Full width");
    log.addEventListener("click", () => {
      chart.log = !chart.log;
      log.setAttribute("aria-pressed", chart.log);
      if (chart.plot) chart.plot.updateOptions({...optionsOf(chart), valueRange: null});
    });
    wide.addEventListener("click", () =>
      wide.setAttribute("aria-pressed", chart.card.classList.toggle("wide")));
    const names = [...new Set(chart.curves.map((c) => c.layer < 0 ? c.name : c.name.replace(/\d+$/, "*")))];
    const head = make("h3", {title: names.join(", ")}, make("b", {}, chart.title), make("small", {}, chart.unit),
                      make("span", {className: "space"}), log);
    if (chart.key !== "train/loss") head.append(wide);
    chart.card = make("div", {className: "card chart" + (chart.key === "train/loss" ? " wide" : "")}, head);
    chart.keyBox = keyOf(chart);
    if (chart.keyBox.childNodes.length) chart.card.append(chart.keyBox);
    chart.card.append(chart.box);
    return chart.card;
  };

  const redraw = () => {
    for (const chart of charts) {
      const key = keyOf(chart);
      chart.keyBox.replaceWith(key);
      chart.keyBox = key;
      if (chart.plot) chart.plot.updateOptions(optionsOf(chart));
    }
    for (const [run, mark] of runDots.entries()) mark.style.background = runColor(run);
  };

  // ---- the tools above

  const tools = document.getElementById("tools");
  const runDots = [];
  if (data.runs.length > 1) {
    const runs = make("div", {className: "runs"});
    data.runs.forEach((name, run) => {
      const box = make("input", {type: "checkbox", checked: true});
      box.addEventListener("change", () => {
        box.checked ? state.hidden.delete(run) : state.hidden.add(run);
        redraw();
      });
      runDots.push(dot(runColor(run)));
      runs.append(make("label", {}, box, runDots[run], name));
    });
    tools.append(runs);
  }
  const slider = make("input", {type: "range", min: 0, max: 0.99, step: 0.01, value: 1 - Math.sqrt(1 - state.smoothing)});
  const shownSmoothing = make("output", {textContent: String(state.smoothing)});
  slider.addEventListener("input", () => {
    // The slider is finer where averages are long.
    state.smoothing = Number((1 - (1 - slider.value) ** 2).toFixed(4));
    if (slider.value === "0") state.smoothing = 0;
    shownSmoothing.textContent = state.smoothing ? trimmed(state.smoothing, 3) : "0";
    redraw();
  });
  const smoothing = make("label", {title: "Weight of the past in an exponential moving average"}, "Smoothing",
                         slider, shownSmoothing);
  const filter = make("input", {type: "search", placeholder: "Filter curves"});
  filter.setAttribute("aria-label", "Filter curves");
  filter.addEventListener("input", () => {
    const wanted = filter.value.toLowerCase();
    for (const chart of charts)
      chart.card.hidden = !`${chart.key} ${chart.title}`.toLowerCase().includes(wanted);
    for (const section of document.querySelectorAll("#charts section"))
      section.hidden = [...section.querySelectorAll(".chart")].every((card) => card.hidden);
  });
  const resetButton = make("button", {type: "button", textContent: "Reset zoom", disabled: true});
  resetButton.addEventListener("click", () => {
    for (const chart of charts) chart.plot && chart.plot.updateOptions({dateWindow: null, valueRange: null});
    zoomAll(null, null);
  });
  const theme = make("button", {type: "button", textContent: isDark() ? "Light" : "Dark",
                                title: "Colors of the page"});
  theme.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    theme.textContent = isDark() ? "Light" : "Dark";
    redraw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    theme.textContent = isDark() ? "Light" : "Dark";
    redraw();
  });

  // ---- the page

  const place = document.getElementById("charts");
  const order = (chart) => ["train/loss", "train/ppl", "train/grad_norm", "train/lr"].indexOf(chart.key) >>> 0;
  const all = groupCurves().sort((a, b) => order(a) - order(b));
  const sections = new Map();
  for (const chart of all) {
    const name = chart.key === "train/loss" ? "" : chart.layers ? "layers" : chart.section;
    if (!sections.has(name)) {
      const grid = make("div", {className: "grid"});
      const section = make("section", {});
      const title = name === "layers" ? "Layers" : sectionTitles[name] || name || "";
      if (title) section.append(make("h2", {}, title));
      section.append(grid);
      sections.set(name, {grid, section});
    }
    sections.get(name).grid.append(cardOf(chart));
    charts.push(chart);
  }
  if (charts.length === 0) {
    place.append(make("p", {}, "metrics.jsonl has no numbers yet."));
    return;
  }
  const last = ["layers", "perf"];
  const names = [...sections.keys()].sort((a, b) => (a === "" ? -1 : last.indexOf(a)) - (b === "" ? -1 : last.indexOf(b)));
  for (const name of names) place.append(sections.get(name).section);
  tools.append(smoothing);
  if (charts.length > 6) tools.append(filter);
  tools.append(make("span", {className: "space"}), resetButton, theme);

  // Draws only visible charts: a run may have hundreds of curves.
  const watcher = new IntersectionObserver((seen) => {
    for (const entry of seen) {
      const chart = charts.find((c) => c.card === entry.target);
      if (!entry.isIntersecting || chart.plot) continue;
      watcher.unobserve(entry.target);
      drawChart(chart);
    }
  }, {rootMargin: "400px"});
  for (const chart of charts) watcher.observe(chart.card);
})();
