"use strict";

const said = (text) => { const place = document.getElementById("said"); if (place) place.textContent = text; };

async function send(path, body, headers = {}) {
  const answer = await fetch(path, { method: "POST", body, headers: { "Content-Type": "application/json", ...headers } });
  const content = answer.status === 204 ? {} : await answer.json();
  if (!answer.ok) throw new Error(content.detail || answer.statusText);
  return content;
}

// Parts of a page that are fetched again and again; what has the focus stays.
for (const part of document.querySelectorAll("[data-live]")) {
  setInterval(async () => {
    if (document.hidden || part.contains(document.activeElement)) return;
    const answer = await fetch(part.dataset.live);
    if (answer.ok) part.innerHTML = await answer.text();
  }, Number(part.dataset.every));
}

for (const button of document.querySelectorAll("[data-post]")) {
  button.addEventListener("click", async () => {
    try { await send(button.dataset.post, button.dataset.body); said("asked"); } catch (error) { said(error.message); }
  });
}

// Which trials of a study are shown; kept when the page's body is fetched again.
const chosen = { purpose: "", state: "" };
function filters() {
  const table = document.querySelector("[data-trials]");
  if (!table) return;
  const rows = [...table.querySelectorAll("tr[data-purpose]")];
  const bar = document.createElement("p");
  bar.className = "row";
  const count = document.createElement("span");
  count.className = "soft";
  const show = () => {
    for (const row of rows) row.hidden = Object.entries(chosen).some(([name, value]) => value && row.dataset[name] !== value);
    count.textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length}`;
  };
  for (const name of Object.keys(chosen)) {
    const label = document.createElement("label"), select = document.createElement("select");
    label.textContent = `${name} `;
    select.name = `trial-${name}`;
    for (const value of ["", ...new Set(rows.map((row) => row.dataset[name]))]) select.add(new Option(value || "all", value));
    select.value = chosen[name];
    if (select.selectedIndex < 0) select.value = chosen[name] = "";
    select.addEventListener("change", () => { chosen[name] = select.value; show(); });
    label.append(select);
    bar.append(label);
  }
  bar.append(count);
  table.before(bar);
  show();
}

const live = document.getElementById("live");
if (live) {
  const study = live.dataset.study;
  filters();
  const events = new EventSource(`/v1/studies/${study}/events`);
  let wanted = 0;
  const again = () => {
    clearTimeout(wanted);
    wanted = setTimeout(async () => {
      const answer = await fetch(`/studies/${study}/body`);
      if (!answer.ok) return;
      const part = document.getElementById("body"), focused = part.contains(document.activeElement) && document.activeElement.name;
      part.innerHTML = await answer.text();
      filters();
      if (focused) part.querySelector(`[name="${focused}"]`)?.focus();
    }, 500);
  };
  events.addEventListener("state", (event) => {
    const state = JSON.parse(event.data).state, place = document.getElementById("state");
    place.textContent = state; place.className = `state ${state}`;
    for (const element of live.querySelectorAll("[data-states]")) element.hidden = !element.dataset.states.split(" ").includes(state);
    if (state === "completed" || state === "failed") document.getElementById("phase").textContent = "";
    again();
  });
  events.addEventListener("trial-ends", again);
  events.addEventListener("progress", (event) => {
    const now = JSON.parse(event.data);
    if (!now) return;
    document.getElementById("progress").value = now.repetitions;
    document.getElementById("phase").textContent =
      now.trial ? `trial ${now.trial} (${now.purpose}), ${now.phase}` : now.phase || "beginning";
  });
}

const form = document.getElementById("launch");
if (form) {
  // One key for all that this page sends until something is launched: two clicks launch one study.
  const newKey = () => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  const button = form.querySelector("button.main");
  let key = newKey();
  form.elements.application.addEventListener("change", (event) => {
    location.search = `?application=${encodeURIComponent(event.target.value)}`;
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const job = {};
    for (const field of form.querySelectorAll("select, input:not([data-several])")) {
      if (field.type === "checkbox") job[field.name] = field.checked;
      else if ("numbers" in field.dataset) job[field.name] = field.value.trim() ? field.value.split(",").map(Number) : [];
      else if ("word" in field.dataset) job[field.name] = field.value === field.dataset.word ? field.value : Number(field.value);
      else if (field.type !== "number") job[field.name] = field.value;
      else if (field.value !== "") job[field.name] = Number(field.value);
    }
    // Boxes of one name are a list; all of them checked is the same as none named.
    const boxes = [...form.querySelectorAll("input[data-several]")];
    for (const name of new Set(boxes.filter((box) => !box.checked).map((box) => box.name)))
      job[name] = boxes.filter((box) => box.name === name && box.checked).map((box) => box.value);
    button.disabled = true;
    try {
      const made = await send("/v1/studies", JSON.stringify(job), { "Idempotency-Key": key });
      key = newKey();
      location.href = `/studies/${made.study}`;
    } catch (error) { said(error.message); }
    button.disabled = false;
  });
}

const planned = document.getElementById("plan");
if (planned) {
  const fields = planned.elements;
  // "8M/s 10M/s 12M/s" is an interval.
  const amount = (text) => {
    const parts = text.trim().split(/\s+/);
    if (parts.length === 3) return { low: parts[0], likely: parts[1], high: parts[2] };
    return /^[0-9]+([.][0-9]+)?$/.test(text.trim()) ? Number(text) : text.trim();
  };
  planned.addEventListener("submit", async (event) => {
    event.preventDefault();
    const need = { availability: { replicas: Number(fields.replicas.value), failure_domains: Number(fields.failure_domains.value) } };
    for (const field of planned.querySelectorAll("[data-need]"))
      if (field.value.trim()) need[field.name] = field.name === "name" ? field.value.trim() : amount(field.value);
    if (fields.per_year.value.trim()) need.growth = { per_year: amount(fields.per_year.value), years: Number(fields.years.value) };
    const question = { need, regions: fields.region.value.trim() ? [fields.region.value.trim()] : [] };
    if (fields.application.value) question.application = fields.application.value;
    else question.reads = fields.points.value.split(",").filter((part) => part.trim()).map((part) => {
      const [cores, rps] = part.split(":").map(Number);
      return { cores, rps };
    });
    const button = planned.querySelector("button.main");
    button.disabled = true;
    try { location.href = `/plans/${(await send("/v1/plans", JSON.stringify(question))).plan}`; } catch (error) { said(error.message); }
    button.disabled = false;
  });
}
