/** The shop: 20 services, what each of them answers, and whom they call for it. */

/** One step of what an endpoint does; each is taken by a share of the requests. */
export type Step =
  /** Asks another service, over HTTP or gRPC. */
  | { readonly call: string; readonly share?: number }
  /** Asks a database; `text` is the statement. */
  | {
      readonly query: string;
      readonly table: string;
      readonly system: Database;
      readonly ms: number;
      readonly share?: number;
    }
  /** Computes something that has a span of its own. */
  | { readonly work: string; readonly ms: number; readonly share?: number }
  /** Sends a message, which an endpoint of another service takes. */
  | { readonly publish: string; readonly topic: string; readonly share?: number };

/** Databases by `db.system.name`. */
type Database = "postgresql" | "redis" | "opensearch";

/** Something a service answers to. */
export interface Endpoint {
  readonly service: string;
  /** Method and route of HTTP, service and method of gRPC, or the topic of a message. */
  readonly name: string;
  readonly protocol: "http" | "rpc" | "messaging";
  /** Milliseconds of its own, at the median. */
  readonly ms: number;
  readonly steps: readonly Step[];
  /** What it logs when it is done, with blanks that traces.ts fills. */
  readonly says: string;
}

/** A service: language of its SDK and its usual version. */
export interface Service {
  readonly name: string;
  readonly language: string;
  readonly version: string;
}

const service = (name: string, language: string, version: string): Service => ({ name, language, version });

/** All services, in the order of their numbers. */
export const services: readonly Service[] = [
  service("gateway", "go", "3.2.0"),
  service("frontend", "nodejs", "5.11.2"),
  service("catalogue", "java", "1.20.4"),
  service("search", "java", "2.8.1"),
  service("recommendation", "python", "0.14.0"),
  service("pricing", "go", "1.7.3"),
  service("currency", "cpp", "1.1.0"),
  service("inventory", "java", "4.0.2"),
  service("reviews", "python", "1.3.9"),
  service("cart", "dotnet", "2.5.0"),
  service("checkout", "go", "6.1.1"),
  service("payment", "nodejs", "2.3.1"),
  service("fraud", "python", "0.9.2"),
  service("tax", "go", "1.0.5"),
  service("shipping", "rust", "1.4.4"),
  service("orders", "java", "3.3.0"),
  service("users", "ruby", "2.0.7"),
  service("auth", "go", "1.9.0"),
  service("email", "ruby", "1.2.2"),
  service("notifications", "nodejs", "0.8.6"),
];

const sql = (table: string, query: string, ms: number, share = 1): Step => ({
  query,
  table,
  system: "postgresql",
  ms,
  share,
});
const redis = (table: string, query: string, share = 1): Step => ({ query, table, system: "redis", ms: 0.6, share });
const http = (of: string, name: string, ms: number, says: string, steps: readonly Step[] = []): Endpoint => ({
  service: of,
  name,
  protocol: "http",
  ms,
  says,
  steps,
});
const rpc = (of: string, name: string, ms: number, says: string, steps: readonly Step[] = []): Endpoint => ({
  ...http(of, name, ms, says, steps),
  protocol: "rpc",
});
const takes = (of: string, name: string, ms: number, says: string, steps: readonly Step[] = []): Endpoint => ({
  ...http(of, name, ms, says, steps),
  protocol: "messaging",
});

const productQuery = "SELECT id, name, price_cents FROM products WHERE id = $1";

