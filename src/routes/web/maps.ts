/**
 * Maps: binary glTF files that screens show. They come in and go out in parts, never whole in memory. What is no such
 * file is refused by its first bytes, and one that is shorter or longer than it says by its last.
 */
import { randomUUID } from "node:crypto";
import { createReadStream } from "node:fs";
import { PassThrough } from "node:stream";

import type { AdminService } from "../../admin/admin-service.js";
import type { Author } from "../../auth/audit.js";
import { ServiceError } from "../../runtime/errors.js";
import type { Logger } from "../../runtime/log/log.js";
import { mapType } from "../../wire/web/app-api.js";
import type { HttpAnswer } from "../http/answer.js";
import { hasAlready } from "../http/conditions.js";
import { jsonResponse } from "./responses.js";

/** What is needed of the object store. */
export interface MapStore {
  /** Stores a new object from its parts, and gives its bytes. */
  putParts(path: string, parts: AsyncIterable<Uint8Array>): Promise<number>;
  remove(path: string): Promise<void>;
  /** The object as a file of this machine; null when it is not one. */
  localPath(path: string): string | null;
  /** Reads an object that is not a file of this machine; null when all are. */
  readonly remote: {
    read(path: string, range: null, onBytes: (bytes: Uint8Array) => Promise<void>, signal: AbortSignal): Promise<void>;
  } | null;
}

/** Options of {@link WebMaps}. */
interface WebMapsOptions {
  readonly admin: Pick<AdminService, "map" | "saveMap" | "deleteMap">;
  /** @throws ServiceError when it cannot be used */
  readonly store: () => Promise<MapStore>;
  /** Where in it the maps are. */
  readonly directory: string;
  readonly logger: Logger;
}

/** A file to be sent. */
interface MapFile {
  readonly headers: HttpAnswer["headers"];
  readonly bodyBytes: number;
  /** Null: the client has it. */
  readonly parts: AsyncIterable<Uint8Array> | null;
}

/** Files that come in at once. */
const maxUploads = 2;
/** Header of the file and of its first chunk (glTF 2.0, "Binary glTF Layout"). */
const headBytes = 20;
const magic = 0x46546c67;
const jsonChunk = 0x4e4f534a;

/** See the head of the file. */
export class WebMaps {
  readonly #o: WebMapsOptions;
  #uploads = 0;

  constructor(o: WebMapsOptions) {
    this.#o = o;
  }

  /** @param known `If-None-Match` of the request. @throws ServiceError NOT_FOUND */
  async get(file: string, known: string): Promise<MapFile> {
    const { path, bytes: bodyBytes } = await this.#o.admin.map(file);
    const store = await this.#o.store();
    // An object is never changed, so its name says what is in it.
    const tag = `"${path.slice(path.lastIndexOf("/") + 1)}"`;
    const headers = [
      ["ETag", tag],
      ["Cache-Control", "private, no-cache"],
    ] as const;
    if (hasAlready(known, tag)) {
      return { headers, bodyBytes, parts: null };
    }
    return {
      bodyBytes,
      headers: [
        ...headers,
        ["Content-Type", mapType],
        ["Content-Disposition", `attachment; filename="${file}"`],
        ["Content-Security-Policy", "sandbox; default-src 'none'; frame-ancestors 'none'"],
      ],
      parts: partsOf(store, path),
    };
  }

