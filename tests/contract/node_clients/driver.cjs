// Calls methods of a client library against the sandbox gateway. Each line of standard input is a call
// {"method": "transaction.verify", "params": {...}}, and each line of standard output is its result.
'use strict'

const http = require('http')
const https = require('https')
const readline = require('readline')

const [library, gatewayUrl, secretKey] = process.argv.slice(2)

// The vendor's SDK has no option for another address, so its requests are redirected.
function redirectHttps () {
  const gateway = new URL(gatewayUrl)
  https.request = (address, options, callback) =>
    http.request({ ...options, host: gateway.hostname, port: gateway.port, path: gateway.pathname + options.path }, callback)
}

const clients = {
  'paystack-node': () => {
    const PayStack = require('paystack-node')
    const client = new PayStack(secretKey, 'production')
    client.mergeNewOptions({ baseUrl: gatewayUrl, retry: 0 })
    return async (method, params) => (await client[method](params)).body
  },
  '@paystack/paystack-sdk': () => {
    redirectHttps()
    const { Paystack } = require('@paystack/paystack-sdk')
    const client = new Paystack(secretKey)
    return (method, params) => {
      const [resource, name] = method.split('.')
      return client[resource][name](params)
    }
  }
}

const call = clients[library]()
const revived = (_, value) => (value !== null && typeof value === 'object' && '$date' in value ? new Date(value.$date) : value)

async function main () {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const { method, params } = JSON.parse(line, revived)
    let result
    try {
      result = { answer: await call(method, params) }
    } catch (error) {
      result = { error: String(error) }
    }
    process.stdout.write(JSON.stringify(result) + '\n')
  }
}

main()