/** All endpoints. */
export const endpoints: readonly Endpoint[] = [
  http("gateway", "GET /", 1, "GET / {status} in {ms} ms", [
    { call: "auth shop.Auth/Verify" },
    { call: "frontend GET /" },
  ]),
  http("gateway", "GET /products/{id}", 1, "GET /products/{number} {status} in {ms} ms", [
    { call: "frontend GET /products/{id}" },
  ]),
  http("gateway", "GET /search", 1, 'GET /search?q="{word}" {status} in {ms} ms', [{ call: "frontend GET /search" }]),
  http("gateway", "POST /cart", 1, "POST /cart {status} in {ms} ms", [
    { call: "auth shop.Auth/Verify" },
    { call: "frontend POST /cart" },
  ]),
  http("gateway", "POST /checkout", 1, "POST /checkout {status} in {ms} ms", [
    { call: "auth shop.Auth/Verify" },
    { call: "frontend POST /checkout" },
  ]),
  http("gateway", "POST /login", 1, "POST /login {status} in {ms} ms", [{ call: "auth shop.Auth/Login" }]),
  http("frontend", "GET /", 9, "rendered the home page in {ms} ms", [
    { call: "catalogue GET /products" },
    { call: "recommendation shop.Recommendation/List" },
    { work: "render", ms: 4 },
  ]),
  http("frontend", "GET /products/{id}", 7, "rendered product {number} in {ms} ms", [
    { call: "catalogue GET /products/{id}" },
    { call: "pricing shop.Pricing/Quote" },
    { call: "inventory GET /stock/{id}" },
    { call: "reviews GET /reviews/{id}" },
    { call: "recommendation shop.Recommendation/List", share: 0.7 },
    { work: "render", ms: 3 },
  ]),
  http("frontend", "GET /search", 6, 'searched for "{word}": {count} hits', [
    { call: "search GET /search" },
    { call: "pricing shop.Pricing/Quote" },
    { work: "render", ms: 3 },
  ]),
  http("frontend", "POST /cart", 5, "user {user} has {count} items in the cart", [
    { call: "cart shop.Cart/Add" },
    { call: "inventory GET /stock/{id}" },
  ]),
  http("frontend", "POST /checkout", 8, "checkout of cart {uuid} took {ms} ms", [
    { call: "checkout shop.Checkout/Place" },
    { work: "render", ms: 3 },
  ]),
  http("catalogue", "GET /products", 4, "listed {count} products", [
    redis("products", "GET page:?", 0.9),
    sql("products", "SELECT id, name FROM products ORDER BY rank LIMIT $1", 9, 0.2),
  ]),
  http("catalogue", "GET /products/{id}", 3, "product {number} found", [
    redis("products", "GET product:?", 1),
    sql("products", productQuery, 3, 0.3),
  ]),
  http("search", "GET /search", 12, 'query "{word}" matched {count} of {number} documents', [
    { query: "POST /products/_search", table: "products", system: "opensearch", ms: 25 },
    { work: "rank", ms: 6 },
  ]),
  rpc("recommendation", "shop.Recommendation/List", 8, "recommended {count} products to {user}", [
    redis("vectors", "MGET vector:?"),
    { work: "score", ms: 9 },
    { call: "catalogue GET /products/{id}", share: 0.5 },
  ]),
  rpc("pricing", "shop.Pricing/Quote", 2, "quoted {number} cents for product {number}", [
    redis("prices", "GET price:?"),
    sql("prices", "SELECT cents, currency FROM prices WHERE product_id = $1 AND valid_from <= $2", 2, 0.2),
    { call: "currency shop.Currency/Convert", share: 0.4 },
  ]),
  rpc("currency", "shop.Currency/Convert", 0.5, "converted {number} EUR"),
  http("inventory", "GET /stock/{id}", 2, "{count} of product {number} in stock", [
    sql("stock", "SELECT sum(amount) FROM stock WHERE product_id = $1", 3),
  ]),
  http("inventory", "POST /reservations", 4, "reserved {count} items as {uuid}", [
    sql("stock", "UPDATE stock SET amount = amount - $1 WHERE product_id = $2", 6),
    sql("reservations", "INSERT INTO reservations (id, product_id, amount) VALUES ($1, $2, $3)", 4),
  ]),
  http("reviews", "GET /reviews/{id}", 4, "{count} reviews of product {number}", [
    redis("reviews", "GET reviews:?", 0.8),
    sql("reviews", "SELECT stars, text FROM reviews WHERE product_id = $1 ORDER BY time DESC LIMIT 20", 11, 0.3),
  ]),
  rpc("cart", "shop.Cart/Add", 2, "added {count} of product {number} to cart {uuid}", [
    redis("carts", "HSET cart:? ? ?"),
    redis("carts", "EXPIRE cart:? ?"),
  ]),
  rpc("cart", "shop.Cart/Get", 2, "cart {uuid} has {count} items", [redis("carts", "HGETALL cart:?")]),
  rpc("checkout", "shop.Checkout/Place", 10, "order {number} placed by '{user}' in {ms} ms", [
    { call: "cart shop.Cart/Get" },
    { call: "users GET /users/{id}" },
    { call: "tax shop.Tax/Compute" },
    { call: "shipping shop.Shipping/Quote" },
    { call: "inventory POST /reservations" },
    { call: "payment POST /charges" },
    { call: "orders POST /orders" },
  ]),
  http("payment", "POST /charges", 45, "charged {number} cents to card ending in {count}", [
    { call: "fraud shop.Fraud/Check" },
    sql("charges", "INSERT INTO charges (id, order_id, cents, state) VALUES ($1, $2, $3, $4)", 5),
    { work: "call card network", ms: 90 },
  ]),
  rpc("fraud", "shop.Fraud/Check", 14, "score {count} for user {user}", [
    redis("features", "MGET feature:?"),
    { work: "infer", ms: 18 },
  ]),
  rpc("tax", "shop.Tax/Compute", 2, "tax of {number} cents", [redis("rates", "GET rate:?")]),
  rpc("shipping", "shop.Shipping/Quote", 5, "parcel of {number} g: {count} offers", [
    sql("tariffs", "SELECT * FROM tariffs WHERE zone = $1 AND max_grams >= $2", 5),
  ]),
  http("orders", "POST /orders", 6, "order {uuid} stored", [
    sql("orders", "INSERT INTO orders (id, user_id, cents) VALUES ($1, $2, $3)", 5),
    sql("order_items", "INSERT INTO order_items (order_id, product_id, amount) VALUES ($1, $2, $3)", 4),
    { publish: "email orders.placed", topic: "orders.placed" },
  ]),
  http("users", "GET /users/{id}", 3, "user {user} loaded", [
    sql("users", "SELECT id, email, locale FROM users WHERE id = $1", 3),
  ]),
  rpc("auth", "shop.Auth/Verify", 1, "token of {user} is valid for {count} s", [redis("sessions", "GET session:?")]),
  rpc("auth", "shop.Auth/Login", 60, "user '{user}' logged in from {address}", [
    sql("credentials", "SELECT hash FROM credentials WHERE user_id = $1", 3),
    redis("sessions", "SETEX session:? ? ?"),
    { call: "users GET /users/{id}" },
  ]),
  takes("email", "orders.placed", 30, "sent mail {uuid} to {user}", [
    { work: "fill template", ms: 6 },
    { call: "notifications POST /push" },
  ]),
  http("notifications", "POST /push", 8, "pushed to {count} devices of {user}", [
    sql("devices", "SELECT token FROM devices WHERE user_id = $1", 4),
  ]),
];

