"use strict";
// Live updates: at each event the page requests itself again, and replaces the parts that have changed.
(() => {
  const parts = () => document.querySelectorAll("[data-part]");
  const told = document.getElementById("live");
  if (!parts().length || !told || !window.EventSource) return;
  const POLL_MS = 15000;
  let busy = false;
  let missed = false;

  function take(fresh) {
    for (const old of parts()) {
      const now = fresh.getElementById(old.id);
      if (!now) continue;
      if (old.className !== now.className) old.className = now.className;
      if (old.dataset.part === "class" || old.innerHTML === now.innerHTML) continue;
      if (old.contains(document.activeElement)) continue; // not under somebody's fingers
      old.replaceChildren(...[...now.childNodes].map((node) => document.importNode(node, true)));
    }
    document.title = fresh.title;
  }

  function look() {
    if (document.hidden || busy) {
      missed = true;
      return;
    }
    busy = true;
    missed = false;
    const asked = new XMLHttpRequest();
    asked.open("GET", location.href);
    asked.responseType = "document";
    asked.timeout = POLL_MS;
    asked.onload = () => {
      if (new URL(asked.responseURL).pathname === "/login") location.reload();
      else if (asked.status === 200 && asked.response) take(asked.response);
    };
    asked.onloadend = () => {
      busy = false;
      if (missed && !document.hidden) look();
    };
    asked.send();
  }

  function follow() {
    const events = new EventSource("/live");
    events.onopen = () => say("on", "Live");
    events.addEventListener("look", look);
    events.onerror = () => {
      say("off", "Disconnected; the numbers shown are stale.");
      if (events.readyState === EventSource.CLOSED) {
        events.close();
        setTimeout(() => {
          look();
          follow();
        }, POLL_MS);
      }
    };
    addEventListener("pagehide", () => events.close());
  }

  function say(state, text) {
    told.className = `live ${state}`;
    told.textContent = text;
  }

  // On a phone the row of pages is longer than the screen.
  const here = document.querySelector("nav [aria-current]");
  if (here) here.closest("nav").scrollLeft = here.offsetLeft - here.closest("nav").offsetLeft - 8;

  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && missed) look();
  });
  addEventListener("pageshow", (event) => {
    if (event.persisted) location.reload();
  });
  follow();
})();
