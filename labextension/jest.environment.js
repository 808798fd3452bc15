const { TestEnvironment } = require('jest-environment-jsdom');

/** jsdom with the parts of a browser that it lacks and Node has. */
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
    this.global.DragEvent ??= class DragEvent {}; // @lumino/dragdrop wants it to exist
  }
};
