// Keeps the page of a run up to date: on each change the page is loaded again, and its parts are replaced. What is
// folded open stays open, and the focus stays where it is. Without this script the page shows what it showed.
"use strict";

(() => {
  const live = document.querySelector("[data-live]");
  if (!live) return;

  // A person's folding wins over what the server thinks should be open.
  const folded = new Map();
  document.addEventListener(
    "toggle",
    (event) => event.target.dataset?.key && folded.set(event.target.dataset.key, event.target.open),
    true,
  );

  const replace = (part, fresh) => {
    if (part.innerHTML === fresh.innerHTML) return;
    const fields = [...part.querySelectorAll("textarea, select, input:not([type=hidden])")];
    if (fields.some((field) => field === document.activeElement || (!field.matches("select") && field.value.trim()))) return;
    for (const details of fresh.querySelectorAll("details[data-key]")) {
      if (folded.has(details.dataset.key)) details.open = folded.get(details.dataset.key);
    }
    const focused = part.contains(document.activeElement) ? pathTo(document.activeElement) : null;
    const text = document.activeElement.textContent;
    const { scrollLeft, scrollTop } = part;
    part.replaceChildren(...fresh.childNodes);
    part.scrollTo(scrollLeft, scrollTop);
    // Not to another button in its place: who presses Enter must not press what they did not mean.
    if (focused) [...part.querySelectorAll(focused)].find((one) => one.tagName !== "BUTTON" || one.textContent === text)?.focus();
    if (focused && !part.contains(document.activeElement)) document.getElementById("main").focus({ preventScroll: true });
  };

  const pathTo = (element) => {
    const key = element.closest("[data-key]")?.dataset.key;
    const tag = element.tagName.toLowerCase();
    if (element.getAttribute("href")) return `${tag}[href="${CSS.escape(element.getAttribute("href"))}"]`;
    return key ? `[data-key="${CSS.escape(key)}"] > ${tag}` : tag;
  };

  let loading = false;
  let again = false;
  const load = async () => {
    if (loading) {
      again = true;
      return;
    }
    loading = true;
    try {
      const answer = await fetch(location.pathname, { headers: { Accept: "text/html" } });
      if (answer.ok) {
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        showTimes(page);
        for (const part of document.querySelectorAll("[data-part]")) {
          const fresh = page.getElementById(part.id);
          if (fresh) replace(part, fresh);
        }
      }
    } finally {
      loading = false;
      if (again) {
        again = false;
        load();
      }
    }
  };

  const source = new EventSource(`${live.dataset.live}?seen=${encodeURIComponent(live.dataset.seen)}`);
  source.addEventListener("run", (event) => {
    load();
    if (JSON.parse(event.data).ended) source.close();
  });
})();
