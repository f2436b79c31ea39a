// The search of the theme runs in a worker, which browsers do not start for pages opened from disk. There an iframe
// does the same work; over http nothing is replaced.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inner = frame.contentWindow;
      window.addEventListener("message", (event) => {
        if (event.source !== this.inner) return;
        const message = new MessageEvent("message", { data: event.data });
        this.dispatchEvent(message);
        this.onmessage?.(message);
      });
      const before = `postMessage = (data) => parent.postMessage(data, "*");
        importScripts = (...urls) => urls.reduce((loaded, url) => loaded.then(() => new Promise((resolve, reject) => {
          const script = document.createElement("script");
          Object.assign(script, { src: url, onload: resolve, onerror: reject });
          document.body.append(script);
        })), Promise.resolve());`;
      this.ready = new Promise((resolve) => frame.addEventListener("load", resolve));
      this.inner.document.open();
      this.inner.document.write(`<body><script>${before}<\/script><script src="${url}"><\/script></body>`);
      this.inner.document.close();
    }
    postMessage(data) {
      this.ready.then(() => this.inner.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {}
  };
}
