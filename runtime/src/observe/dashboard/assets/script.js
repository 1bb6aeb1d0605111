// The dashboard works without this script. It adds live updates, countdowns, time zones, themes, and dialogs.
"use strict";

// ---- Settings of the viewer. The theme is set before the page is drawn.

const settings = {
  get(name) { try { return localStorage.getItem("jobs-" + name); } catch { return null; } },
  set(name, value) { try { localStorage.setItem("jobs-" + name, value); } catch { /* not kept */ } },
};

const themes = ["auto", "light", "dark"];
let theme = themes.includes(settings.get("theme")) ? settings.get("theme") : "auto";
let zone = ["utc", "job", "browser"].includes(settings.get("zone")) ? settings.get("zone") : "utc";
document.documentElement.dataset.theme = theme;

// ---- Times. The store's clock counts, and `offset` is how far it is ahead of the browser's.

let offset = 0;
const storeNow = () => Date.now() + offset;

function zoneOf(element) {
  if (zone === "browser") return undefined;
  return zone === "job" && element.dataset.zone ? element.dataset.zone : "UTC";
}

const clock = { hour: "2-digit", minute: "2-digit" };

function format(instant, timeZone, options) {
  try {
    return new Intl.DateTimeFormat("en-GB", { hourCycle: "h23", timeZone, ...options }).format(instant);
  } catch {
    return instant.toISOString(); // a zone that this browser does not know
  }
}

function dayOf(instant, timeZone) {
  return format(instant, timeZone, { year: "numeric", month: "2-digit", day: "2-digit" }).split("/").reverse().join("-");
}

function showTime(element) {
  const instant = new Date(element.dateTime);
  if (isNaN(instant)) return;
  const timeZone = zoneOf(element);
  const { axis, near } = element.dataset;
  if (axis) return setText(element, format(instant, timeZone, axis === "week" ? { weekday: "short", day: "2-digit" } : clock));
  if (!near) return setText(element, full(instant, timeZone));
  // In a sentence about another instant.
  const date = dayOf(instant, timeZone) === dayOf(new Date(near), timeZone) ? "" : dayOf(instant, timeZone) + " ";
  setText(element, date + format(instant, timeZone, instant.getUTCSeconds() ? { ...clock, second: "2-digit" } : clock));
}

function full(instant, timeZone) {
  const date = dayOf(instant, timeZone) === dayOf(new Date(storeNow()), timeZone) ? "" : dayOf(instant, timeZone) + " ";
  return date + format(instant, timeZone, { ...clock, second: "2-digit", timeZoneName: "short" });
}

// In drawings: the titles of shapes, and the hours of the load map.
function showMoment(element) {
  const { at, rest, hour } = element.dataset;
  const shown = (part) => format(new Date(at), zoneOf(element), part);
  if (hour === undefined) return setText(element, full(new Date(at), zoneOf(element)) + rest);
  setText(element, shown(clock).endsWith(":00") ? shown(clock).slice(0, 2) : shown(clock));
}

