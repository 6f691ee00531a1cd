// The ports in kafkajs's testHelpers become those of the cluster when jest loads the file.
const named = [[9092, 9093, 9094], [9095, 9096, 9097], [9098, 9099, 9100]].flat()
const ports = JSON.parse(process.env.PORTS).flat()

module.exports = {
  process: source => named.reduce((text, port, i) => text.replace(new RegExp(`\\b${port}\\b`, 'g'), ports[i]), source),
  getCacheKey: (source, path) => `${path} ${ports} ${source}`,
}
