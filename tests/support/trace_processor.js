// Runs Perfetto's trace processor in node: the WebAssembly that its web page loads, with what it expects of a browser.
// Requests come by standard input and answers go to standard output, as bytes of its protocol (TraceProcessorRpcStream).
// The argument is the folder with engine_bundle.js and trace_processor.wasm.
"use strict";
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const folder = process.argv[2];
const waiting = [];
let ready = false;
const port = { postMessage: writeAll }; // the bundle sets its onmessage

function writeAll(bytes) {
  for (let at = 0; at < bytes.length;) {
    try {
      at += fs.writeSync(1, bytes, at);
    } catch (error) {
      if (error.code !== "EAGAIN") throw error;
    }
  }
}

function deliver(bytes) {
  if (ready) port.onmessage({ data: bytes });
  else waiting.push(bytes);
}

// The bundle does not tell when it takes requests: once this function has returned.
function withNotice(exports) {
  if (!exports.trace_processor_rpc_init) return exports;
  const init = exports.trace_processor_rpc_init;
  return {
    ...exports,
    trace_processor_rpc_init: (...given) => {
      const buffer = init(...given);
      setImmediate(() => {
        ready = true;
        waiting.splice(0).forEach(deliver);
      });
      return buffer;
    },
  };
}

// The page fetches the module synchronously, and instantiates it so.
class Request {
  open(method, url) {
    this.path = path.join(folder, path.basename(String(url)));
  }

  send() {
    this.response = fs.readFileSync(this.path);
  }
}

class Instance {
  constructor(module, imports) {
    this.exports = withNotice(new WebAssembly.Instance(module, imports).exports);
  }
}

const stderr = (...words) => console.error(...words);
const location = { href: "http://localhost/engine_bundle.js" };
const worker = { location };
vm.runInNewContext(fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8"), {
  self: worker, location, console: { log: stderr, warn: stderr, error: stderr }, XMLHttpRequest: Request,
  WorkerGlobalScope: Object, WebAssembly: { Module: WebAssembly.Module, RuntimeError: WebAssembly.RuntimeError, Instance },
  TypeError, Uint8Array, setTimeout, clearTimeout, performance, crypto, TextDecoder, TextEncoder, URL,
});
worker.onmessage({ data: port });
process.stdin.on("data", (bytes) => deliver(new Uint8Array(bytes)));
process.stdin.on("end", () => process.exit(0));
