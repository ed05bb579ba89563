/**
 * A whole purchase with the client that @hey-api/openapi-ts makes of the OpenAPI document.
 *
 * `make clients` generates the client, compiles this module strictly, and runs `purchase.js API GATEWAY BUYER_TOKEN
 * VENDOR_TOKEN`. The module has no cast. A buyer pays at the sandbox gateway in a browser, so only this request is sent
 * without the client.
 */

import { strict as assert } from 'node:assert';
import { randomUUID } from 'node:crypto';

import { createClient } from './client/client/index.js';
import {
  acceptOrder,
  getOrder,
  getProduct,
  initializePayment,
  listOrderEvents,
  listProducts,
  listTransactions,
  placeOrder,
  synchroniseCart,
  updateOrderStatus,
  verifyDeliveryPin,
  verifyPayment,
  type ProductCard,
} from './client/index.js';

const STORE = 'ngozi-books-gadgets';
const [api = '', gateway = '', buyerToken = '', vendorToken = ''] = process.argv.slice(2);
const visitor = createClient({ baseUrl: api });
const buyer = createClient({ baseUrl: api, auth: buyerToken });
const vendor = createClient({ baseUrl: api, auth: vendorToken });
const throwOnError = true;

async function findProduct(): Promise<ProductCard> {
  let cursor: string | undefined;
  do {
    const page = await listProducts({
      client: visitor,
      query: { inStock: true, limit: 100, ...(cursor && { cursor }) },
      throwOnError,
    });
    const found = page.data.data.find((product) => product.vendor.slug === STORE);
    if (found) {
      return found;
    }
    cursor = page.data.meta.next_cursor ?? undefined;
  } while (cursor);
  throw new Error('the store offers no product');
}

const { id: productId, priceMinor } = await findProduct();
const product = (await getProduct({ client: visitor, path: { productId }, throwOnError })).data.data;
assert.equal(product.priceMinor, priceMinor);

const items = [{ productId, quantity: 1 }];
const cart = (await synchroniseCart({ client: buyer, body: { items }, throwOnError })).data.data;
assert.deepEqual([cart.valid, cart.itemCount], [true, 1]);

const placed = (
  await placeOrder({
    client: buyer,
    headers: { 'Idempotency-Key': randomUUID() },
    body: { items, shippingAddress: { hostel: 'Moremi Hall', roomNumber: 'B204' } },
    throwOnError,
  })
).data.data;
assert.equal(placed.status, 'pending_payment');
assert(placed.nextActions.includes('pay'));
const path = { orderId: placed.id };

const page = (
  await initializePayment({
    client: buyer,
    headers: { 'Idempotency-Key': randomUUID() },
    body: path,
    throwOnError,
  })
).data.data;
assert.equal(page.amountMinor, placed.total_amount);
assert((await fetch(`${gateway}/sandbox/pay/${page.reference}`, { method: 'POST' })).ok);
const body = { reference: page.reference };
const payment = (await verifyPayment({ client: buyer, body, throwOnError })).data.data;
assert.equal(payment.status, 'succeeded');
const paid = (await getOrder({ client: buyer, path, throwOnError })).data.data;
assert.deepEqual([paid.status, paid.escrowStatus], ['paid_escrow', 'held']);
const pin = paid.deliveryPin;
assert(pin);

const accepted = (await acceptOrder({ client: vendor, path, throwOnError })).data.data;
assert.equal(accepted.status, 'processing');
const shipped = (
  await updateOrderStatus({
    client: vendor,
    path,
    body: { status: 'shipped', trackingNote: 'With our rider' },
    throwOnError,
  })
).data.data;
assert.deepEqual([shipped.status, shipped.deliveryPin], ['shipped', null]);

const wrong = String((Number(pin) + 1) % 1_000_000).padStart(6, '0');
const { error } = await verifyDeliveryPin({ client: vendor, path, body: { pin: wrong } });
assert(error);
assert.deepEqual([error.status, error.code], [400, 'DELIVERY_PIN_INVALID']);
const delivered = (await verifyDeliveryPin({ client: vendor, path, body: { pin }, throwOnError })).data.data;
assert.deepEqual([delivered.status, delivered.escrowStatus], ['delivered', 'released']);

const events = (await listOrderEvents({ client: buyer, path, throwOnError })).data.data;
assert.equal(events.at(-1)?.to, 'delivered');
const income = await listTransactions({ client: vendor, query: { orderId: placed.id }, throwOnError });
assert(income.data.data.length > 0);
console.log(`bought ${product.title} in order ${placed.number}`);