  /** @throws ServiceError BAD_REQUEST for what is no map, TOO_MANY_REQUESTS; and what `parts` throws */
  async put(file: string, author: Author, parts: AsyncIterable<Uint8Array>): Promise<HttpAnswer> {
    if (this.#uploads >= maxUploads) {
      throw new ServiceError("TOO_MANY_REQUESTS", "other maps are being saved; try again", { retryAfterSeconds: 2 });
    }
    this.#uploads++;
    try {
      const path = `${this.#o.directory}/${randomUUID()}.glb`;
      const bytes = await (await this.#o.store()).putParts(path, binaryGltf(parts));
      const { row, replaced } = await this.#publish(path, { ...author, file, bytes });
      if (replaced !== null) {
        await this.#remove(replaced);
      }
      return jsonResponse(replaced === null ? 201 : 200, JSON.stringify(row));
    } finally {
      this.#uploads--;
    }
  }

  /** @throws ServiceError NOT_FOUND */
  async delete(file: string, author: Author): Promise<HttpAnswer> {
    await this.#remove(await this.#o.admin.deleteMap({ ...author, file }));
    return jsonResponse(204, null);
  }

  async #publish(
    path: string,
    map: Omit<Parameters<AdminService["saveMap"]>[0], "path">,
  ): ReturnType<AdminService["saveMap"]> {
    try {
      return await this.#o.admin.saveMap({ ...map, path });
    } catch (error) {
      // It may have been published, where nobody knows: then it stays, and takes room only.
      if (!(error instanceof ServiceError) || error.code !== "UNAVAILABLE") {
        await this.#remove(path);
      }
      throw error;
    }
  }

  /** Nobody names it any more. */
  async #remove(path: string): Promise<void> {
    try {
      await (await this.#o.store()).remove(path);
    } catch (error) {
      this.#o.logger.warn({ err: error, path }, "an object of a map could not be removed, and takes room");
    }
  }
}

/**
 * An object in parts, no faster than they are taken; leaving the loop ends the reading. Nothing is opened before the first
 * part is asked for: of a HEAD request nobody asks for one.
 */
async function* partsOf(store: MapStore, path: string): AsyncGenerator<Uint8Array> {
  const local = store.localPath(path);
  if (local !== null || store.remote === null) {
    yield* createReadStream(local ?? "") as AsyncIterable<Uint8Array>;
    return;
  }
  const controller = new AbortController();
  const through = new PassThrough();
  through.on("close", () => {
    controller.abort();
  });
  const pass = (bytes: Uint8Array): Promise<void> =>
    new Promise((resolve, reject) => {
      through.write(bytes, (error) => {
        if (error === null || error === undefined) {
          resolve();
        } else {
          reject(error);
        }
      });
    });
  store.remote.read(path, null, pass, controller.signal).then(
    () => through.end(),
    (error: unknown) => through.destroy(error instanceof Error ? error : new Error(String(error))),
  );
  yield* through as AsyncIterable<Uint8Array>;
}

/** Whether the reading of a map met no object. */
export function isGone(error: unknown): boolean {
  return error instanceof Error && "code" in error && (error.code === "ENOENT" || error.code === "NOT_FOUND");
}

/** Passes a file on. @throws ServiceError BAD_REQUEST for one that is no binary glTF of version 2 */
async function* binaryGltf(parts: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let head = Buffer.alloc(0);
  let announced: number | null = null;
  let bytes = 0;
  for await (const part of parts) {
    bytes += part.length;
    if (announced === null) {
      head = Buffer.concat([head, part]);
      if (head.length < headBytes) {
        continue;
      }
      announced = announcedBytes(head);
      yield head;
    } else {
      yield part;
    }
    if (bytes > announced) {
      throw noMap("it is longer than its header says");
    }
  }
  if (announced === null || bytes !== announced) {
    throw noMap("it is shorter than its header says");
  }
}

/** The length of a file by its first bytes. @throws ServiceError BAD_REQUEST */
function announcedBytes(head: Buffer): number {
  if (head.readUInt32LE(0) !== magic) {
    throw noMap("it does not begin with glTF");
  }
  if (head.readUInt32LE(4) !== 2) {
    throw noMap("its version is not 2");
  }
  const total = head.readUInt32LE(8);
  const chunkBytes = head.readUInt32LE(12);
  if (head.readUInt32LE(16) !== jsonChunk || headBytes + chunkBytes > total) {
    throw noMap("it does not begin with a chunk of JSON");
  }
  return total;
}

function noMap(why: string): ServiceError {
  return new ServiceError("BAD_REQUEST", `the body must be a binary glTF file (GLB): ${why}`);
}
