// What the pages do beyond forms and links: keys, live updates. Everything works without it.
"use strict";

(() => {
  // A page that came in reply to a form has the address of the form in the bar. A browser that comes back to it, or
  // loads it again, is to show what is there now, and not to ask whether it may send the form a second time.
  const sentTo = "posted" in document.body.dataset ? location.pathname : null;
  const place = sentTo ? sentTo.replace(/\/(comments|pause|resume|tell|retry)$/, "") : location.pathname;
  if (sentTo) history.replaceState(history.state, "", place + location.search);

  const keys = document.getElementById("keys");
  for (const opener of document.querySelectorAll("[data-opens=keys]")) {
    opener.hidden = false;
    opener.addEventListener("click", () => keys.showModal());
  }

  const isTyping = (target) =>
    target.isContentEditable || (target.matches("input, textarea, select") && !target.matches("[type=checkbox], [type=radio]"));

  // Links marked `data-item` are what j and k go through, on every page that has a list.
  const items = () => [...document.querySelectorAll("[data-item]")].filter((item) => item.offsetParent !== null);

  const focusedItem = () => document.activeElement?.closest("li")?.querySelector("[data-item]");

  const step = (by) => {
    const all = items();
    if (!all.length) return;
    let index = all.indexOf(focusedItem());
    if (index < 0) index = all.findIndex((item) => item.hasAttribute("aria-current"));
    const next = index < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(Math.max(index + by, 0), all.length - 1);
    all[next].focus();
  };

  // A form that is folded away and has a key of its own; Ctrl+Enter in it sends it.
  const openForm = (name) => {
    const form = document.querySelector(`form[data-writes=${name}]`);
    form?.closest("details").setAttribute("open", "");
    form?.querySelector("textarea").focus();
  };

  // The first thing to fill in or to press in the form that answers the question.
  const answerField = () =>
    [...document.querySelectorAll("form[data-answer] :is(input:not([type=hidden]), textarea, select, button:not(.unseen))")].find(
      (field) => !field.disabled && !field.closest("details:not([open])"),
    );

  const actions = {
    a: () => answerField()?.focus(),
    j: () => step(1),
    k: () => step(-1),
    x: () => focusedItem()?.closest("li").querySelector("input[type=checkbox]")?.click(),
    "/": () => document.querySelector("input[type=search]")?.focus(),
    c: () => openForm("comment"),
    t: () => openForm("tell"),
    "?": () => keys.showModal(),
  };

  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.target.closest("form[data-writes]")?.requestSubmit();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || keys.open) return;
    if (event.key === "Escape") {
      const back = document.querySelector("[data-back]");
      if (isTyping(event.target)) event.target.blur();
      else if (document.activeElement?.closest("main") && back) document.querySelector("[data-item][aria-current]")?.focus();
      return;
    }
    const action = actions[event.key];
    if (!action || isTyping(event.target)) return;
    event.preventDefault();
    action();
  });

  // A text of which nothing says that it is long takes the lines that are pasted into it, and Enter sends its form.
  addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.ctrlKey || event.metaKey || event.isComposing) return;
    if (!event.target.matches?.("textarea.grows")) return;
    event.preventDefault();
    event.target.form.querySelector("button:not([type=button])").click();
  });

  // A question that was opened by a key is answered by keys: the focus is in its answer. By a click or a tap the page
  // begins at its top, and no keyboard covers it on a phone.
  addEventListener("click", (event) => {
    if (event.detail === 0 && event.target.closest?.("[data-item]")) sessionStorage.setItem("opened", "by key");
  });
  if (sessionStorage.getItem("opened")) answerField()?.focus();
  sessionStorage.removeItem("opened");

  // On a wide screen the pane scrolls, and not the page: keys scroll what has the focus.
  const main = document.getElementById("main");
  if (document.activeElement === document.body && getComputedStyle(main).overflowY === "auto") main.focus({ preventScroll: true });

  // After a refusal: to the first field that was refused, or to the reason.
  const refused = document.querySelector("[aria-invalid=true]") || document.querySelector(".note.bad[role=alert]");
  if (refused) {
    refused.setAttribute("tabindex", refused.matches(".note") ? "-1" : "0");
    refused.focus();
  }

  const list = document.querySelector("[data-list]");
  list?.querySelector("[data-item][aria-current]")?.scrollIntoView({ block: "nearest" });
  if (!refused) document.querySelector(".diff")?.scrollIntoView({ block: "center" });

  // Live updates: the server tells that something has changed, and the page fetches what it shows.
  const question = document.querySelector("[data-question]");
  const closed = document.querySelector("[data-run]");
  const announce = (text) => { document.getElementById("live").textContent = text; };

  const fetched = async (address) => {
    const response = await fetch(address, { headers: { Accept: "text/html" } });
    if (response.redirected || !(response.ok || response.status === 404)) throw new Error(`${response.status}`);
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    showTimes(page);
    return page;
  };

  const listAddress = () => {
    const query = new URLSearchParams(location.search);
    query.set("part", "list");
    if (question) query.set("current", question.dataset.id);
    return `/?${query}`;
  };

  // What has the focus in the list, so that it is found again after the list was replaced.
  const selectorOf = (element) => {
    if (element.matches("[data-item]")) return `[data-item][href="${CSS.escape(element.getAttribute("href"))}"]`;
    if (element.matches("input[type=checkbox]")) return `input[value="${CSS.escape(element.value)}"]`;
    return element.matches("a[rel]") ? `a[rel=${element.rel}]` : ".batch button";
  };

  const replaceContent = (part, fresh) => {
    if (part.innerHTML === fresh.innerHTML) return;
    const focused = part.contains(document.activeElement) ? document.activeElement : null;
    const link = focused?.getAttribute("href");
    part.replaceChildren(...fresh.childNodes);
    const again = link ? part.querySelector(`a[href="${CSS.escape(link)}"]`) : null;
    // Not to another button in its place: who presses Enter must not press what they did not mean.
    if (focused) (again || document.getElementById("main")).focus({ preventScroll: true });
  };

  // What a person is doing in the list stays: what is checked, what has the focus, how far it is scrolled. The search
  // and the filters are not touched: an element that is put in again loses the focus, and what is being composed.
  const refreshList = async () => {
    if (!list) return;
    const fresh = (await fetched(listAddress())).body;
    const before = new Set([...list.querySelectorAll("[data-item]")].map((item) => item.pathname));
    const tools = list.querySelector(".tools");
    const focused = list.contains(document.activeElement) && !tools.contains(document.activeElement) && document.activeElement;
    const index = focused ? items().indexOf(focusedItem()) : -1;
    const top = list.scrollTop;
    fresh.querySelector(".tools")?.remove();
    while (tools.nextSibling) tools.nextSibling.remove();
    tools.after(...fresh.childNodes);
    takeSelection();
    const now = [...list.querySelectorAll("[data-item]")];
    list.scrollTop = top;
    const again = focused && (list.querySelector(selectorOf(focused)) || now[Math.min(Math.max(index, 0), now.length - 1)]);
    if (again) again.focus({ preventScroll: true });
    else if (focused) document.getElementById("main").focus();
    if (now.some((item) => !before.has(item.pathname))) announce(document.getElementById("live").dataset.news);
    list.dataset.updates = String(Number(list.dataset.updates || 0) + 1);
  };

  // The form is not replaced: somebody may be typing in it. What its workflow would refuse now cannot be sent from it.
  const setAnswering = (fresh) => {
    const now = question.querySelector("[data-answering]");
    const form = now.querySelector("[data-answer]");
    if (!form) return replaceContent(now, fresh);
    const freshForm = fresh.querySelector("[data-answer]");
    replaceContent(now.querySelector("[data-who]"), fresh.querySelector("[data-who]"));
    if (freshForm) replaceContent(form.querySelector("[data-claim]"), freshForm.querySelector("[data-claim]"));
    setButtons(Boolean(freshForm));
  };

  const setButtons = (isOn) => {
    for (const button of question.querySelectorAll("[data-answering] button")) button.disabled = !isOn;
  };

  const refreshQuestion = async () => {
    if (!question) return;
    const fresh = (await fetched(`${place}/part${location.search}`)).body;
    const lost = fresh.querySelector("[data-lost]"); // a person who may not see it any more
    if (lost) {
      lost.className = "note warn";
      lost.role = "alert";
      question.querySelector("[data-gone]").replaceChildren(lost);
      return setButtons(false);
    }
    for (const part of ["[data-gone]", "[data-facts]", "[data-story]", "[data-comments]"]) {
      const now = fresh.querySelector(part);
      if (now) replaceContent(question.querySelector(part), now);
    }
    const news = question.querySelector("[data-gone]").firstElementChild;
    if (news && !news.matches("[data-unsure]")) for (const old of question.querySelectorAll(".decide > [data-sent], .decide > .note.bad")) old.remove();
    if (news?.matches("[data-closed]")) setButtons(false);
    else setAnswering(fresh.querySelector("[data-answering]"));
  };

  const refreshClosed = async () => {
    if (!closed) return;
    const fresh = await fetched(place + location.search);
    for (const part of ["[data-next]", "[data-comments]"]) {
      const now = fresh.querySelector(part);
      if (now) replaceContent(closed.querySelector(part), now);
    }
  };

  // What is typed outlasts a session that has expired, a network that was gone and the way back: it stays in this tab
  // until the form is taken. Passwords, files and what the server keeps in hidden fields are left out.
  const owner = document.body.dataset.user;
  const draftKey = (form) => `draft ${form.getAttribute("action").split("?")[0]}`;
  const fieldsOf = (form) =>
    [...form.elements].filter((field) => field.name && field.matches("input:not([type=hidden], [type=password], [type=file]), textarea, select"));
  const keepDraft = (form) => {
    const values = fieldsOf(form).map((field) => [field.name, field.type, field.value, field.checked ?? null]);
    sessionStorage.setItem(draftKey(form), JSON.stringify({ owner, values }));
  };

  const takeDraft = (form) => {
    const draft = JSON.parse(sessionStorage.getItem(draftKey(form)) || "null");
    if (!draft || draft.owner !== owner) return;
    const fields = fieldsOf(form);
    const isSame = fields.length === draft.values.length && fields.every((field, n) => field.name === draft.values[n][0]);
    if (!isSame) return;
    fields.forEach((field, n) => {
      const [, type, value, checked] = draft.values[n];
      if (/^(checkbox|radio)$/.test(type)) { if (field.value === value) field.checked = checked; } else field.value = value;
    });
    for (const field of fields) if (!/^(checkbox|radio)$/.test(field.type) && field.value) field.closest("details")?.setAttribute("open", "");
  };

  // What is selected, too, outlasts a look at one of the questions.
  const boxes = () => [...(list?.querySelectorAll(".questions input") || [])];
  list?.addEventListener("change", (event) => {
    if (!boxes().includes(event.target)) return;
    const values = boxes().filter((box) => box.checked).map((box) => box.value);
    sessionStorage.setItem("draft selection", JSON.stringify({ owner, values }));
  });
  const takeSelection = () => {
    const { values } = JSON.parse(sessionStorage.getItem("draft selection") || '{"values": []}');
    for (const box of boxes()) box.checked = values.includes(box.value);
  };

  const dropDrafts = (isKept) => {
    for (const key of Object.keys(sessionStorage)) if (key.startsWith("draft ") && !isKept(key)) sessionStorage.removeItem(key);
  };

  if (owner) {
    dropDrafts((key) => JSON.parse(sessionStorage.getItem(key)).owner === owner);
    takeSelection();
    if (closed) sessionStorage.removeItem(`draft ${place}`);
    if (place.startsWith("/runs/")) dropDrafts((key) => !key.startsWith("draft /start/"));
    for (const form of document.querySelectorAll("form[data-draft]")) {
      if (sentTo === form.getAttribute("action").split("?")[0]) keepDraft(form); // what came back with the page
      else takeDraft(form);
    }
    for (const name of ["input", "change"]) {
      addEventListener(name, (event) => { if (event.target.form?.matches("[data-draft]")) keepDraft(event.target.form); });
    }
    document.querySelector("form[action='/sign-out']")?.addEventListener("submit", () => dropDrafts(() => false));
  }

  // After an item was added to a list of a form: to its first field. After one was removed: to the button that adds one.
  const changed = JSON.parse(sessionStorage.getItem("changed") || "null");
  sessionStorage.removeItem("changed");
  const changedList = changed && document.getElementById(changed.list);
  if (changedList && !refused) {
    const items = changedList.querySelectorAll(":scope > .item");
    const added = changed.isAdded && items[items.length - 1]?.querySelector("input:not([type=hidden]), textarea, select");
    (added || changedList.querySelector(":scope > p > button")).focus();
  }
  addEventListener("submit", (event) => {
    if (event.submitter?.name !== "change") return;
    const list = event.submitter.closest("fieldset").id;
    sessionStorage.setItem("changed", JSON.stringify({ list, isAdded: event.submitter.value.startsWith("add:") }));
  });

  // Own words are chosen by writing them: a radio that is on cannot be put off in another way.
  addEventListener("input", (event) => {
    const ownChoice = event.target.id === "own" && event.target.value.trim() && document.querySelector("[data-own]");
    if (ownChoice) ownChoice.checked = true;
  });

  // Without a connection the browser would show an error of its own in place of the form.
  const cut = document.getElementById("cut");
  addEventListener("submit", (event) => {
    const { target: form, submitter } = event;
    const isReached = form.dataset.reached;
    delete form.dataset.reached;
    if (form.method !== "post" || isReached || (navigator.onLine && document.documentElement.dataset.live !== "off")) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    const goOn = () => { form.dataset.reached = "yes"; form.requestSubmit(submitter); };
    fetch("/healthz", { cache: "no-store" }).then(goOn, () => { cut.textContent = cut.dataset.unsent; cut.dataset.keeps = "yes"; });
  });

  // A form that is on its way is not sent a second time by a double click. After a while, and when the page is shown
  // again, it may be: the server takes the same answer once, by its key.
  addEventListener("submit", (event) => {
    const form = event.target;
    if (form.method !== "post") return;
    if (form.dataset.sent) event.preventDefault();
    form.dataset.sent = "yes";
    setTimeout(() => delete form.dataset.sent, 3000);
  });
  addEventListener("pageshow", () => { for (const form of document.forms) delete form.dataset.sent; });

  // One refresh at a time; news that come meanwhile make one more.
  const serial = (refresh) => {
    let running = false;
    let again = false;
    return async () => {
      again = true;
      if (running) return;
      running = true;
      while (again) {
        again = false;
        try { await refresh(); } catch { /* the next news try again */ }
      }
      running = false;
    };
  };

  if (list || question || closed) {
    const run = question?.dataset.question || closed?.dataset.run; // none of a run that has ended
    // What no worker has told is looked at again as soon as one does, though it may not have changed.
    const seen = question?.querySelector("[data-unsure]") ? "&seen=" : "";
    const own = run ? `/live?run=${encodeURIComponent(run)}${seen}` : "/live";
    // Who came by a link sees this page alone, and hears of its run there.
    const isLink = "link" in document.body.dataset;
    const news = new EventSource(isLink ? `${place}/live` : own);
    const onQuestions = serial(refreshList);
    const onRun = serial(async () => { await refreshQuestion(); await refreshClosed(); });
    let wasCut = false;
    news.addEventListener("open", () => {
      document.documentElement.dataset.live = "on";
      cut.replaceChildren();
      delete cut.dataset.keeps;
      if (wasCut) { onQuestions(); onRun(); }
    });
    // A browser gives up when the server refuses, as after the end of a session, and tries again when it is not there.
    news.addEventListener("error", () => {
      wasCut = true;
      document.documentElement.dataset.live = "off";
      if (cut.dataset.keeps) return; // that nothing was sent, until the server is there again
      cut.textContent = news.readyState === EventSource.CLOSED ? cut.dataset.refused : cut.dataset.lost;
    });
    news.addEventListener("questions", () => { onQuestions(); onRun(); });
    news.addEventListener("run", (event) => {
      if (isLink && JSON.parse(event.data).ended) news.close(); // there is nothing else to hear of
      onRun();
    });
    addEventListener("pagehide", () => news.close());
  }
})();
