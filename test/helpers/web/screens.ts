/** What tests of screens share. */
import type { Page } from "playwright-core";

import { callApi } from "./admin-app.js";

/** Makes one on the page of screens, as people do. */
export async function makeScreen(page: Page, name: string): Promise<void> {
  await page.getByRole("button", { name: "New screen" }).click();
  await page.getByLabel("Name").fill(name);
  await page.getByRole("button", { name: "Make it" }).click();
  await page.getByRole("heading", { name, level: 2 }).waitFor();
}

/** Saves one as somebody, past the pages. @returns the status of the answer */
export async function putScreen(page: Page, name: string, body: object): Promise<number> {
  return (await callApi(page, "PUT", `api/screens/${name}`, body)).status;
}
