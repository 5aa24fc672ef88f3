"use strict";
// A button behind everything that is to be copied.  Without scripts there is none.
(() => {
  const SHOWN_MS = 2000;

  function select(element) {
    const range = document.createRange();
    range.selectNodeContents(element);
    const chosen = getSelection();
    chosen.removeAllRanges();
    chosen.addRange(range);
  }

  async function copy(element) {
    // Pages that came over plain http have no clipboard: for them the old way is left.
    select(element);
    if (!document.execCommand("copy")) await navigator.clipboard.writeText(element.textContent);
    getSelection().removeAllRanges();
  }

  for (const element of document.querySelectorAll("[data-copy]")) {
    const line = document.createElement("p");
    const button = document.createElement("button");
    const told = document.createElement("span");
    line.className = "copied";
    button.type = "button";
    button.className = "quiet";
    button.textContent = `Copy ${element.dataset.copy}`;
    told.setAttribute("role", "status");
    button.addEventListener("click", async () => {
      try {
        await copy(element);
        told.textContent = " Copied";
      } catch {
        select(element);
        told.textContent = " Press Ctrl+C to copy";
      }
      setTimeout(() => {
        told.textContent = "";
      }, SHOWN_MS);
    });
    line.append(button, told);
    const item = element.closest("dd");
    if (item) item.append(line);
    else element.closest("pre, p").after(line);
  }
})();
