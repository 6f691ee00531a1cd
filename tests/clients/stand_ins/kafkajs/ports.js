// The plaintext ports in kafkajs's testHelpers become those of the cluster when jest loads the file.
const ports = process.env.BOOTSTRAP.split(',').map(address => address.split(':')[1])

module.exports = {
  process: source => [9092, 9095, 9098].reduce((text, port, i) => text.replace(new RegExp(`\\b${port}\\b`, 'g'), ports[i]), source),
  getCacheKey: (source, path) => `${path} ${ports} ${source}`,
}
