/**
 * The files of the web application. They are read once at start, into a map by their path: what a request names is
 * looked up there and nowhere else, so that no path leads out of the directory.
 *
 * `/assets/*` carry a hash of their content in their names and are kept by browsers for good; every other path that is
 * not of an API is a page of the application, which finds out itself what to show.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";

import { escapeHtml } from "../../runtime/text/html.js";
import type { HttpAnswer } from "../http/answer.js";

/** Answers what is not an API. */
export interface AppFiles {
  /**
   * Null when there is no such file.
   * @param pathname below the base path; @param acceptEncoding the field, or the empty string.
   */
  answer(pathname: string, acceptEncoding: string): HttpAnswer | null;
}

interface AppFile {
  readonly type: string;
  readonly identity: Uint8Array;
  readonly br: Uint8Array | null;
  readonly gzip: Uint8Array | null;
}

const types: Readonly<Record<string, string>> = {
  ".css": "text/css; charset=utf-8",
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".json": "application/json",
  ".png": "image/png",
  ".svg": "image/svg+xml",
  ".wasm": "application/wasm",
  ".woff2": "font/woff2",
};

/** For workers, too: a worker has the policy of its own script. */
const policy: readonly (readonly [string, string])[] = [
  [
    "Content-Security-Policy",
    "default-src 'self'; base-uri 'self'; object-src 'none'; form-action 'self'; frame-ancestors 'none'",
  ],
  ["Referrer-Policy", "same-origin"],
];

const ofAnApi = /^\/(?:api|auth|assets)(?:\/|$)/;

/**
 * Reads the application; null where it has not been built.
 * @param directory what `web/bundle.mjs` wrote; @param basePath without a slash at its end.
 */
export function readAppFiles(directory: string, basePath: string): AppFiles | null {
  if (!existsSync(path.join(directory, "index.html"))) {
    return null;
  }
  const assets = new Map<string, AppFile>();
  for (const name of readdirSync(path.join(directory, "assets"))) {
    const file = readAppFile(path.join(directory, "assets", name));
    if (file !== null) {
      assets.set(`/assets/${name}`, file);
    }
  }
  const page = readFileSync(path.join(directory, "index.html"), "utf8").replace(
    /<base href="[^"]*"/,
    `<base href="${escapeHtml(basePath)}/"`,
  );
  const index: HttpAnswer = {
    status: 200,
    headers: [["Content-Type", types[".html"] ?? ""], ["Cache-Control", "no-store"], ...policy],
    body: page,
  };
  return {
    answer(pathname, acceptEncoding) {
      const asset = assets.get(pathname);
      if (asset !== undefined) {
        return answerWith(asset, acceptEncoding);
      }
      return ofAnApi.test(pathname) ? null : index;
    },
  };
}

/** Null for what only goes with another file, or has no known type. */
function readAppFile(file: string): AppFile | null {
  const type = types[path.extname(file)];
  if (type === undefined) {
    return null;
  }
  const read = (name: string): Uint8Array | null => (existsSync(name) ? readFileSync(name) : null);
  return { type, identity: readFileSync(file), br: read(`${file}.br`), gzip: read(`${file}.gz`) };
}

function answerWith(file: AppFile, acceptEncoding: string): HttpAnswer {
  const accepted = acceptedCodings(acceptEncoding);
  const coding = (["br", "gzip"] as const).find((name) => file[name] !== null && accepted.has(name));
  return {
    status: 200,
    headers: [
      ["Content-Type", file.type],
      ["Cache-Control", "public, max-age=31536000, immutable"],
      ["Vary", "Accept-Encoding"],
      ...(coding === undefined ? [] : [["Content-Encoding", coding] as const]),
      ...policy,
    ],
    body: (coding === undefined ? null : file[coding]) ?? file.identity,
  };
}

/** The codings that are named with a weight above zero (RFC 9110 section 12.5.3). */
function acceptedCodings(acceptEncoding: string): ReadonlySet<string> {
  return new Set(
    acceptEncoding
      .toLowerCase()
      .split(",")
      .map((part) => part.split(";").map((each) => each.trim()))
      .filter(([, weight]) => !/^q=0(?:\.0*)?$/.test(weight ?? ""))
      .map(([name = ""]) => name),
  );
}
