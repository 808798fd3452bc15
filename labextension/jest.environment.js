const { TestEnvironment } = require('jest-environment-jsdom');

/** jsdom with the parts of a browser that it lacks. */
module.exports = class BrowserEnvironment extends TestEnvironment {
  async setup() {
    await super.setup();
    Object.assign(this.global, {
      fetch,
      Headers,
      Request,
      Response,
      TextEncoder,
      TextDecoder,
      structuredClone
    });
    this.global.matchMedia ??= () => ({ matches: false, addEventListener() {}, addListener() {} });
    this.global.requestIdleCallback ??= callback => this.global.setTimeout(callback);
    this.global.DOMRect ??= class DOMRect {
      left = 0;
      bottom = 0;
    };
    this.global.DragEvent ??= class DragEvent {}; // @lumino/dragdrop wants it to exist
  }
};
