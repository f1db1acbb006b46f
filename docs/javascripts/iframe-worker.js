// The search runs in a worker, and browsers start none where pages are opened from disk: there, a hidden frame is one.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.worker = this;
      this.frame = frame;
      this.ready = new Promise((resolve) => frame.addEventListener("load", resolve));
      frame.srcdoc =
        "<script>postMessage = (data) => frameElement.worker.dispatchEvent(new MessageEvent('message', { data }))</script>" +
        `<script src="${url}"></script>`;
      document.body.append(frame);
    }

    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
