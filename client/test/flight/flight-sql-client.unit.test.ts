import { expect, it, onTestFinished } from "vitest";

import { connect } from "../../src/flight/flight-sql-client.js";

it.each([["begin"], ["end"]])("says what %s takes", async (name) => {
  const client = connect({ uri: "grpc://127.0.0.1:1" });
  onTestFinished(() => client.close());
  for (const time of [1_700_000_000_000, "2026-01-02T00:00:00Z", null, new Date(Number.NaN), 2n ** 80n]) {
    const query = client.query("SELECT 1", { [name]: time });
    await expect(query).rejects.toThrow(new TypeError(`${name} takes a Date, or nanoseconds since 1970 as a bigint`));
  }
});

it.each([
  ["its signal", "the query was cancelled"],
  ["the client's close", "the client was closed"],
])("%s ends the wait for a credential", async (end, message) => {
  const auth = { authorization: () => new Promise<never>(() => undefined) };
  const client = connect({ uri: "grpc://127.0.0.1:1", auth });
  onTestFinished(() => client.close());
  const controller = new AbortController();
  const query = client.query("SELECT 1", { signal: controller.signal });
  if (end === "its signal") {
    controller.abort();
  } else {
    client.close();
  }
  await expect(query).rejects.toMatchObject({ code: "CANCELLED", message });
});
