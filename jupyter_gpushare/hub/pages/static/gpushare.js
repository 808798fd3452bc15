/*
 * Keeps an open page of the service up to date. Everything on the pages is there without it, as it was when the page was
 * opened, and every form works.
 *
 * Messages of the WebSocket: {"fragments": {id: html}} is the HTML inside the element of each id; {"go": url} leaves the
 * page. What somebody is typing in is not taken away from them, what they have opened stays open, and the keyboard stays
 * where it is.
 */
"use strict";

(() => {
  const FIRST_RETRY_MS = 1000;
  const LONGEST_RETRY_MS = 30000;
  /** The service closed the connection and says why; asking again at once is no use. */
  const POLICY = 1008;
  const TYPED_IN = "input:not([type=hidden]), textarea, select";

  const main = document.getElementById("gpushare-main");
  if (!main) {
    return;
  }
  const waiting = new Map();
  let retryMs = FIRST_RETRY_MS;
  let isLeaving = false;

  const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
  const dayAndClock = new Intl.DateTimeFormat(undefined, {
    day: "numeric",
    month: "short",
    hour: "2-digit",
    minute: "2-digit",
  });

  /** Times are sent in UTC; people read their own. */
  function localise(root) {
    const today = new Date().toDateString();
    for (const element of root.querySelectorAll("time[datetime]")) {
      const moment = new Date(element.dateTime);
      if (!Number.isNaN(moment.getTime())) {
        element.title = moment.toString();
        element.textContent = (moment.toDateString() === today ? clock : dayAndClock).format(moment);
      }
    }
  }

  /** Sends forms that are there to be sent as soon as they are shown. */
  function sendForms(root) {
    const form = root.querySelector("form[data-gs-send=once]");
    if (form && !isLeaving) {
      isLeaving = true;
      form.requestSubmit();
    }
  }

  function say(text) {
    const said = document.getElementById("gpushare-said");
    if (said && said.textContent !== text) {
      said.textContent = text;
    }
  }

  /** Tells who cannot see it that their place in line is another one, and names the page after what it says. */
  function announce(root) {
    const head = root.querySelector("[data-title]");
    if (!head) {
      return;
    }
    const place = root.querySelector(".gs-place");
    say([head.dataset.title, place ? place.textContent : ""].filter(Boolean).join(": "));
    document.title = place ? `${place.textContent} – ${head.dataset.title}` : head.dataset.title;
  }

  /** Whether somebody is typing in it. */
  function isTypedIn(element) {
    const active = document.activeElement;
    if (active && element.contains(active) && active.matches(TYPED_IN)) {
      return true;
    }
    return [...element.querySelectorAll(TYPED_IN)].some((field) =>
      field.type === "checkbox" ? field.checked !== field.defaultChecked : isChanged(field),
    );
  }

  function isChanged(field) {
    if (field.tagName === "SELECT") {
      const first = [...field.options].findIndex((option) => option.defaultSelected);
      return field.selectedIndex !== Math.max(0, first);
    }
    return field.value !== field.defaultValue;
  }

  /** How to find an element again after it was written anew. */
  function pathTo(element, root) {
    const kind = element.tagName;
    const same = [...root.querySelectorAll(kind)];
    return { kind, place: same.indexOf(element), text: element.textContent, value: element.value };
  }

  function focusAgain(root, path) {
    const same = [...root.querySelectorAll(path.kind)];
    const found =
      same.find((element) => element.textContent === path.text && element.value === path.value) ?? same[path.place];
    found?.focus({ preventScroll: true });
  }

  function write(element, html) {
    const active = document.activeElement;
    const path = active && active !== element && element.contains(active) ? pathTo(active, element) : null;
    const open = new Set([...element.querySelectorAll("details[open][id]")].map((details) => details.id));
    const closed = new Set([...element.querySelectorAll("details[id]:not([open])")].map((details) => details.id));
    element.innerHTML = html;
    for (const details of element.querySelectorAll("details[id]")) {
      if (open.has(details.id)) {
        details.open = true;
      } else if (closed.has(details.id)) {
        details.open = false;
      }
    }
    prepare(element);
    if (path) {
      focusAgain(element, path);
    }
  }

  function prepare(root) {
    localise(root);
    announce(root);
    sendForms(root);
  }

  function show(id, html) {
    const element = document.getElementById(id);
    if (!element) {
      return;
    }
    if (isTypedIn(element)) {
      waiting.set(id, html);
      return;
    }
    waiting.delete(id);
    write(element, html);
  }

  function showWhatWaits() {
    for (const [id, html] of [...waiting]) {
      show(id, html);
    }
  }

  function setLive(isLive, why) {
    document.documentElement.dataset.gpushareLive = isLive ? "yes" : "no";
    for (const mark of document.querySelectorAll(".gs-live")) {
      mark.textContent = isLive ? " · live" : " · not live, trying again";
    }
    if (why) {
      say(why);
    }
  }

  function address() {
    const path = window.location.pathname;
    const prefix = main.dataset.live;
    // The page's own address below the service's prefix, so that it is asked for as the page was.
    const page = path.startsWith(prefix) && path.length > prefix.length ? path.slice(prefix.length) : main.dataset.page;
    const url = new URL(`${prefix}live/${page}${window.location.search}`, window.location.href);
    url.searchParams.set("_xsrf", main.dataset.xsrf);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    return url;
  }

  function listen() {
    const socket = new WebSocket(address());
    socket.addEventListener("open", () => {
      retryMs = FIRST_RETRY_MS;
      setLive(true);
    });
    socket.addEventListener("message", (event) => {
      const message = JSON.parse(event.data);
      if (message.go) {
        isLeaving = true;
        window.location.assign(message.go);
        return;
      }
      for (const [id, html] of Object.entries(message.fragments ?? {})) {
        show(id, html);
      }
      if (message.fragments?.subline || message.fragments?.["gpushare-main"]) {
        setLive(true);
      }
    });
    socket.addEventListener("close", (event) => {
      if (isLeaving) {
        return;
      }
      setLive(false, event.code === POLICY ? event.reason : "");
      // All browsers come back after a restart, and not all at once.
      const wait = event.code === POLICY ? LONGEST_RETRY_MS : retryMs * (0.5 + Math.random());
      retryMs = Math.min(LONGEST_RETRY_MS, retryMs * 2);
      window.setTimeout(listen, wait);
    });
  }

  window.addEventListener("pagehide", () => {
    isLeaving = true;
  });
  window.addEventListener("pageshow", (event) => {
    // Back from another page: what was kept is old.
    if (event.persisted) {
      window.location.reload();
    }
  });
  document.addEventListener("focusout", () => window.setTimeout(showWhatWaits));

  prepare(main);
  if (main.dataset.live) {
    listen();
  } else {
    for (const mark of document.querySelectorAll(".gs-live")) {
      mark.remove();
    }
  }
})();