/** What people do, and how often of a hundred times. */
export const entries: readonly (readonly [endpoint: string, weight: number])[] = [
  ["gateway GET /", 22],
  ["gateway GET /products/{id}", 40],
  ["gateway GET /search", 18],
  ["gateway POST /cart", 9],
  ["gateway POST /checkout", 5],
  ["gateway POST /login", 6],
];

/** What goes wrong in a service: type and message of its exceptions. */
export const failures: Readonly<Record<string, readonly [type: string, message: string]>> = {
  gateway: ["net.OpError", "dial tcp {address}: connect: connection refused"],
  frontend: ["TypeError", "Cannot read properties of undefined (reading '{word}')"],
  catalogue: ["org.postgresql.util.PSQLException", "Connection to {address} refused"],
  search: ["java.net.SocketTimeoutException", "timeout after {number} ms"],
  recommendation: ["KeyError", "'product-{number}'"],
  pricing: ["redis.Error", "i/o timeout reading from {address}"],
  currency: ["std::out_of_range", "no rate for currency {count}"],
  inventory: ["java.sql.SQLTransactionRollbackException", 'could not serialize access to "stock" of product {number}'],
  reviews: ["psycopg.OperationalError", "server closed the connection {uuid}"],
  cart: ["StackExchange.Redis.RedisTimeoutException", "Timeout performing HSET cart:{uuid} after {number} ms"],
  checkout: ["errors.errorString", "order {number} was not placed"],
  payment: ["CardNetworkError", "card network answered {count} after {number} ms"],
  fraud: ["ValueError", "feature 'f{count}' is missing"],
  tax: ["errors.errorString", "no rate for zone {count}"],
  shipping: ["TariffError", "no tariff for {number} g"],
  orders: ["org.postgresql.util.PSQLException", "duplicate key {uuid}"],
  users: ["ActiveRecord::RecordNotFound", "Couldn't find User with 'id'={number}"],
  auth: ["errors.errorString", "token expired {number} s ago"],
  email: ["Net::SMTPServerBusy", "450 mailbox of {user} busy"],
  notifications: ["FetchError", "request to {address} failed"],
};
