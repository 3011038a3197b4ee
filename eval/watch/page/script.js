"use strict";
// Every text of a run (task names, model output, verdicts) goes in as textContent: nothing here makes HTML of it.
// The token is the address's fragment and stays in this variable. In an exported page the data are in the page.
const byId = (id) => document.getElementById(id);
const kept = JSON.parse(byId("data").textContent);
const token = new URLSearchParams(location.hash.slice(1)).get("token") ?? "";
const SVG = "http://www.w3.org/2000/svg";

function make(tag, classes = "", text = undefined) {
  const element = document.createElement(tag);
  if (classes) element.className = classes;
  if (text !== undefined) element.textContent = text;
  return element;
}

function draw(tag, attributes, text) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

// -- asking --------------------------------------------------------------------------------------------------

async function ask(path) {
  const answer = await fetch(path, { headers: { Authorization: `Bearer ${token}` } });
  if (answer.status === 401) throw new Error("the token in this address is not this run's: open the address that guiagent watch printed");
  if (!answer.ok) throw new Error(`nothing at ${path}`);
  return answer;
}

const MOST_PICTURES = 300;
const pictures = new Map();  // addresses of pictures by path, the least recently used first

async function picture(path, hash = "") {
  if (kept) {
    if (!kept.frames[hash]) throw new Error("this frame is not in the exported page");
    return kept.frames[hash];
  }
  let url = pictures.get(path);
  if (url) pictures.delete(path);
  else url = URL.createObjectURL(await (await ask(path)).blob());
  pictures.set(path, url);
  if (pictures.size > MOST_PICTURES) {
    const [oldest, address] = pictures.entries().next().value;
    pictures.delete(oldest);
    URL.revokeObjectURL(address);
  }
  return url;
}

// -- figures and times ---------------------------------------------------------------------------------------

const SHARES = /(^|_|\/)(success|share|utilisation|mixed|all_fail|all_success|taught|parse_errors|ess|effective_samples|fault_rate|clipped_\w+|kl_clipped|\w*_rate|accuracy)$/;

function figure(value, name = "") {
  if (value === null || value === undefined) return "–";
  if (SHARES.test(name) && !name.startsWith("groups/")) return `${(100 * value).toFixed(value && Math.abs(value) < 0.0995 ? 1 : 0)} %`;
  const size = Math.abs(value);
  if (value === 0) return "0";
  if (size >= 1e6) return value.toLocaleString("en", { notation: "compact", maximumFractionDigits: 1 });
  if (size >= 1000 || Number.isInteger(value)) return value.toLocaleString("en", { maximumFractionDigits: 0 });
  if (size < 0.001) return value.toExponential(1);
  return value.toLocaleString("en", { maximumSignificantDigits: 3 });
}

function clock(seconds) {
  const s = Math.round(seconds);
  if (s < 90) return `${s} s`;
  if (s < 5400) return `${Math.round(s / 60)} min`;
  return s < 172800 ? `${(s / 3600).toFixed(1)} h` : `${(s / 86400).toFixed(1)} days`;
}

