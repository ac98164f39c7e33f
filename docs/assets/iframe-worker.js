// SPDX-License-Identifier: Apache-2.0
// Browsers start no worker for a page that was opened as a file. The search then runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inside = frame.contentWindow;
      const load = (source) => new Promise((resolve, reject) => {
        const script = frame.contentDocument.createElement("script");
        script.src = new URL(source, document.baseURI);
        script.onload = resolve;
        script.onerror = reject;
        frame.contentDocument.body.append(script);
      });
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.inside.importScripts = async (...sources) => { for (const source of sources) await load(source); };
      this.loaded = load(url);
      this.frame = frame;
    }
    postMessage(data) {
      this.loaded.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
