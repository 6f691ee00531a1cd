// kafkajs's own configuration of jest, and the ports of the cluster in its testHelpers.
const rootDir = process.cwd()

module.exports = {
  ...require(`${rootDir}/jest.config.js`),
  rootDir,
  reporters: ['default'],
  transform: { '(testHelpers/index|createAcls\\.spec|connect\\.spec|scram\\.spec)\\.js$': `${__dirname}/ports.js`, '\\.js$': 'babel-jest' },
}
