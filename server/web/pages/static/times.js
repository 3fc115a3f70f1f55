// Shows the times of a page in the reader's own time zone, and how far they are from now while the page is open.
// Without it they are what the server has written: in UTC, and as far as they were when the page was made.
"use strict";

// The same of a part that was fetched: before it is compared with what the page shows.
const showTimes = (() => {
  const { lang } = document.documentElement;
  const words = JSON.parse(document.body.dataset.times);
  const region = navigator.languages.find((tag) => tag.split("-")[0] === lang.split("-")[0]);
  const format = new Intl.DateTimeFormat(region || lang, { dateStyle: "medium", timeStyle: "long" });
  const ahead = Date.parse(document.body.dataset.now) - Date.now(); // the reader's clock may be wrong
  const units = [[86400, "days"], [3600, "hours"], [60, "minutes"], [1, "seconds"]];

  const amount = (seconds) => {
    const [size, unit] = units.find(([least]) => seconds >= least) || units[3];
    const count = Math.round(seconds / size);
    return (words[unit][count === 1 ? "one" : "other"] || words[unit]).replace("{count}", count);
  };

  const distance = (seconds) => {
    if (seconds > -1 && seconds < 5) return words.now;
    return words[seconds > 0 ? "ago" : "in"].replace("{amount}", amount(Math.abs(seconds)));
  };

  const show = (root) => {
    const now = Date.now() + ahead;
    for (const time of root.querySelectorAll("time")) {
      const at = new Date(time.dateTime);
      const seconds = (now - at) / 1000;
      const kind = time.dataset.shows;
      const text = kind === "date" ? format.format(at) : distance(kind === "past" ? Math.max(seconds, 0) : seconds);
      if (time.textContent !== text) time.textContent = text;
      if (kind !== "date") time.title = format.format(at);
    }
  };

  // Beside a field in which a time is typed in UTC.
  const showTyped = (output) => {
    const at = new Date(`${document.getElementById(output.htmlFor.value).value}Z`);
    output.textContent = Number.isNaN(at.getTime()) ? "" : `= ${format.format(at)}`;
  };
  const showAllTyped = () => document.querySelectorAll("output[for]").forEach(showTyped);

  show(document);
  setInterval(() => show(document), 5000);
  addEventListener("input", showAllTyped);
  addEventListener("pageshow", showAllTyped); // what was kept of a form is in it then
  return show;
})();
