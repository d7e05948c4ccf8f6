// The page draws what the program tells. Every text goes in as text.
"use strict";

const sides = { naive: "Naive lock: ignores disconnects", zkgrant: "zkgrant: notified before the next grant", shards: "Shards: each member owns its share" };
const careful = "Naive lock: a disconnect is a loss";
const recipes = ["the stock recipe, like go-zookeeper's zk.Lock", "the stock recipe, stopped at every disconnect"];
const labels = { holds: "holds", waits: "waits", lost: "lost", still: "paused", away: "" };
const faults = { cut: "cut off", heal: "healed", pause: "paused", wake: "resumed", expire: "loses its sessions", "hand-on": "releases",
  kill: "killed", start: "started again", careful: "a disconnect is a loss", careless: "disconnects are ignored", struck: "servers are back" };
const lane = 34, head = 44, title = 26, strip = 26, gap = 16, foot = 22, share = 17;
const byId = (id) => document.getElementById(id);
const quiet = matchMedia("(prefers-reduced-motion: reduce)");

let about = null, picture = null, offset = 0, moving = [];

// Time is in seconds since the program's start.
const now = () => (performance.now() + offset) / 1000;
const seconds = (ns) => ns / 1e9;
const duration = (s) => (s > 0 && s < 0.1 ? `${Math.ceil(s * 1000)} ms` : `${s.toFixed(1)} s`);

function make(name, attributes, text) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  if (text !== undefined) e.textContent = text;
  return e;
}

// layout says where things are.
function layout() {
  const width = Math.max(300, byId("lanes").clientWidth);
  const left = width < 560 ? 54 : 84;
  const span = width < 560 ? 18 : 30; // seconds
  const rows = picture.Sides[0].Lanes.length;
  const panel = title + rows * lane + strip, shards = title + picture.Shards.length * share + 8;
  return { width, left, plot: width - left - 4, scale: (width - left - 4) / span, span, rows, panel,
    height: head + 2 * (panel + gap) + shards + foot, top: (side) => head + side * (panel + gap) };
}