const label = (name) => name.replace(/^(health|phase_seconds|groups|agreement)\//, "").replaceAll("_", " ");

// -- what is known of the run --------------------------------------------------------------------------------

const run = { epoch: -1, lines: 0, stride: 0, rows: 0, events: 0, newest: "", settings: 0 };
let curves = { steps: [], columns: {} };
let latest = {};
const tasks = new Map();
let events = [];
let episodes = [];  // the newest first

function take(told) {
  if (told.epoch !== run.epoch) forget();
  run.epoch = told.epoch;
  showStatus(told.status);
  if (told.curves) takeCurves(told);
  if (told.events.length) {
    events = [...events, ...told.events].slice(-400);
    showEvents();
  }
  run.events = told.events_seen;
  if (told.settings) {
    run.settings = told.settings.changed;
    byId("config").textContent = told.settings.config;
  }
  takeEpisodes(told.episodes);
  if (told.screens) showScreens(told.screens);
}

function forget() {
  Object.assign(run, { lines: 0, stride: 0, rows: 0, events: 0, newest: "" });
  curves = { steps: [], columns: {} };
  latest = {};
  tasks.clear();
  events = [];
  episodes = [];
  byId("list").replaceChildren();
}

function takeCurves({ curves: added, latest: figures, tasks: rows, lines }) {
  const start = added.from;
  const count = start + added.steps.length;
  const columns = {};
  for (const name of new Set([...Object.keys(curves.columns), ...Object.keys(added.columns)])) {
    const old = (curves.columns[name] ?? []).slice(0, start);
    while (old.length < start) old.push(null);
    const more = added.columns[name] ?? new Array(added.steps.length).fill(null);
    columns[name] = old.concat(more);
  }
  curves = { steps: curves.steps.slice(0, start).concat(added.steps), columns };
  Object.assign(run, { lines, stride: added.stride, rows: count });
  latest = figures;
  for (const row of rows) tasks.set(row.task, { ...row, change: row.lately - row.first });
  showFigures();
}

// -- the head ------------------------------------------------------------------------------------------------

const STATES = {
  waiting: "waiting for the run to begin", starting: "before the first update", training: "training",
  finished: "finished", stopped: "stopped", recorded: "recorded",
};

function showStatus(status) {
  byId("name").textContent = status.name;
  document.title = `${status.name} · ${STATES[status.state] ?? status.state}`;
  byId("state").textContent = STATES[status.state] ?? status.state;
  byId("state").dataset.state = status.state;
  const since = status.changed ? `changed ${clock(Math.max(0, status.now - status.changed))} ago` : "";
  byId("facts").textContent = kept ? `exported ${new Date(status.now * 1000).toLocaleString()}` : since;
  byId("resume").textContent = status.resume;
  byId("problems").replaceChildren(...status.problems.map((text) => make("li", "", text)));
}

const TILES = [
  ["success, lately", "success", () => smoothed("success")], ["step", "step", () => latest.step],
  ["episodes", "episodes", () => latest.episodes], ["env steps", "env_steps", () => latest.env_steps],
  ["training time", "seconds", () => latest.seconds], ["episodes a second", "", () => smoothed("episodes_per_second")],
  ["entropy, nats", "entropy", () => smoothed("entropy")], ["KL", "kl", () => smoothed("kl")],
  ["faults", "faults", () => latest.faults],
];

function smoothed(name) {
  const values = (curves.columns[name] ?? []).slice(-10).filter((value) => value !== null);
  return values.length ? values.reduce((a, b) => a + b) / values.length : undefined;
}

function showFigures() {
  byId("tiles").replaceChildren(...TILES.flatMap(([title, name, read]) => {
    const value = read();
    if (value === undefined || value === null) return [];
    const tile = make("div", "tile");
    const text = name === "seconds" ? clock(value) : figure(value, name);
    const of = name === "step" && latest.steps && latest.steps < 1e8 ? ` of ${figure(latest.steps)}` : "";
    tile.append(make("b", "", text), make("span", "", title + of));
    return [tile];
  }));
  showHealth();
  showCharts();
  showTasks();
}

// What is worth a second look: [limit of a warning, limit of worse], and whether little or much is bad.
const LIMITS = { mixed: [0.3, 0.1, -1], taught: [0.3, 0.05, -1], parse_errors: [0.1, 0.3, 1], all_fail: [0.7, 0.95, 1],
  effective_samples: [0.7, 0.4, -1], entropy: [0.1, 0.03, -1] };

function showHealth() {
  const names = Object.keys(latest).filter((name) => name.startsWith("health/"));
  byId("health").hidden = !names.length && !events.some((event) => event.kind === "warning");
  byId("chips").replaceChildren(...[...names, ...("in_vain" in latest ? ["in_vain"] : [])].map((name) => {
    const short = name.replace("health/", "");
    const limits = LIMITS[short];
    const value = latest[name];
    const worse = (limit) => limits && limits[2] * (value - limit) > 0;
    const chip = make("span", `chip ${worse(limits?.[1]) ? "bad" : worse(limits?.[0]) ? "warn" : ""}`, label(name));
    chip.append(make("b", "", figure(value, name)));
    return chip;
  }));
  const warnings = events.filter((event) => event.kind === "warning").slice(-5).reverse();
  byId("warnings").replaceChildren(...warnings.map((event) => make("li", "", `step ${figure(event.step)}: ${event.text}`)));
}

// -- curves --------------------------------------------------------------------------------------------------

const CHARTS = [
  ["Success", ["success", "judged_success", "true_success"], [0, 1]],
  ["Return", [/^(mean_)?(return|reward)(_mean)?$/]],
  ["Loss", ["loss", /^loss_/, /^critic_loss/]],
  ["Entropy, nats a token", ["entropy"]],
  ["KL", [/(^|_)kl$/, /^kl_(?!clip)/]],
  ["Ratio", ["ratio_mean", "ratio_min", "ratio_max", "health/least_ratio", "health/greatest_ratio"]],
  ["Clipped tokens", [/^clipped_/]],
  ["Effective sample size", ["ess"], [0, 1]],
  ["Gradient norm", ["grad_norm"]],
  ["Staleness, versions", ["staleness"]],
  ["Utilisation", ["device_utilisation", "useful_device_utilisation", "trainer_utilisation", "engine_busy_share",
    "engine_utilisation", "engine_cpu_share", "gpu_utilisation"], [0, 1]],
  ["Groups that teach", ["health/mixed", "health/taught", "health/all_fail"], [0, 1]],
  ["Groups of an update", ["groups/mixed", "groups/all_fail", "groups/all_success"]],
  ["Parse errors and faults", ["health/parse_errors", "fault_rate"], [0, 1]],
  ["Episodes and steps a second", ["episodes_per_second", "env_steps_per_second"]],
  ["Tokens a second", [/tokens_per_second$/]],
  ["Seconds of an update", [/^phase_seconds\//]],
];
const charts = [];
let pointed = -1;  // the row under the pointer, in all charts
let other = "";    // the figure of the last chart

const known = (name) => (curves.columns[name] ?? []).some((value) => value !== null);

function namesOf(wanted) {
  const all = Object.keys(curves.columns);
  const found = wanted.flatMap((one) => typeof one === "string" ? [one] : all.filter((name) => one.test(name)));
  const names = [...new Set(found)].filter(known);
  const same = (a, b) => curves.columns[a].every((value, row) => value === curves.columns[b][row]);
  return names.filter((name, i) => !names.slice(0, i).some((earlier) => same(earlier, name))).slice(0, 8);
}

function showCharts() {
  byId("no-curves").hidden = curves.steps.length > 0;
  byId("thinned").textContent = run.stride > 1 ? `${run.lines.toLocaleString("en")} updates, ${run.stride} a point` : "";
  if (!charts.length && curves.steps.length) {
    for (const [title, wanted, range] of CHARTS) charts.push(newChart(title, wanted, range));
    charts.push(newChart("", null));
  }
  for (const chart of charts) chart.show();
}

function newChart(title, wanted, range) {
  const box = make("div", "chart");
  const head = make("h3");
  const now = make("output");
  const svg = draw("svg", { tabindex: "0", role: "img" });
  const key = make("div", "key");
  const choice = make("select");
  choice.setAttribute("aria-label", "Another figure");
  choice.onchange = () => { other = choice.value; chart.show(); };
  head.append(wanted ? make("span", "", title) : choice, now);
  box.append(head, svg, key);
  byId("charts").append(box);
  const chart = { names: [], range, svg, show, mark };

  function show() {
    if (!wanted) offer();
    chart.names = wanted ? namesOf(wanted) : [other].filter(known);
    box.hidden = !chart.names.length;
    if (box.hidden) return;
    const last = chart.names.map((name) => `${label(name)} ${figure(curves.columns[name].findLast((v) => v !== null), name)}`);
    now.textContent = chart.names.length === 1 ? last[0].slice(label(chart.names[0]).length) : "";
    svg.setAttribute("aria-label", `${title || label(other)}, by step; newest: ${last.join(", ")}`);
    key.replaceChildren(...(chart.names.length > 1 ? chart.names : []).map((name, i) => make("span", `s${i}`, label(name))));
    plot(chart);
    mark();
  }

  function offer() {
    const taken = new Set(CHARTS.flatMap(([, some]) => namesOf(some)));
    const names = Object.keys(curves.columns).filter((name) => known(name) && !taken.has(name)).sort();
    if (!names.includes(other)) other = names.includes("trained") ? "trained" : names[0] ?? "";
    if (choice.options.length !== names.length) choice.replaceChildren(...names.map((name) => new Option(label(name), name)));
    choice.value = other;
  }

  function mark() {
    svg.querySelector(".marks")?.remove();
    if (pointed < 0 || !chart.x) return;
    const marks = draw("g", { class: "marks" });
    const x = chart.x(pointed);
    marks.append(draw("line", { class: "cursor", x1: x, x2: x, y1: chart.top, y2: chart.bottom }));
    chart.names.forEach((name, i) => {
      const value = curves.columns[name][pointed];
      if (value !== null && value !== undefined) marks.append(draw("circle", { class: `dot s${i}`, cx: x, cy: chart.y(value), r: 3.5 }));
    });
    svg.append(marks);
  }

  svg.onpointermove = (event) => point(chart, Math.round(chart.row(event.offsetX)), event.clientX, event.clientY);
  svg.onpointerleave = () => point(chart, -1);
  svg.onblur = () => point(chart, -1);
  svg.onkeydown = (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by) return;
    event.preventDefault();
    event.stopPropagation();
    const from = pointed < 0 ? curves.steps.length : pointed;
    const row = Math.min(curves.steps.length - 1, Math.max(0, from + by));
    const { left, top } = svg.getBoundingClientRect();
    point(chart, row, left + chart.x(row), top + 40);
  };
  return chart;
}

function point(chart, row, x, y) {
  pointed = row < 0 || row >= curves.steps.length ? -1 : row;
  for (const one of charts) if (one.names.length) one.mark();
  const tip = byId("tip");
  tip.hidden = pointed < 0;
  if (tip.hidden) return;
  const lines = chart.names.map((name, i) => {
    const line = make("div", `s${i}`);
    line.append(make("span", "", label(name)), make("b", "", figure(curves.columns[name][pointed], name)));
    return line;
  });
  const head = make("div");
  head.append(make("span", "", `step ${curves.steps[pointed].toLocaleString("en")}`));
  tip.replaceChildren(head, ...lines);
  tip.style.left = `${Math.max(8, Math.min(x + 14, innerWidth - tip.offsetWidth - 8))}px`;
  tip.style.top = `${Math.max(8, Math.min(y + 14, innerHeight - tip.offsetHeight - 8))}px`;
}

function plot(chart) {
  const { svg, names } = chart;
  const width = svg.clientWidth || 320, height = svg.clientHeight || 132;
  const [left, right, top, bottom] = [44, width - 6, 7, height - 17];
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const count = curves.steps.length;
  const values = names.flatMap((name) => curves.columns[name].filter((value) => value !== null));
  let low = chart.range?.[0] ?? Math.min(...values), high = Math.max(chart.range?.[1] ?? -Infinity, values.reduce((a, b) => Math.max(a, b), -Infinity));
  if (low > 0 && low < 0.6 * high) low = 0;
  if (high === low) { high += Math.abs(high) || 1; if (low > 0) low = 0; }
  Object.assign(chart, {
    top, bottom,
    x: (row) => count < 2 ? (left + right) / 2 : left + row / (count - 1) * (right - left),
    y: (value) => bottom - (value - low) / (high - low) * (bottom - top),
    row: (x) => Math.min(count - 1, Math.max(0, count < 2 ? 0 : (x - left) / (right - left) * (count - 1))),
  });
  const parts = [0, 0.5, 1].flatMap((share) => {
    const value = low + share * (high - low), y = chart.y(value);
    return [draw("line", { class: "rule", x1: left, x2: right, y1: y, y2: y }),
      draw("text", { class: "tick", x: left - 5, y: y + 3.5, "text-anchor": "end" }, figure(value, names[0]))];
  });
  parts.push(draw("text", { class: "tick", x: left, y: height - 4 }, `step ${figure(curves.steps[0])}`),
    draw("text", { class: "tick", x: right, y: height - 4, "text-anchor": "end" }, figure(curves.steps[count - 1])));
  names.forEach((name, i) => {
    const column = curves.columns[name];
    const smooth = column.length > 30 && names.length < 4;
    parts.push(draw("path", { class: `raw s${i}${smooth ? " behind" : ""}`, d: path(column, chart) }));
    if (smooth) parts.push(draw("path", { class: `smooth s${i}`, d: path(averaged(column), chart) }));
  });
  svg.replaceChildren(...parts);
}

function path(column, { x, y }) {
  let d = "", pen = false;
  column.forEach((value, row) => {
    if (value === null) { pen = false; return; }
    d += `${pen ? "L" : "M"}${x(row).toFixed(1)} ${y(value).toFixed(1)}`;
    if (!pen && (column[row + 1] ?? null) === null) d += "h.1";  // a point by itself
    pen = true;
  });
  return d;
}

// The mean over a window around each row, of 6 % of the run: it is centred, so that a rise is not shown late.
function averaged(column) {
  const half = Math.max(2, Math.round(column.length * 0.03));
  const sums = [0], counts = [0];
  column.forEach((value, i) => { sums.push(sums[i] + (value ?? 0)); counts.push(counts[i] + (value === null ? 0 : 1)); });
  return column.map((_, i) => {
    const a = Math.max(0, i - half), b = Math.min(column.length, i + half + 1);
    return counts[b] > counts[a] ? (sums[b] - sums[a]) / (counts[b] - counts[a]) : null;
  });
}

addEventListener("resize", () => { for (const chart of charts) if (chart.names.length) { plot(chart); chart.mark(); } });

// -- tasks and events ----------------------------------------------------------------------------------------

let sorting = { by: "task", down: false };
const percent = (share) => `${(100 * share).toFixed(0)} %`;

for (const button of document.querySelectorAll("[data-sort]")) {
  button.onclick = () => {
    const by = button.dataset.sort;
    sorting = { by, down: sorting.by === by ? !sorting.down : by !== "task" };
    showTasks();
  };
}

function showTasks() {
  const { by, down } = sorting;
  const rows = [...tasks.values()].sort((a, b) => (a[by] < b[by] ? -1 : a[by] > b[by] ? 1 : 0) * (down ? -1 : 1));
  for (const button of document.querySelectorAll("[data-sort]")) {
    const own = button.dataset.sort === by;
    button.closest("th").setAttribute("aria-sort", own ? (down ? "descending" : "ascending") : "none");
  }
  byId("task-rows").replaceChildren(...rows.slice(0, 500).map((row) => {
    const line = make("tr");
    const name = make("th", "", row.task);
    name.scope = "row";
    name.title = row.task;
    const change = 100 * row.change;
    const moved = make("td", change > 5 ? "up" : change < -5 ? "down" : "", `${change >= 0 ? "+" : "−"}${Math.abs(change).toFixed(0)}`);
    const spark = make("td", "spark");
    spark.append(sparkline(row));
    line.append(name, make("td", "", row.episodes.toLocaleString("en")), make("td", "", percent(row.first)), make("td", "", percent(row.lately)), moved, spark);
    return line;
  }));
}

function sparkline({ task, rates }) {
  const svg = draw("svg", { viewBox: "0 0 120 22", role: "img", "aria-label": `success at ${task}` });
  const x = (row) => rates.length < 2 ? 60 : 2 + row / (rates.length - 1) * 116;
  const scale = { x, y: (value) => 20 - value * 18 };
  svg.append(draw("line", { class: "rule", x1: 0, x2: 120, y1: 20, y2: 20 }));
  svg.append(draw("path", { class: "raw s0", d: path(rates.length > 8 ? averaged(rates) : rates, scale) }));
  return svg;
}

function showEvents() {
  byId("event-rows").replaceChildren(...[...events].reverse().slice(0, 200).map((event) => {
    const line = make("li");
    line.append(make("span", "at", event.step === null ? "" : event.step.toLocaleString("en")), make("span", event.kind, event.kind), make("span", "", event.text));
    return line;
  }));
  showHealth();
}

// -- episodes ------------------------------------------------------------------------------------------------

const GLYPHS = { success: "✓", failure: "✗", fault: "!", unknown: "?" };
let open = null;   // the episode that is shown, step by step
let chosen = "";   // its address
let turn = 0;
let wanted = 0;    // requests for an episode so far: only the last one's answer is shown

function takeEpisodes(added) {
  if (!added.length) return;
  const had = new Set(episodes.map((one) => one.at));
  const fresh = added.filter((one) => !had.has(one.at));
  run.newest = added[0].at;
  episodes = [...fresh, ...episodes].slice(0, 2000);
  showList();
  const first = shownEpisodes()[0];
  if (first && (!chosen || (byId("newest").checked && first.at !== chosen))) choose(first.at);
}

const shownEpisodes = () => episodes.filter((one) => !byId("verdicts").value || one.verdict === byId("verdicts").value);

function showList() {
  byId("list").replaceChildren(...shownEpisodes().map((one) => {
    const row = make("div", "row");
    row.id = `episode-${one.at}`;
    row.setAttribute("role", "option");
    row.setAttribute("aria-selected", String(one.at === chosen));
    const glyph = make("span", one.verdict, GLYPHS[one.verdict]);
    glyph.setAttribute("aria-label", one.verdict);
    const score = make("span", "soft", one.score === null ? "" : figure(one.score));
    const about = [`seed ${one.seed}`, `${one.steps} step${one.steps === 1 ? "" : "s"}`, one.stop, one.adopted ? "adopted" : ""];
    row.append(glyph, make("span", "task", one.task), score, make("small", "", about.filter(Boolean).join(" · ")));
    row.onclick = () => { byId("newest").checked = false; choose(one.at); };
    return row;
  }));
  byId("earlier").hidden = Boolean(kept) || !episodes.length;
  byId("list").setAttribute("aria-activedescendant", chosen ? `episode-${chosen}` : "");
}

async function choose(at) {
  const number = ++wanted;
  try {
    const episode = kept ? kept.episodes[at] : await (await ask(`/episode/${at}`)).json();
    if (number !== wanted) return;
    chosen = at;
    open = episode;
    turn = 0;
    for (const row of byId("list").children) row.setAttribute("aria-selected", String(row.id === `episode-${at}`));
    byId("list").setAttribute("aria-activedescendant", `episode-${at}`);
    showEpisode();
  } catch (error) {
    byId("viewer").replaceChildren(make("p", "error", `this episode cannot be read: ${error.message}`));
  }
}

function showEpisode() {
  const one = open;
  const about = [`seed ${one.seed}`, `${one.steps} step${one.steps === 1 ? "" : "s"}`, one.stop, clock(one.seconds), one.device && `on ${one.device}`,
    one.version !== null && `policy version ${one.version}`, one.claim && `claims ${one.claim}`, one.answer && `answers “${one.answer}”`,
    one.ended && new Date(one.ended * 1000).toLocaleString()];
  const head = make("h3");
  head.append(make("span", one.verdict, `${GLYPHS[one.verdict]} ${one.verdict}`), document.createTextNode(` · ${one.task}`));
  const film = make("div", "film");
  film.setAttribute("role", "group");
  film.setAttribute("aria-label", "Steps");
  if (kept?.replay) film.classList.add("pictures");
  const ends = one.final_frame ? [...one.turns, null] : one.turns;
  ends.forEach((step, i) => {
    const button = make("button", step?.errors.length ? "wrong" : "", step ? String(i + 1) : "end");
    button.onclick = () => { turn = i; showTurn(); };
    if (kept?.replay) button.prepend(screenOf(one, i));
    film.append(button);
  });
  const scores = make("div");
  if (one.fault) scores.append(make("p", "error", one.fault));
  for (const score of one.scores) scores.append(showScore(score));
  const stage = make("div", "turn");
  stage.id = "stage";
  const others = make("div");
  others.id = "others";
  byId("viewer").replaceChildren(head, make("p", "about", about.filter(Boolean).join(" · ")), make("p", "instruction", one.instruction), film, stage, others, scores);
  showTurn();
}

// -- the screens of a replay: small ones of a strip, and the same step of an episode's siblings

const coming = new IntersectionObserver((seen) => {
  for (const { isIntersecting, target } of seen) {
    if (!isIntersecting) continue;
    coming.unobserve(target);
    picture("", target.dataset.hash).then((url) => target.querySelector("image").setAttribute("href", url), () => {});
  }
});

function screenOf(one, i) {
  const step = one.turns[i] ?? null;
  const { width, height } = step ?? one.turns.at(-1) ?? { width: 4, height: 3 };
  const svg = draw("svg", { class: "frame", viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  svg.append(draw("image", { width, height }), ...(step ? drawn(step.marks) : []));
  svg.dataset.hash = step ? step.frame : one.final_frame;
  coming.observe(svg);
  return svg;
}

const siblingsOf = (one) => Object.values(kept.episodes).filter((other) => other.task === one.task && (one.group ? other.group === one.group : other.seed === one.seed)).slice(0, 16);

function showOthers() {
  const together = kept?.replay ? siblingsOf(open) : [];
  if (together.length < 2) return;
  const same = (i) => together.every((one) => one.turns[i] && one.turns[i].frame === open.turns[i]?.frame && one.turns[i].did === open.turns[i].did);
  let branch = 0;
  while (same(branch)) branch++;
  const head = make("h3", "", `${together.length} episodes of this ${open.group ? "group" : "task and seed"}, side by side`);
  const part = make("p", "soft", branch ? `they are the same for ${branch} step${branch === 1 ? "" : "s"}` : "they differ from the first step on");
  const panels = make("div", "panels");
  for (const one of together) {
    const ends = one.turns.length + (one.final_frame ? 1 : 0);
    const at = Math.min(turn, ends - 1);
    const panel = make("button", one.at === open.at ? "own" : "");
    panel.append(screenOf(one, at), make("b", one.verdict, `${GLYPHS[one.verdict]} ${one.verdict}`),
      make("span", "", ` ${at < turn ? "ended: " : ""}${one.turns[at]?.did ?? "the end"}`));
    panel.onclick = async () => { const kept_turn = at; await choose(one.at); turn = kept_turn; showTurn(); };
    panels.append(panel);
  }
  byId("others").replaceChildren(head, part, panels);
}

function showScore(score) {
  const box = make("div", "score");
  const facts = [`${score.name}: ${score.value === null ? "unknown" : figure(score.value)}, by the ${score.source}`,
    score.reward !== null && `reward ${figure(score.reward)}`, score.progress !== null && `progress ${percent(score.progress)}`];
  box.append(make("p", "", facts.filter(Boolean).join(" · ")));
  if (score.reason) box.append(make("p", "soft", score.reason));
  if (score.side_effects.length) box.append(make("p", "error", `side effects: ${score.side_effects.join("; ")}`));
  if (score.evidence) {
    const details = make("details");
    details.append(make("summary", "", "evidence"), make("pre", "text", score.evidence));
    box.append(details);
  }
  return box;
}

function showTurn() {
  const step = open.turns[turn] ?? null;
  const size = step ?? open.turns.at(-1);
  const stage = byId("stage");
  [...byId("viewer").querySelectorAll(".film button")].forEach((button, i) => button.setAttribute("aria-current", String(i === turn)));
  if (!size) { stage.replaceChildren(make("p", "soft", "The episode ended before its first step.")); return; }
  stage.classList.toggle("tall", size.height > size.width);
  const svg = draw("svg", { class: "frame", viewBox: `0 0 ${size.width} ${size.height}`, role: "img", "aria-label": step ? `step ${turn + 1}: ${step.did}` : "the last screen" });
  const image = draw("image", { width: size.width, height: size.height });
  svg.append(image);
  if (step) svg.append(...drawn(step.marks));
  const told = make("div");
  if (step) {
    const facts = [`${step.tokens} tokens`, step.logprob !== null && `mean log-probability ${step.logprob.toFixed(2)}`,
      `policy ${figure(Math.round(step.policy_ms))} ms`, `device ${figure(Math.round(step.device_ms))} ms`];
    told.append(make("p", "did", step.did), make("pre", "text", step.text), ...step.errors.map((error) => make("p", "error", error)), make("p", "soft", facts.filter(Boolean).join(" · ")));
  } else told.append(make("p", "did", `the end: ${open.verdict}`));
  stage.replaceChildren(svg, told);
  showOthers();
  const hash = step ? step.frame : open.final_frame;
  picture(`/frame/${hash}`, hash).then((url) => image.setAttribute("href", url), (error) => svg.replaceWith(make("p", "error", `no picture: ${error.message}`)));
}

// The marks of an action: shapes with numbers in them, copied by name so that nothing else could come along.
const SHAPES = { g: ["class"], path: ["class", "d"], circle: ["class", "cx", "cy", "r"], polyline: ["class", "points"], text: ["x", "y", "font-size"] };

function drawn(marks) {
  const parsed = new DOMParser().parseFromString(`<svg xmlns="${SVG}">${marks}</svg>`, "image/svg+xml").documentElement;
  const copy = (node) => {
    const names = SHAPES[node.tagName];
    if (!names) return [];
    const shape = draw(node.tagName, Object.fromEntries(names.filter((name) => node.hasAttribute(name)).map((name) => [name, node.getAttribute(name)])));
    if (node.tagName === "text") shape.textContent = node.textContent;
    shape.append(...[...node.children].flatMap(copy));
    return [shape];
  };
  return [...parsed.children].flatMap(copy);
}

byId("verdicts").onchange = showList;
byId("newest").onchange = () => { const first = shownEpisodes()[0]; if (byId("newest").checked && first) choose(first.at); };
byId("earlier").onclick = async () => {
  const more = await (await ask(`/earlier/${episodes.at(-1).at}`)).json();
  episodes = [...episodes, ...more];
  showList();
  byId("earlier").hidden = !more.length;
};

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || event.target.closest?.("input, select, textarea")) return;
  const inList = event.target === byId("list");
  const by = { j: 1, k: -1, ...(inList ? { ArrowDown: 1, ArrowUp: -1 } : {}) }[event.key];
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (by) {
    const rows = shownEpisodes();
    const next = rows[Math.max(0, rows.findIndex((one) => one.at === chosen) + by)];
    if (!next) return;
    event.preventDefault();
    byId("newest").checked = false;
    byId(`episode-${next.at}`)?.scrollIntoView({ block: "nearest" });
    choose(next.at);
  } else if (step && open) {
    const count = open.turns.length + (open.final_frame ? 1 : 0);
    const next = Math.min(count - 1, Math.max(0, turn + step));
    if (next === turn) return;
    event.preventDefault();
    byId("newest").checked = false;
    turn = next;
    showTurn();
  }
});

// -- screens -------------------------------------------------------------------------------------------------

const screens = new Map();  // figures by device, with what each shows
let looking = false;
new IntersectionObserver(([seen]) => { looking = seen.isIntersecting; }, { rootMargin: "200px" }).observe(byId("screens"));

function showScreens({ live, devices }) {
  byId("screens-of").textContent = live ? "of the farm, now" : devices.length ? "the last of each device, from the run's episodes" : "none yet";
  const known = new Set(devices.map((one) => one.device));
  for (const [device, { box }] of screens) if (!known.has(device)) { box.remove(); screens.delete(device); }
  for (const one of devices) {
    let screen = screens.get(one.device);
    if (!screen) {
      const box = make("figure");
      const image = make("img");
      const caption = make("figcaption");
      box.append(image, caption);
      byId("grid").append(box);
      screen = { box, image, caption, path: "" };
      screens.set(one.device, screen);
    }
    const about = live ? `${one.state} · ${one.fps.toFixed(1)} frames/s · ${one.faults} faults` : `${one.task} · ${one.verdict}`;
    screen.caption.replaceChildren(make("b", "", one.device || "device"), document.createTextNode(about));
    screen.image.alt = `screen of ${one.device}`;
    const path = live ? `/screen/${encodeURIComponent(one.device)}?n=${one.number}` : `/frame/${one.frame}`;
    if (path !== screen.path) {
      screen.path = path;
      picture(path, one.frame).then((url) => { screen.image.src = url; }, () => {});
    }
  }
}

// The address keeps its fragment, which has the token: links within the page only scroll.
addEventListener("click", (event) => {
  const link = event.target.closest?.('a[href^="#"]');
  if (!link) return;
  event.preventDefault();
  byId(link.getAttribute("href").slice(1)).scrollIntoView();
});

// -- the round -----------------------------------------------------------------------------------------------

byId("copy").onclick = async () => {
  await navigator.clipboard?.writeText(byId("resume").textContent);
  byId("copy").textContent = "copied";
  setTimeout(() => { byId("copy").textContent = "copy"; }, 1500);
};

async function round(pause) {
  if (!document.hidden) {
    const asked = new URLSearchParams({ epoch: run.epoch, lines: run.lines, stride: run.stride, rows: run.rows, events: run.events,
      episode: run.newest, settings: run.settings, ...(looking ? { screens: "" } : {}) });
    try {
      take(await (await ask(`/changes?${asked}`)).json());
      byId("notice").textContent = "";
      pause = looking ? 700 : 1500;
    } catch (error) {
      byId("notice").textContent = error instanceof TypeError ? "not connected: is guiagent watch still running?" : error.message;
      pause = Math.min(2 * pause, 10000);
    }
  }
  setTimeout(round, pause, pause);
}

if (kept) {
  take(kept.changes);
  byId("screens").hidden = true;
  if (kept.replay) for (const part of document.querySelectorAll("#tiles, #curves, .pair, #settings, header nav")) part.hidden = true;
} else round(1000);
