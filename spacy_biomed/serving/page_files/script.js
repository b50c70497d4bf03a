"use strict";

const byId = (id) => document.getElementById(id);
const [form, text, confidence] = ["form", "text", "confidence"].map(byId);
const pipelineLabels = JSON.parse(form.dataset.labels);
const COLOURS = 12;
const ASSERTIONS = ["negated", "uncertain", "historical", "hypothetical", "family"];

// What the server answered, the text that its offsets count in, and the labels that are off.
let answer = null;
let characters = [];
const off = new Set();
let lastUsed = byId("annotate");

/** An element. Texts become text nodes, never HTML. */
function create(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function say(line, isProblem = false) {
  byId("status").textContent = line;
  byId("status").classList.toggle("problem", isProblem);
}

async function send(path) {
  const headers = { "Content-Type": "application/json" };
  if (byId("token")) headers.Authorization = `Bearer ${byId("token").value}`;
  const body = { text: text.value };
  if (byId("document-id")?.value) body.id = byId("document-id").value;
  const response = await fetch(path, { method: "POST", headers, body: JSON.stringify(body) });
  const read = await response.json().catch(() => ({}));
  if (response.ok) return read;
  throw new Error(read.error ?? `the server answered with status ${response.status}`);
}

/** Annotate or de-identify, as the button says, and show the answer. */
async function run(button) {
  const buttons = form.querySelectorAll("button[type=submit]");
  for (const one of buttons) one.disabled = true;
  lastUsed = button;
  const given = text.value;
  forget();
  say("Working …");
  try {
    answer = await send(button.id);
    // Offsets count code points, and JavaScript's strings count UTF-16.
    characters = Array.from(answer.replacements ? answer.text : given);
    answer.original = Array.from(given);
    draw();
  } catch (error) {
    say(error instanceof TypeError ? "the server cannot be reached" : error.message, true);
  } finally {
    for (const one of buttons) one.disabled = false;
  }
}

function forget() {
  answer = null;
  byId("result").hidden = true;
  byId("shown").replaceChildren();
}

/** Show the answer, with a switch for each of its labels. */
function draw() {
  const isText = Boolean(answer.replacements);
  const all = answer.entities ?? answer.replacements;
  const counts = new Map();
  for (const { label } of all) counts.set(label, (counts.get(label) ?? 0) + 1);
  const found = [...counts].sort(([a], [b]) => (a < b ? -1 : 1));
  byId("labels").replaceChildren(
    create("legend", {}, isText ? "Replaced" : "Labels"),
    ...found.map(([label, count]) => drawLabel(label, count, isText)),
  );
  byId("labels").hidden = found.length === 0;
  byId("threshold").hidden = isText || all.every((one) => one.confidence === null);
  byId("download").textContent = isText ? "Download text" : "Download JSON";
  byId("result").hidden = false;
  drawShown();
}

function drawLabel(label, count, isText) {
  const name = [create("span", { class: colour(label) }, label), ` ${count}`];
  if (isText) return create("span", { class: "label" }, ...name);
  const box = create("input", { type: "checkbox", value: label });
  box.checked = !off.has(label);
  return create("label", { class: "label" }, box, ...name);
}

function colour(label) {
  if (!pipelineLabels.includes(label)) pipelineLabels.push(label);
  return `colour-${pipelineLabels.indexOf(label) % COLOURS}`;
}

const isConfident = (one) => one.confidence === null || one.confidence >= Number(confidence.value);

/** The answer of `/annotate` with what the slider and the switches leave. */
function filter() {
  const { original, ...shown } = answer;
  shown.entities = answer.entities.filter((one) => isConfident(one) && !off.has(one.label));
  if (answer.relations) {
    shown.relations = answer.relations.filter(
      (one) => isConfident(one) && !off.has(one.head_label) && !off.has(one.tail_label),
    );
  }
  if (answer.answers) shown.answers = answer.answers.filter(isConfident);
  return shown;
}

/** Draw what the slider and the switches leave. */
function drawShown() {
  byId("least").textContent = Number(confidence.value).toFixed(2);
  byId("shown").replaceChildren(...(answer.replacements ? drawText() : drawFindings(filter())));
}

function drawText() {
  const count = answer.replacements.length;
  say(count === 1 ? "1 replacement" : `${count} replacements`);
  const marks = answer.replacements.map((one) => ({
    ...one,
    start: one.new_start,
    end: one.new_end,
  }));
  const rows = answer.replacements.map((one) => [
    answer.original.slice(one.start, one.end).join(""), one.text, one.label,
  ]);
  return [
    create("h2", {}, "De-identified text"),
    drawMarks(marks),
    ...drawTable("replacements", "", ["Text", "Replaced by", "Label"], rows),
  ];
}

function drawFindings(found) {
  const [count, all] = [found.entities.length, answer.entities.length];
  const noun = all === 1 ? "entity" : "entities";
  say(count === all ? `${all} ${noun}` : `${count} of ${all} ${noun} shown`);
  const part = (start, end) => characters.slice(start, end).join("");
  const layers = new Set([null, ...answer.entities.map((one) => one.group)]);
  if (layers.size > 1 && answer.entities.every((one) => one.group !== null)) layers.delete(null);
  return [
    ...[...layers].flatMap((group) => drawLayer(group, found.entities)),
    ...drawEntities(found.entities),
    ...drawTable("cats", "Classes", ["Class", "Score"], sortScores(found.cats ?? {})),
    ...drawTable("relations", "Relations", ["Head", "Relation", "Tail", "Confidence"],
      (found.relations ?? []).map((one) => [
        part(one.head_start, one.head_end), one.label,
        part(one.tail_start, one.tail_end), one.confidence,
      ])),
    ...drawTable("answers", "Answers", ["Answer", "Confidence"],
      (found.answers ?? []).map((one) => [one.text, one.confidence])),
  ];
}

const sortScores = (cats) => Object.entries(cats).sort(([, a], [, b]) => b - a);

function drawLayer(group, entities) {
  const own = entities.filter((one) => one.group === group);
  const marked = leaveOutOverlapping(own);
  const left = own.length - marked.length;
  const note = `${left} inside or across others: in the table only.`;
  return [
    create("h2", {}, group === null ? "Entities" : `Spans of ${group}`),
    drawMarks(marked),
    ...(left ? [create("p", { class: "note" }, note)] : []),
  ];
}

/** What the text says of an entity: "negated", and so on. */
const assert = (one) => ASSERTIONS.filter((name) => one[`is_${name}`]);

function drawEntities(entities) {
  const hasContext = entities.some((one) => "is_negated" in one);
  const hasSections = entities.some((one) => "section" in one);
  const columns = ["Text", "Label", "Confidence", "Start", "End",
    ...(hasSections ? ["Section"] : []), ...(hasContext ? ["Context"] : [])];
  const hasAttributes = entities.some((one) => Object.keys(one.attributes).length);
  const rows = entities.map((one) => [
    one.text, one.group === null ? one.label : `${one.label} (${one.group})`,
    one.confidence, String(one.start), String(one.end),
    ...(hasSections ? [one.section] : []), ...(hasContext ? [assert(one).join(", ")] : []),
    ...(hasAttributes
      ? [Object.entries(one.attributes).map(([name, value]) => `${name} = ${value}`).join("; ")]
      : []),
  ]);
  return drawTable("entities", "", hasAttributes ? [...columns, "Attributes"] : columns, rows);
}

/** Of overlapping entities the longest, else the first; in text order. */
function leaveOutOverlapping(entities) {
  const kept = [];
  const bySize = [...entities].sort((a, b) => a.start - a.end - (b.start - b.end) || a.start - b.start);
  const taken = new Set();
  for (const one of bySize) {
    // What was taken before is at least as long, so it covers an end of what it overlaps.
    if (taken.has(one.start) || taken.has(one.end - 1)) continue;
    for (let place = one.start; place < one.end; place++) taken.add(place);
    kept.push(one);
  }
  return kept.sort((a, b) => a.start - b.start);
}

/** The text with disjoint spans marked. */
function drawMarks(spans) {
  const box = create("div", { class: "entities", lang: text.lang });
  let last = 0;
  for (const one of spans) {
    const sure = typeof one.confidence === "number" ? `, confidence ${one.confidence.toFixed(2)}` : "";
    const part = characters.slice(one.start, one.end).join("");
    // A tag names its label itself.
    const shown = [...(part.includes(one.label) ? [] : [one.label]), ...assert(one)].join(", ");
    const name = shown ? [create("span", { class: "name" }, shown)] : [];
    const style = colour(one.label) + (one.is_negated ? " negated" : "");
    box.append(
      characters.slice(last, one.start).join(""),
      create("mark", { class: style, title: one.label + sure }, part, ...name),
    );
    last = one.end;
  }
  box.append(characters.slice(last).join(""));
  return box;
}

/** A heading and a table; nothing if there are no rows. Numbers get three digits. */
function drawTable(id, title, columns, rows) {
  if (!rows.length) return [];
  const show = (value) => (value === null ? "–" : typeof value === "number" ? value.toFixed(3) : value);
  const table = create("table", { id },
    create("thead", {}, create("tr", {},
      ...columns.map((name) => create("th", { scope: "col" }, name)))),
    create("tbody", {}, ...rows.map((row) =>
      create("tr", {}, ...row.map((value) => create("td", {}, show(value)))))));
  const label = title || "What is marked";
  return [
    ...(title ? [create("h2", {}, title)] : []),
    create("div", { class: "table", tabindex: "0", role: "region", "aria-label": label }, table),
  ];
}

function download() {
  const [name, type, content] = answer.replacements
    ? ["deidentified.txt", "text/plain", answer.text]
    : ["annotations.json", "application/json", `${JSON.stringify(filter(), null, 2)}\n`];
  const href = URL.createObjectURL(new Blob([content], { type: `${type};charset=utf-8` }));
  create("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 60_000);
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  run(event.submitter ?? lastUsed);
});

text.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    if (!lastUsed.disabled) form.requestSubmit(lastUsed);
  }
});

confidence.addEventListener("input", drawShown);

byId("labels").addEventListener("change", ({ target }) => {
  if (target.checked) off.delete(target.value);
  else off.add(target.value);
  drawShown();
});

byId("download").addEventListener("click", download);

byId("clear").addEventListener("click", () => {
  text.value = "";
  forget();
  say("");
  text.focus();
});