function patterns() {
  const defs = make("defs", {});
  const stripes = (id) => {
    const p = make("pattern", { id, width: 9, height: 9, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" });
    p.append(make("rect", { width: 9, height: 9, class: "ground" }), make("line", { x1: 2.5, y1: 0, x2: 2.5, y2: 9, "stroke-width": 5, class: id }));
    return p;
  };
  const posts = make("pattern", { id: "posts", width: 6, height: 6, patternUnits: "userSpaceOnUse" });
  posts.append(make("rect", { width: 6, height: 6, class: "ground" }), make("line", { x1: 2, y1: 0, x2: 2, y2: 6, "stroke-width": 2, class: "post" }));
  defs.append(stripes("stripes"), stripes("redstripes"), posts);
  return defs;
}

// draw builds the picture anew. What moves with the time is put into moving, for frame.
function draw() {
  if (!picture) return;
  const l = layout(), svg = byId("lanes");
  moving = [];
  svg.setAttribute("height", l.height);
  svg.setAttribute("viewBox", `0 0 ${l.width} ${l.height}`);
  const defs = patterns(), clip = make("clipPath", { id: "window" });
  clip.append(make("rect", { x: l.left, y: 0, width: l.plot, height: l.height }));
  defs.append(clip);
  const outer = make("g", { "clip-path": "url(#window)" }), inner = make("g", {}), still = make("g", {});
  const on = { still }; // the layers: what does not move, and what does, from the back to the front
  for (const name of ["back", "bars", "red", "text"]) on[name] = inner.appendChild(make("g", {}));
  outer.append(inner);
  svg.replaceChildren(defs, still, outer);
  picture.Sides.forEach((side, i) => drawSide(side, l.top(i), l, on));
  drawShards(l.top(2), l, on);
  drawMarks(l, on);
  moving.push((t) => inner.setAttribute("transform", `translate(${l.left + l.plot - t * l.scale} 0)`));
  drawTicks(l, inner);
  frame();
}

function drawSide(side, top, l, on) {
  on.still.append(make("text", { x: 0, y: top + 17, class: "title" }, side.Key === "naive" && picture.Careful ? careful : sides[side.Key]));
  const strip = []; // the labels beside what they are about
  const beside = (from, to, y, kind, said) => {
    const label = on.text.appendChild(make("text", { y, class: kind }, said)), room = said.length * 7.2;
    strip.push({ from, to, label, room, begin: from - 7 - room });
    return label;
  };
  const lanes = top + title, bottom = lanes + l.rows * lane;
  side.Lanes.forEach((row, i) => {
    const middle = lanes + i * lane + lane / 2;
    on.still.append(make("text", { x: 0, y: middle + 4, class: "name" }, row.Who));
    on.still.append(make("line", { x1: l.left, x2: l.left + l.plot, y1: middle, y2: middle, class: "lane" }));
    row.Bars.forEach((bar, n) => drawBar(bar, row.Bars[n - 1], middle, l, on));
    for (const o of side.Overlaps) {
      for (const bar of row.Bars.filter((b) => b.State === "holds")) drawRed(o, bar, middle, l, on);
    }
  });
  for (const o of side.Overlaps) {
    stretch(o, l, on.back.appendChild(make("rect", { y: lanes, height: l.rows * lane, class: "two" })));
    stretch(o, l, on.red.appendChild(make("rect", { y: bottom, height: 20, class: "twostrip" })));
    const said = (t) => `two holders for ${duration(end(o, t) - seconds(o.From))}${until(o)}`;
    const room = said(now()).length * 7.4 + 14, inside = caption(o, l, on, bottom + 14.5, "twotext", room);
    const outside = beside(seconds(o.From) * l.scale, end(o, now()) * l.scale, bottom + 14.5, "twobeside", said(now()));
    moving.push((t) => {
      inside.textContent = outside.textContent = said(t);
      outside.setAttribute("visibility", (end(o, t) - seconds(o.From)) * l.scale > room ? "hidden" : "visible");
    });
  }
  for (const m of side.Margins) {
    const from = seconds(m.Lost) * l.scale, to = seconds(m.Granted) * l.scale, y = bottom + 2;
    on.back.append(make("path", { d: `M${from} ${y} v9 H${to} v-9`, class: "margin" }));
    const said = `notified ${duration(seconds(m.Granted) - seconds(m.Lost))} before the next grant`;
    beside(from, to, bottom + 14.5, "margintext", said);
  }
  strip.sort((a, b) => a.from - b.from).forEach((one, i) => placeBeside(one, strip[i - 1], strip[i + 1], l));
}

// until says what ends a time with two holders: how long the visitor left the cut on.
function until(o) {
  if (o.Healed) return ", until you healed";
  return o.Open && picture.Cut.length > 0 ? ", until you heal" : "";
}

// drawShards shows who owned each shard.
function drawShards(top, l, on) {
  on.still.append(make("text", { x: 0, y: top + 17, class: "title" }, sides.shards));
  picture.Shards.forEach((shard, i) => {
    const middle = top + title + i * share + share / 2;
    on.still.append(make("text", { x: 0, y: middle + 4, class: "number" }, `shard ${i}`));
    on.still.append(make("line", { x1: l.left, x2: l.left + l.plot, y1: middle, y2: middle, class: "lane" }));
    for (const o of shard.Owners) {
      const kind = o.Still ? "still" : "owner" + about.names.indexOf(o.Who) % 3;
      stretch(o, l, on.bars.appendChild(make("rect", { y: middle - 7, height: 14, rx: 2, class: "owner " + kind })));
      caption(o, l, on, middle + 4, "owned " + kind, 34).textContent = o.Who;
    }
  });
}

// placeBeside keeps a label to the left of what it is about, or to the right, or hides it, as there is room.
function placeBeside(one, before, after, l) {
  moving.push((t) => {
    const edge = (t - l.span) * l.scale; // of what is seen
    const left = one.begin > Math.max(before ? before.to : -Infinity, edge);
    const right = one.to > edge && one.to + 7 + one.room < Math.min(after ? after.from : Infinity, t * l.scale);
    one.label.setAttribute("x", left ? one.from - 7 : one.to + 7);
    one.label.setAttribute("text-anchor", left ? "end" : "start");
    one.label.setAttribute("display", left || right ? "inline" : "none");
  });
}

function drawBar(bar, before, middle, l, on) {
  if (bar.State === "away") return;
  const high = bar.State === "waits" ? 12 : 22, kind = bar.State + (bar.Alone ? " alone" : "");
  if (bar.State === "lost") {
    const line = on.bars.appendChild(make("line", { y1: middle, y2: middle, class: "lostline" }));
    moving.push((t) => { line.setAttribute("x1", seconds(bar.From) * l.scale); line.setAttribute("x2", end(bar, t) * l.scale); });
    if (before && before.State === "lost") return;
    const x = seconds(bar.From) * l.scale;
    on.text.append(make("path", { d: `M${x - 5} ${middle - 5} l10 10 m0 -10 l-10 10`, class: "cross" }));
    on.text.append(make("text", { x: x + 10, y: middle - 9, class: "lost" }, "lost"));
    return;
  }
  const rect = make("rect", { y: middle - high / 2, height: high, rx: 3, class: "bar " + kind });
  rect.append(make("title", {}, bar.Note));
  stretch(bar, l, on.bars.appendChild(rect));
  const said = labels[bar.State] + (bar.Alone && bar.State === "holds" ? ", no connection" : "");
  caption(bar, l, on, middle + (bar.State === "waits" ? 4 : 4.5), kind, bar.State === "waits" ? 46 : said.length * 7.2 + 10).textContent = said;
}

// drawRed marks the part of a holder's bar in which there was another holder.
function drawRed(overlap, bar, middle, l, on) {
  const both = { From: Math.max(overlap.From, bar.From), Open: overlap.Open && bar.Open };
  both.To = Math.min(overlap.Open ? Infinity : overlap.To, bar.Open ? Infinity : bar.To);
  if (!both.Open && both.To <= both.From) return;
  stretch(both, l, on.red.appendChild(make("rect", { y: middle - 11, height: 22, class: bar.Alone ? "red alone" : "red" })));
}

const end = (span, t) => (span.Open ? t : seconds(span.To));

// stretch keeps a rectangle as long as its span.
function stretch(span, l, rect) {
  rect.setAttribute("x", seconds(span.From) * l.scale);
  const size = (t) => rect.setAttribute("width", Math.max(0, (end(span, t) - seconds(span.From)) * l.scale));
  size(now());
  if (span.Open) moving.push(size);
}

// caption is a text at the beginning of what is seen of a span, while that is wide enough.
function caption(span, l, on, y, kind, room) {
  const text = on.text.appendChild(make("text", { y, class: kind }));
  moving.push((t) => {
    const from = Math.max(seconds(span.From), t - l.span) * l.scale, width = end(span, t) * l.scale - from;
    text.setAttribute("x", from + 7);
    text.setAttribute("visibility", width > room ? "visible" : "hidden");
  });
  return text;
}

// drawMarks puts each label where the ones before leave room. Without room there is only the line.
function drawMarks(l, on) {
  const rows = [-Infinity, -Infinity];
  for (const m of picture.Marks) {
    const said = (m.What === "strike" ? about.fault : `${m.Who} ${faults[m.What]}`.trim()) + " ▾";
    const x = seconds(m.At) * l.scale, from = x - said.length * 7;
    const row = rows.findIndex((end) => end < from), y = 33 - 16 * Math.max(0, row);
    on.back.append(make("line", { x1: x, x2: x, y1: y + 4, y2: l.height - foot, class: "mark" }));
    if (row < 0) continue;
    rows[row] = x + 8;
    on.text.append(make("text", { x: x + 4, y, class: "marktext", "text-anchor": "end" }, said));
  }
}

function drawTicks(l, inner) {
  const group = inner.appendChild(make("g", {}));
  const y = l.height - 5, edge = 16 / l.scale; // a tick is not cut in two
  let drawn;
  moving.push((t) => {
    const first = Math.max(0, Math.ceil((t - l.span + edge) / 5)), last = Math.floor((t - edge) / 5), range = `${first} ${last}`;
    if (range === drawn) return;
    drawn = range;
    group.replaceChildren();
    for (let n = first; n <= last; n++) group.append(make("text", { x: n * 5 * l.scale, y, class: "tick", "text-anchor": "middle" }, `${n * 5} s`));
  });
}

// frame moves what moves, and counts.
function frame() {
  const t = now();
  for (const move of moving) move(t);
  for (const side of picture.Sides) {
    const open = side.Overlaps.find((o) => o.Open);
    const total = seconds(side.Together) + (open ? t - seconds(open.From) : 0);
    const box = byId("score-" + side.Key);
    box.classList.toggle("untried", picture.Faults === 0 && side.Times === 0);
    box.classList.toggle("bad", side.Times > 0);
    const text = `two holders: ${times(side.Times)}` + (side.Times > 0 ? `, ${duration(total)} in all` : "");
    const count = box.querySelector(".count");
    if (count.textContent !== text) count.textContent = text;
    const more = [];
    if (picture.Faults === 0 && side.Times === 0) more.push("Nothing has gone wrong yet.");
    if (side.Last) more.push(`Last notified ${duration(seconds(side.Last.Granted) - seconds(side.Last.Lost))} before the next grant.`);
    if (side.Healed > 0) more.push(`${side.Healed} of ${side.Times} lasted until you healed the network: you decided how long.`);
    if (side.Behind > 0) more.push(`${times(side.Behind)} after a session was ended behind its owner's back.`);
    if (side.Needless > 0) more.push(`Gave the lock up ${times(side.Needless)} though its session lived on.`);
    box.querySelector(".behind").textContent = more.join(" ");
  }
}

const times = (n) => `${n} ${n === 1 ? "time" : "times"}`;

function loop() {
  if (picture && !document.hidden) frame();
  if (quiet.matches) setTimeout(() => requestAnimationFrame(loop), 1000);
  else requestAnimationFrame(loop);
}

// tell says in words what the picture shows.
function tell() {
  byId("status").textContent = picture.Sides.map((side) => {
    const holders = side.Lanes.filter((row) => row.Bars.at(-1).State === "holds").map((row) => row.Who);
    const name = side.Key === "naive" ? "Naive lock" : "zkgrant";
    return `${name}: ${holders.length === 0 ? "no contender holds" : holders.join(" and ") + (holders.length > 1 ? " both believe that they hold it" : " holds")}.`;
  }).join(" ") + ` Shards: ${about.names.map((who) => `${who} ${picture.Shards.filter((s) => s.Owners.some((o) => o.Open && !o.Still && o.Who === who)).length}`).join(", ")}.`;
}

// buttons says what the buttons do now.
function buttons() {
  for (const button of document.querySelectorAll("button[data-who]")) {
    const who = button.dataset.who, kind = button.dataset.kind;
    const on = kind === "cut" ? picture.Cut.includes(who) : kind === "pause" ? picture.Still.includes(who) : kind === "kill" && picture.Dead.includes(who);
    button.disabled = kind !== "kill" && picture.Dead.includes(who);
    button.classList.toggle("on", on);
    const [what, label, spoken] = words[kind][on ? 1 : 0];
    button.dataset.what = what;
    button.textContent = label;
    button.setAttribute("aria-label", spoken.replace("*", who));
  }
  document.querySelector("[data-what=strike]").disabled = picture.Struck;
  document.querySelector("[data-what=heal-all]").disabled = picture.Cut.length === 0;
  byId("careful").checked = picture.Careful;
  byId("recipe").textContent = recipes[picture.Careful ? 1 : 0];
}

const words = {
  cut: [["cut", "Cut off", "Cut * off"], ["heal", "Heal", "Heal *"]],
  pause: [["pause", "Pause", "Pause *"], ["wake", "Resume", "Resume *"]],
  expire: [["expire", "End session", "End the sessions of *"]],
  "hand-on": [["hand-on", "Release", "Make * release the locks"]],
  kill: [["kill", "Kill", "Kill *"], ["start", "Start", "Start * again"]],
};

async function press(event) {
  const button = event.target.closest("button[data-what]");
  if (button) await act(button.dataset.what, button.dataset.who ?? "");
}

async function act(what, who) {
  const query = new URLSearchParams({ what, who });
  let trouble = "";
  try {
    const answer = await fetch("do?" + query, { method: "POST" });
    if (!answer.ok) trouble = await answer.text();
  } catch (e) {
    trouble = "The program does not answer.";
  }
  byId("trouble").textContent = trouble;
}

async function start() {
  about = await (await fetch("about")).json();
  byId("where").textContent = `On ${about.where}, with a session timeout of ${about.timeout / 1e9} s.`;
  byId("cannot").textContent = about.cannot;
  const strike = document.querySelector("[data-what=strike]");
  strike.textContent = about.fault;
  strike.hidden = about.fault === "";
  for (const who of about.names) {
    const box = document.createElement("div");
    box.className = "actor";
    const name = document.createElement("b");
    name.textContent = who;
    box.append(name);
    for (const kind of Object.keys(words)) {
      const button = document.createElement("button");
      button.type = "button";
      Object.assign(button.dataset, { who, kind });
      box.append(button);
    }
    byId("actors").append(box);
  }
  document.addEventListener("click", press);
  byId("careful").addEventListener("change", (event) => act(event.target.checked ? "careful" : "careless", ""));
  const stream = new EventSource("events");
  stream.onmessage = (event) => {
    picture = JSON.parse(event.data);
    offset = picture.Now / 1e6 - performance.now();
    buttons();
    tell();
    draw();
  };
  stream.onerror = () => { byId("trouble").textContent = "The program does not answer."; };
  stream.onopen = () => { byId("trouble").textContent = ""; };
  addEventListener("resize", draw);
  loop();
}

start();
