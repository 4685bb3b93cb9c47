// The curves of a report: numbers as text, curves into charts, moving averages. Read before page.js.
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const titles = {
  loss: "Loss", ppl: "Perplexity", grad_norm: "Gradient norm", lr: "Learning rate",
  total_loss: "Loss with auxiliary terms", aux_loss: "Auxiliary loss", mtp_loss: "Prediction-layer loss",
  tokens: "Tokens", step_seconds: "Time per step", data_seconds: "Waiting for data",
  tokens_per_second: "Speed", z_loss: "Z-loss", skipped_steps: "Skipped steps",
};

// ---- numbers

const trimmed = (x, digits) => {
  const text = Number(x.toPrecision(digits)).toString();
  return text.replace("e+", "e");
};
const number = (x, digits = 5) => {
  if (x === null || Number.isNaN(x)) return "";
  const size = Math.abs(x);
  for (const [unit, name] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]])
    if (size >= unit) return trimmed(x / (unit === 1e4 ? 1e3 : unit), digits) + name;
  if (size > 0 && size < 1e-3) return Number(x.toPrecision(digits)).toExponential().replace("e+", "e");
  return trimmed(x, digits);
};
const unitOf = (name) => {
  if (/_per_second$/.test(name)) return name.replace(/_per_second$/, "").replace(/^.*_/, "") + " / s";
  if (/_seconds$/.test(name)) return "s";
  if (/_bytes$/.test(name)) return "bytes";
  if (/(^|_)loss$/.test(name)) return "nats";
  return "";
};

// ---- curves into charts

const stepsOf = (grid) =>
  grid.steps || Array.from({length: grid.count}, (_, i) => grid.first + i * grid.by);
const grids = data.grids.map(stepsOf);

const groupCurves = () => {
  const found = new Map();
  for (const curve of data.curves) {
    const slash = curve.name.indexOf("/");
    const prefix = slash < 0 ? "" : curve.name.slice(0, slash);
    let name = curve.name.slice(slash + 1), part = "";
    const layer = name.match(/^(.*)\/layer_0*(\d+)$/);
    if (layer) name = layer[1], part = "layer " + layer[2];
    const isEval = prefix === "eval";
    const section = isEval ? "train" : prefix;
    const key = section + "/" + name;
    if (!found.has(key))
      found.set(key, {key, section, name, title: titles[name] || name.charAt(0).toUpperCase() + name.slice(1).replace(/_/g, " "),
                      unit: unitOf(name), curves: [], layers: 0});
    const chart = found.get(key);
    if (layer) chart.layers = Math.max(chart.layers, Number(layer[2]) + 1);
    const label = [isEval ? "validation" : section === "train" && !layer ? "training" : "", part]
      .filter(Boolean).join(" ") || chart.title.toLowerCase();
    chart.curves.push({...curve, isEval, label, layer: layer ? Number(layer[2]) : -1,
                       x: grids[curve.grid], per: data.grids[curve.grid].per});
  }
  return [...found.values()];
};

// ---- smoothing: an exponential moving average without the bias of its start

const smoothed = (values, keep) => {
  let sum = 0, weight = 0;
  return values.map((value) => {
    if (value === null) return null;
    sum = keep * sum + (1 - keep) * value;
    weight = keep * weight + (1 - keep);
    return sum / weight;
  });
};
// A schedule has no noise: an average would only lag.
const isNoisy = (values) => {
  let path = 0, low = Infinity, high = -Infinity;
  values.forEach((value, i) => {
    low = Math.min(low, value), high = Math.max(high, value);
    if (i > 0) path += Math.abs(value - values[i - 1]);
  });
  return path > 2.2 * (high - low);
};
