const untranspiled = [
  '@jupyterlab/',
  '@jupyter/',
  '@microsoft/',
  'exenv-es6/',
  'lib0',
  'nanoid',
  'y-protocols',
  'yjs',
  'uplot'
];

module.exports = {
  testEnvironment: '<rootDir>/jest.environment.js',
  testTimeout: 30000,
  testRegex: 'src/__tests__/.*\\.spec\\.tsx?$',
  moduleFileExtensions: ['ts', 'tsx', 'js', 'jsx', 'mjs', 'json'],
  moduleNameMapper: { '\\.css$': 'identity-obj-proxy' },
  transform: { '^.+\\.(tsx?|jsx?|mjs)$': 'babel-jest', '\\.svg$': '<rootDir>/jest.svg.js' },
  transformIgnorePatterns: [`/node_modules/(?!(${untranspiled.join('|')})).+`]
};
