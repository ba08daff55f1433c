/**
 * Operations that do not end in the database: queries and the deny list, which an analytics server answers, and the
 * files of maps. The front end has judged the request and knows its caller.
 */
import type { AdminService } from "../../admin/admin-service.js";
import type { Author } from "../../auth/audit.js";
import type { SessionOutcome } from "../../auth/oidc/web-session.js";
import { ServiceError } from "../../runtime/errors.js";
import { type FrontOperationId, operations, type StoredOperationId } from "../../wire/web/admin-api.js";
import { readBody, readFields, readQuery } from "../../wire/web/fields.js";
import type { HttpAnswer } from "../http/answer.js";
import type { BodyExchange } from "../http/body-exchange.js";
import { isGone, type WebMaps } from "./maps.js";
import type { DataSources } from "./query/data-sources.js";
import { addDenial, type DenialCaller, listDenials, removeDenial, testDenial } from "./query/denials.js";
import type { SendParts, WebQueries } from "./query/web-queries.js";
import { jsonResponse } from "./responses.js";

/** Operations whose caller is known. */
export type AppOperationId = Exclude<FrontOperationId, "config" | "openApi">;

/** A request whose caller is known. */
interface AppCall {
  readonly id: AppOperationId;
  readonly session: Extract<SessionOutcome, { kind: "ok" }>;
  /** The identity token of the session. */
  readonly idToken: string;
  readonly author: Author;
  readonly path: Readonly<Record<string, string>>;
  /** Without the question mark. */
  readonly query: string;
  readonly accept: string;
  readonly ifNoneMatch: string;
  /** Its body has not been asked for yet. */
  readonly exchange: Pick<BodyExchange, "body" | "parts" | "resume" | "left">;
  /** Sends an answer in parts. */
  readonly send: SendParts;
}

/** An answer to be written; or whether one that was sent in parts reached its end. */
type AppAnswer = HttpAnswer | { readonly sent: boolean };

/** Options of {@link AppRoutes}. */
interface AppRoutesOptions {
  readonly queries: WebQueries;
  readonly sources: DataSources;
  readonly maps: WebMaps;
  readonly admin: Pick<AdminService, "standing">;
}

/** See the head of this file. */
export class AppRoutes {
  readonly #o: AppRoutesOptions;

  constructor(o: AppRoutesOptions) {
    this.#o = o;
  }

  /** @throws ServiceError while nothing was sent. */
  async answer(call: AppCall): Promise<AppAnswer> {
    const { id } = call;
    await this.#assertAllowed(call);
    switch (id) {
      case "query":
        return { sent: await this.#query(call) };
      case "getMap":
        return await this.#getMap(call);
      case "putMap":
        return await this.#o.maps.put(this.#fileOf(call, id), call.author, call.exchange.parts());
      case "deleteMap":
        return await this.#o.maps.delete(this.#fileOf(call, id), call.author);
      case "listDenials":
      case "addDenial":
      case "removeDenial":
      case "testDenial":
        return await this.#denial(call, id);
    }
  }

  /** An operation in the database was executed. */
  changed(id: StoredOperationId): void {
    if (id === "putDataSource" || id === "deleteDataSource") {
      this.#o.sources.forget();
    }
  }

  /** Before the body is taken. @throws ServiceError FORBIDDEN */
  async #assertAllowed({ id, author }: AppCall): Promise<void> {
    if (operations[id].access === "admin" && !(await this.#o.admin.standing(author.caller)).isAdmin) {
      throw new ServiceError("FORBIDDEN", "only administrators, the members of the group admins, may do this");
    }
  }

  async #query(call: AppCall): Promise<boolean> {
    const { session, idToken, author, accept, exchange, send } = call;
    const { origin } = author;
    readQuery(operations.query.query, call.query);
    const input = readBody(operations.query.body, await bodyOf(call));
    const whose = JSON.stringify([session.caller.issuer, session.caller.subject]);
    return await this.#o.queries.run({ session: whose, idToken, origin, input, accept, signal: exchange.left }, send);
  }

  async #getMap(call: AppCall, again = true): Promise<AppAnswer> {
    const { headers, bodyBytes, parts } = await this.#o.maps.get(this.#fileOf(call, "getMap"), call.ifNoneMatch);
    if (parts === null) {
      return { status: 304, headers, body: "" };
    }
    try {
      return { sent: await call.send({ status: 200, headers, bodyBytes }, parts) };
    } catch (error) {
      // Another one took its place since it was looked up. Nothing was sent: an open file stays whole.
      if (again && isGone(error)) {
        return await this.#getMap(call, false);
      }
      throw error;
    }
  }

  async #denial(
    call: AppCall,
    id: Exclude<AppOperationId, "query" | "getMap" | "putMap" | "deleteMap">,
  ): Promise<HttpAnswer> {
    const { sources } = this.#o;
    const { author, idToken, exchange } = call;
    const by: DenialCaller = { ...author, idToken, signal: exchange.left };
    const body = await bodyOf(call);
    switch (id) {
      case "listDenials":
        readQuery(operations.listDenials.query, call.query);
        return json(200, await listDenials(sources, by));
      case "addDenial":
        return json(201, await addDenial(sources, by, readBody(operations.addDenial.body, body)));
      case "removeDenial": {
        const { rule_id: ruleId } = readQuery(operations.removeDenial.query, call.query);
        await removeDenial(sources, by, ruleId);
        return jsonResponse(204, null);
      }
      case "testDenial":
        return json(200, { matches: await testDenial(sources, by, readBody(operations.testDenial.body, body)) });
    }
  }

  #fileOf(call: AppCall, id: "getMap" | "putMap" | "deleteMap"): string {
    readQuery(operations[id].query, call.query);
    const { pathParameters } = operations[id];
    return readFields(pathParameters, new Map(Object.entries(call.path)), "path segment").file;
  }
}

const json = (status: number, value: unknown): HttpAnswer => jsonResponse(status, JSON.stringify(value));

/** @throws ServiceError PAYLOAD_TOO_LARGE; CANCELLED when the client has left */
async function bodyOf({ exchange }: AppCall): Promise<Uint8Array> {
  exchange.resume();
  const body = await exchange.body();
  if (body.kind === "complete") {
    return body.bytes;
  }
  throw body.kind === "refused" ? body.error : new ServiceError("CANCELLED");
}
