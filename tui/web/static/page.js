// The page around the terminal: its socket's address, why a session ended, downloads, uploads, the screen reader.
//
// textual.js (of textual-serve) draws the terminal with xterm.js. It keeps its objects to itself and starts at `load`, so
// this file, which runs after it and before `load`, stands between: it holds the start back until the font is there, and
// hears what the socket brings first.
"use strict";

(() => {
  const FONT_MS_MAX = 1500;
  const startTerminal = window.onload;
  const at = (id) => document.getElementById(id);
  let session = "";
  let ended = null;

  window.onload = async (event) => {
    const base = (location.protocol === "https:" ? "wss://" : "ws://") + location.host;
    at("terminal").dataset.sessionWebsocketUrl = base + "/ws";
    forgetToken();
    await fontsAreThere();
    const options = startAndFindOptions(() => startTerminal.call(window, event));
    if (document.body.dataset.reader === "1" && options) options.screenReaderMode = true;
    at("terminal").addEventListener("keydown", letBrowserPaste, { capture: true });
    at("reload").onclick = () => location.reload();
    if (at("attach")) takeUploads();
  };

  // The cookie is set by now; an address with the token in it would stay in the history and in copied links.
  function forgetToken() {
    const address = new URL(location.href);
    if (!address.searchParams.has("token")) return;
    address.searchParams.delete("token");
    history.replaceState(null, "", address.pathname + address.search);
  }

  // xterm.js measures a letter once, when it opens: with another font in the meantime every column would be off.
  function fontsAreThere() {
    const name = "16px 'Roboto Mono'";
    const all = Promise.allSettled(["", "bold ", "italic "].map((style) => document.fonts.load(style + name)));
    return Promise.race([all, new Promise((done) => setTimeout(done, FONT_MS_MAX))]);
  }

  // xterm.js puts a property for each option on the object that changes them, and textual.js shows that to nobody.
  function startAndFindOptions(start) {
    const define = Object.defineProperty;
    let options = null;
    Object.defineProperty = (object, name, how) => {
      if (name === "screenReaderMode" && how.set) options = object;
      return define(object, name, how);
    };
    try {
      start();
    } finally {
      Object.defineProperty = define;
    }
    return options;
  }

  // ------------------------------------------------------------------------------------------------- the session

  window.WebSocket = class extends window.WebSocket {
    constructor(...how) {
      super(...how);
      this.addEventListener("message", (event) => hear(event));
      this.addEventListener("open", () => focusTerminal());
      this.addEventListener("close", () => showEnd());
    }

    // textual.js sends sizes and focus whether or not anybody is connected, which throws.
    send(data) {
      if (this.readyState === this.OPEN) super.send(data);
    }
  };

  function hear(event) {
    if (typeof event.data !== "string") return;
    const [kind, value] = JSON.parse(event.data);
    if (kind === "instance_id") session = value;
    if (kind === "ended") ended = value;
    if (kind === "deliver_file_start") {
      event.stopImmediatePropagation(); // textual.js would open a window, which browsers block
      download(value);
    }
  }

  function showEnd() {
    const why = ended ?? { reason: "The connection to yak ui is lost.", detail: "Is it still running? Then reload." };
    at("reason").textContent = why.reason;
    at("detail").textContent = why.detail;
    at("ended").hidden = false;
    at("starting").hidden = true;
    at("reload").focus();
  }

  function focusTerminal() {
    at("terminal").querySelector("textarea")?.focus();
  }

  // xterm.js would send Ctrl+V to the app, which does not know the browser's clipboard.
  function letBrowserPaste(event) {
    if (event.ctrlKey && !event.altKey && event.key.toLowerCase() === "v") event.stopPropagation();
  }

  function download(key) {
    const link = document.createElement("a");
    link.href = "/download/" + encodeURIComponent(key);
    link.download = "";
    link.click();
    say("the download has begun");
  }

  // -------------------------------------------------------------------------------------------------- the uploads

  function takeUploads() {
    at("attach").onclick = () => at("file").click();
    at("file").onchange = async () => {
      await uploadAll([...at("file").files]);
      at("file").value = "";
    };
    let inside = 0;
    const drags = (event) => event.dataTransfer?.types.includes("Files");
    const show = (change) => {
      inside = Math.max(0, inside + change);
      at("drop").hidden = inside === 0;
    };
    window.addEventListener("dragenter", (event) => drags(event) && show(1));
    window.addEventListener("dragleave", (event) => drags(event) && show(-1));
    window.addEventListener("dragover", (event) => drags(event) && event.preventDefault());
    window.addEventListener("drop", (event) => {
      if (!drags(event)) return;
      event.preventDefault();
      show(-inside);
      uploadAll([...event.dataTransfer.files]);
    });
  }

  async function uploadAll(files) {
    for (const file of files) {
      try {
        const kept = await upload(file);
        say(`${kept.name} is uploaded (${size(kept.bytes)}): choose it in the Producer (key f)`);
      } catch (error) {
        say(`${file.name} is not uploaded: ${error.message}`);
      }
    }
    focusTerminal();
  }

  // Not fetch: it cannot say how much has been sent.
  function upload(file) {
    return new Promise((done, fail) => {
      const request = new XMLHttpRequest();
      const where = new URLSearchParams({ name: file.name, session });
      request.open("POST", "/upload?" + where);
      request.responseType = "json";
      request.upload.onprogress = (event) =>
        say(`uploading ${file.name}: ${size(event.loaded)} of ${size(file.size)} sent`);
      request.onload = () => {
        if (request.status === 201) done(request.response);
        else fail(new Error(request.response?.message ?? `the server answered ${request.status}`));
      };
      request.onerror = () => fail(new Error("the connection broke; a file that is too large is cut off so"));
      request.send(file);
    });
  }

  function size(bytes) {
    if (bytes < 1024) return bytes + " B";
    return bytes < 1024 * 1024 ? (bytes / 1024).toFixed(1) + " KiB" : (bytes / 1024 / 1024).toFixed(1) + " MiB";
  }

  function say(text) {
    at("said").textContent = text;
  }
})();
