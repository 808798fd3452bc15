/** An SVG file becomes its text, as the builder does it. */
module.exports = {
  process: source => ({ code: `module.exports = ${JSON.stringify(source)};` })
};
