// handrail console: what HTML cannot do. Every page works without this file.
"use strict";
(() => {
  const QUIET = 500; // milliseconds
  const form = document.querySelector("article form.answer");
  const shown = form && form.elements.seen.value;
  const root = document.documentElement.dataset;

  // An answer needs quiet: after the page appeared or came back, and after a key for something else.
  let quiet = performance.now();
  const touch = () => { quiet = performance.now(); };
  document.addEventListener("visibilitychange", touch);
  addEventListener("pageshow", (event) => { // after going back, a form was sent or is out of date
    if (event.persisted) location.reload(); else touch();
  });
  for (const one of document.querySelectorAll("form.answer")) {
    one.addEventListener("submit", (event) => {
      if (performance.now() - quiet <= QUIET || one.dataset.sent) event.preventDefault();
      else one.dataset.sent = "1"; // a double tap sends one answer
    });
  }

  const keys = {
    j: () => step(1),
    k: () => step(-1),
    y: () => press("approve"),
    n: () => press("deny"),
    "/": () => { const field = document.querySelector("input[type=search]"); if (field) field.focus(); },
    "?": () => help.showModal(),
    "g i": () => go("inbox"),
    "g r": () => go("runs"),
  };
  const go = (page) => { document.querySelector(`nav a[href$="/${page}"]`).click(); };
  const step = (by) => {
    const items = [...document.querySelectorAll(".list .item")];
    const next = items[items.findIndex((item) => item.hasAttribute("aria-current")) + by];
    if (next) next.click();
  };
  const press = (answer) => {
    const button = form && form.querySelector(`button[value=${answer}]`);
    if (button && button.querySelector("kbd")) form.requestSubmit(button); // a typed yes has no key
  };
  let before = "";
  document.addEventListener("keydown", (event) => {
    const field = event.target.closest("input, textarea, select, summary");
    const gives = event.target.closest("form.answer") && (field || "Enter ".includes(event.key));
    if (gives && !event.repeat) return; // typing an answer is no key for something else
    const run = keys[before + event.key];
    before = event.key === "g" ? "g " : ""; // a key of two letters
    if (field || !help || help.open || document.cookie.includes("keys=off")) touch();
    else if (!run || event.repeat || event.ctrlKey || event.metaKey || event.altKey) touch();
    else { event.preventDefault(); run(); }
  });
  const help = document.getElementById("keys");
  if (help) { // a page for someone
    const opener = document.getElementById("show-keys");
    opener.hidden = false;
    opener.addEventListener("click", keys["?"]);
    help.addEventListener("close", () => {
      if (help.returnValue) document.cookie = `keys=${help.returnValue}; path=${root.base}/; max-age=31536000; samesite=strict`;
    });
  }
  // Live: the server sends the marked parts of this page again. Nothing that someone looks at is replaced.
  const sign = document.getElementById("live");
  if (!sign || !document.querySelector("[data-live]")) return;
  const say = (text, on) => {
    sign.hidden = false;
    sign.querySelector(".dot").className = on ? "dot on" : "dot off";
    sign.querySelector(".said").textContent = text;
  };
  const links = (node) => [...node.querySelectorAll("a")].map((link) => link.getAttribute("href")).join();
  const update = (fresh) => {
    const old = document.getElementById(fresh.id);
    const place = fresh.parentElement.id && document.getElementById(fresh.parentElement.id);
    if (!old) { if (place) place.append(fresh); return; }
    if (old.isEqualNode(fresh) || old.contains(document.activeElement)) return;
    if (old.dataset.live === "replace") old.replaceWith(fresh);
    else if (links(old) !== links(fresh)) document.getElementById("news").hidden = false;
  };
  const check = (now) => { // answered elsewhere, expired or changed: take the buttons away
    if (!form || !now || now.dataset.seen === shown) return;
    for (const one of form.querySelectorAll("button, input")) one.disabled = true;
    form.dataset.sent = "1";
    document.getElementById("gone").hidden = false;
  };
  let source = null;
  let last = "";
  const open = () => {
    const page = location.pathname.slice(root.base.length) + location.search;
    source = new EventSource(`${root.base}/stream?after=${last}&page=${encodeURIComponent(page)}`);
    source.onopen = () => say("live", true);
    source.onerror = () => {
      say("not live", false);
      if (source && source.readyState === EventSource.CLOSED) setTimeout(follow, 5000);
    };
    source.addEventListener("page", (event) => {
      last = event.lastEventId;
      const fresh = new DOMParser().parseFromString(JSON.parse(event.data), "text/html");
      check(fresh.getElementById("current"));
      for (const one of fresh.querySelectorAll("[data-live]")) update(one);
    });
  };
  const follow = () => { // a browser opens six connections to a host: a hidden page uses none
    if (source) source.close();
    source = null;
    if (!document.hidden) open();
  };
  document.addEventListener("visibilitychange", follow);
  follow();
})();