function duration(milliseconds) {
  const seconds = Math.floor(milliseconds / 1000);
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m ${seconds % 60}s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)}h ${Math.floor((seconds % 3600) / 60)}m`;
  return `${Math.floor(seconds / 86400)}d ${Math.floor((seconds % 86400) / 3600)}h`;
}

function showRelative(element) {
  const left = Date.parse(element.dateTime) - storeNow();
  if (isNaN(left)) return;
  setText(element, left > 0 ? `in ${duration(left + 999)}` : `${duration(-left)} ago`);
}

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function showTimes(root) {
  root.querySelectorAll("time:not(.relative)").forEach(showTime);
  root.querySelectorAll("time.relative").forEach(showRelative);
  // The server has rendered them in UTC.
  if (zone !== "utc" || root === document) root.querySelectorAll("[data-at]").forEach(showMoment);
}

function tick() {
  const time = document.getElementById("clock");
  time.dateTime = new Date(storeNow()).toISOString();
  showTime(time);
  document.querySelectorAll("time.relative").forEach(showRelative);
}

function learnTime(instant) {
  const at = Date.parse(instant);
  if (!isNaN(at)) offset = at - Date.now();
}

// ---- Replacing parts of the page. What the viewer has opened or focused stays so.

function replace(old, fresh) {
  const open = [...old.querySelectorAll("details[open][id]")].map((element) => element.id);
  const scrolled = [...old.querySelectorAll(".scroll")].map((element) => element.scrollLeft);
  const active = old.contains(document.activeElement) ? document.activeElement : null;
  const path = active && focusPath(active);
  old.replaceWith(fresh);
  open.forEach((id) => document.getElementById(id)?.setAttribute("open", ""));
  fresh.querySelectorAll(".scroll").forEach((element, number) => { element.scrollLeft = scrolled[number] || 0; });
  showTimes(fresh);
  if (path) [...fresh.querySelectorAll("a, button, input, select, summary, [tabindex]")].find((element) => focusPath(element) === path)?.focus({ preventScroll: true });
}

const focusPath = (element) => [element.tagName, element.getAttribute("href"), element.name, element.getAttribute("aria-label"), element.textContent.trim()].join("|");

function replaceParts(parts) {
  for (const { id, html } of parts) {
    const old = document.getElementById(id);
    const template = document.createElement("template");
    template.innerHTML = html; // rendered and escaped by the server
    if (old && template.content.firstElementChild) replace(old, template.content.firstElementChild);
  }
}

// Loads a page and shows its content in place of the current one.
let loading = 0;
async function load(address, { typing } = {}) {
  const number = ++loading;
  const response = await fetch(address, { headers: { accept: "text/html" } });
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  const fresh = page.querySelector("main");
  if (!fresh || number !== loading) return;
  const old = document.querySelector("main");
  const input = typing && document.activeElement;
  const kept = input && { name: input.name, value: input.value, at: input.selectionStart };
  document.title = page.title;
  learnTime(fresh.dataset.now);
  replace(old, document.adoptNode(fresh));
  if (kept) {
    const again = fresh.querySelector(`[name="${CSS.escape(kept.name)}"]`);
    again.value = kept.value;
    again.focus({ preventScroll: true });
    again.setSelectionRange?.(kept.at, kept.at);
  }
  connect();
}

// ---- Live updates.

let events;
let reloadLater = false;
let halted = false;

function showState(state, text) {
  const live = document.getElementById("live");
  live.dataset.state = state;
  live.title = halted ? "Follow the store again" : "Stop live updates";
  setText(live.querySelector(".text"), text);
}

const isBusy = () => document.querySelector("dialog[open]") !== null || document.activeElement?.matches("main input, main select");

// A browser opens six connections to a server, over all tabs: a page that is not seen gives its own back.
function disconnect() {
  events?.close();
  showState("off", halted ? "Stopped" : "Not live");
}

function connect() {
  events?.close();
  if (halted || document.visibilityState === "hidden") return;
  const address = document.querySelector("main").dataset.events;
  if (!address) return;
  events = new EventSource(address);
  events.onopen = () => showState("on", "Live");
  events.onerror = () => showState("lost", "Reconnecting");
  events.addEventListener("parts", (event) => {
    const { at, parts } = JSON.parse(event.data);
    learnTime(at);
    replaceParts(parts);
  });
  // The page has other parts than before.
  events.addEventListener("reload", () => {
    if (isBusy()) reloadLater = true;
    else load(location.href).catch(() => showState("lost", "Reconnecting"));
  });
}

function reloadIfLate() {
  if (!reloadLater || isBusy()) return;
  reloadLater = false;
  load(location.href).catch(() => {});
}

// ---- Actions: a confirmation is shown as a dialog, and its result as a notice.

function notify(text, isError) {
  const notice = document.getElementById("notice");
  notice.className = isError ? "bad" : "ok";
  notice.textContent = text;
  clearTimeout(notify.timer);
  notify.timer = setTimeout(() => { notice.textContent = ""; notice.className = ""; }, isError ? 12000 : 6000);
}

async function confirmAction(address) {
  const response = await fetch(address, { headers: { accept: "text/html" } });
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  const form = page.querySelector("main form");
  if (!form) return notify(page.querySelector("main")?.textContent.trim() || "The action is not available.", true);
  const dialog = document.createElement("dialog");
  const title = form.querySelector("h1");
  const heading = document.createElement("h2");
  heading.id = "dialog-title";
  heading.textContent = title.textContent;
  title.replaceWith(heading);
  dialog.setAttribute("aria-labelledby", heading.id);
  const dismiss = document.createElement("button");
  dismiss.type = "button";
  dismiss.textContent = "Back";
  dismiss.addEventListener("click", () => dialog.close());
  form.querySelector(".buttons").prepend(dismiss);
  dialog.append(document.adoptNode(form));
  dialog.addEventListener("close", () => { dialog.remove(); reloadIfLate(); });
  form.addEventListener("submit", (event) => { event.preventDefault(); send(form, dialog); });
  document.body.append(dialog);
  dialog.showModal();
}

async function send(form, dialog) {
  const buttons = form.querySelectorAll("button");
  buttons.forEach((button) => { button.disabled = true; });
  try {
    const body = new URLSearchParams(new FormData(form));
    const response = await fetch(form.getAttribute("action"), { method: "POST", body, headers: { accept: "application/json" } });
    const answer = await response.json();
    dialog.close();
    notify(answer.message || answer.error, !response.ok);
    await load(location.href);
  } catch {
    buttons.forEach((button) => { button.disabled = false; });
    notify("The server did not answer; it is not known whether the action was done.", true);
  }
}

// ---- Forms of filters: the page follows what is typed or chosen.

function addressOf(form) {
  const chosen = [...new FormData(form)].filter(([, value]) => value !== "");
  const query = new URLSearchParams(chosen).toString();
  return form.getAttribute("action") + (query ? "?" + query : "");
}

let typed;
function follow(form, wait) {
  clearTimeout(typed);
  typed = setTimeout(() => {
    const address = addressOf(form);
    history.replaceState(null, "", address);
    load(address, { typing: true }).catch(() => showState("lost", "Reconnecting"));
  }, wait);
}

document.addEventListener("input", (event) => {
  const form = event.target.closest("form[data-search]");
  if (form) follow(form, event.target.matches("select") ? 0 : 200);
});

document.addEventListener("submit", (event) => {
  if (!event.target.matches("form[data-search]")) return;
  event.preventDefault();
  follow(event.target, 0);
});

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-confirm]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  confirmAction(link.href).catch(() => notify("The server did not answer.", true));
});

document.addEventListener("visibilitychange", () => (document.visibilityState === "hidden" ? disconnect() : connect()));
addEventListener("pagehide", disconnect);
addEventListener("pageshow", (event) => { if (event.persisted) connect(); });

document.addEventListener("focusout", () => setTimeout(reloadIfLate, 0));

document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.target.closest("input, select, textarea, dialog")) return;
  const search = document.querySelector("input[type=search]");
  if (search) { event.preventDefault(); search.focus(); }
});

document.addEventListener("DOMContentLoaded", () => {
  const themeButton = document.getElementById("theme");
  const showTheme = () => {
    document.documentElement.dataset.theme = theme;
    setText(themeButton, { auto: "◐", light: "☀", dark: "☾" }[theme]);
    themeButton.setAttribute("aria-label", `Theme: ${theme}`);
    themeButton.title = `Theme: ${theme}`;
  };
  themeButton.addEventListener("click", () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    settings.set("theme", theme);
    showTheme();
  });
  showTheme();
  themeButton.disabled = false;
  const live = document.getElementById("live");
  live.disabled = false;
  live.addEventListener("click", () => {
    halted = !halted;
    if (halted) disconnect();
    else connect();
  });
  const zones = document.getElementById("zone");
  zones.value = zone;
  zones.disabled = false;
  zones.addEventListener("change", () => {
    zone = zones.value;
    settings.set("zone", zone);
    showTimes(document);
  });
  learnTime(document.querySelector("main").dataset.now);
  showTimes(document);
  setInterval(tick, 1000);
  connect();
});
