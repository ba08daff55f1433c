/** Sums V8's CPU profiles of several threads by module and by function. */
import type { Span } from "./attach.js";

/** What V8 writes: times in microseconds. */
export interface CpuProfile {
  readonly nodes: readonly ProfileNode[];
  readonly startTime: number;
  readonly endTime: number;
  /** Ids of the innermost functions. */
  readonly samples: readonly number[];
  /** Time before each sample since the one before it. */
  readonly timeDeltas: readonly number[];
}

interface ProfileNode {
  readonly id: number;
  readonly callFrame: { readonly functionName: string; readonly url: string; readonly lineNumber: number };
  readonly children?: readonly number[];
}

/** A thread's profile and what the thread is called. */
export interface ThreadProfile {
  readonly thread: string;
  readonly profile: CpuProfile;
}

/** One box of a flame graph: a function in the place where it was called. Microseconds, callees included. */
export interface Frame {
  readonly name: string;
  readonly module: string;
  micros: number;
  readonly callees: Map<string, Frame>;
}

/** Microseconds of a module, or of a function in it. */
export interface Share {
  readonly module: string;
  readonly name: string;
  micros: number;
  readonly byThread: Map<string, number>;
}

/** Sums over all threads, idle times left out; the most expensive come first. */
export interface ProfileSums {
  readonly busyMicros: number;
  readonly idleMicros: number;
  readonly threads: ReadonlyMap<string, { busyMicros: number; idleMicros: number }>;
  readonly modules: readonly Share[];
  readonly functions: readonly Share[];
  readonly root: Frame;
}

/** Frames that wait for work, of threads that do so without their event loop. */
const waiting: readonly { readonly name: string; readonly module: string }[] = [
  { name: "atomicsWaitLoop", module: "piscina" },
  { name: "pause", module: "src/engine/native/connection.ts" },
  { name: "takeCredit", module: "src/engine/native/job-control.ts" },
];

const syncs = new Set(["fsync", "fdatasync", "fsyncSync", "fdatasyncSync"]);

/**
 * The module of a function: a path within the project, the name of a package, `node:...`, `native` for functions that are
 * not JavaScript, `gc`, or `program` for what V8 knows no function of. A sync to disk, which waits, stands alone.
 * @param root URL of the project's directory, with a slash at its end
 */
export function moduleOf({ functionName, url }: ProfileNode["callFrame"], root: string): string {
  if (url === "") {
    switch (functionName) {
      case "(garbage collector)":
        return "gc";
      case "(program)":
        return "program";
      default:
        return syncs.has(functionName) ? "native, sync to disk" : "native";
    }
  }
  if (url.startsWith("node:")) {
    return url;
  }
  const file = decodeURI(url.startsWith("/") ? `file://${url}` : url);
  const packageName = /^.*\/node_modules\/(?<name>(?:@[^/]+\/)?[^/]+)\//u.exec(file)?.groups?.["name"];
  if (packageName !== undefined) {
    return packageName;
  }
  return file.startsWith(root) ? file.slice(root.length).replace(/^dist\/(?<rest>.*)\.js$/u, "$<rest>.ts") : file;
}

/**
 * Sums profiles.
 * @param spans what counts of the profiles' time; all of it when there are none
 * @throws Error when a profile is not one of V8's
 */
export function sumProfiles(threads: readonly ThreadProfile[], spans: readonly Span[], root: string): ProfileSums {
  const perThread = new Map<string, { busyMicros: number; idleMicros: number }>();
  const modules = new Map<string, Share>();
  const functions = new Map<string, Share>();
  const top: Frame = { name: "all", module: "", micros: 0, callees: new Map() };
  for (const { thread, profile } of threads) {
    const sums = perThread.get(thread) ?? { busyMicros: 0, idleMicros: 0 };
    perThread.set(thread, sums);
    for (const [path, micros] of microsByPath(profile, spans, root)) {
      const last = path.at(-1);
      if (last === undefined || last.name === "(idle)" || waiting.some((one) => isSame(one, last))) {
        sums.idleMicros += micros;
        continue;
      }
      sums.busyMicros += micros;
      add(modules, last.module, { module: last.module, name: "" }, thread, micros);
      add(functions, `${last.module} ${last.name}`, last, thread, micros);
      addPath(top, [{ name: thread, module: "" }, ...path], micros);
    }
  }
  const total = (of: "busyMicros" | "idleMicros"): number =>
    [...perThread.values()].reduce((sum, one) => sum + one[of], 0);
  return {
    busyMicros: total("busyMicros"),
    idleMicros: total("idleMicros"),
    threads: perThread,
    modules: ordered(modules),
    functions: ordered(functions),
    root: top,
  };
}

type Place = Pick<Frame, "name" | "module">;

const isSame = (a: Place, b: Place): boolean => a.name === b.name && a.module === b.module;

/** Time of each stack of functions, outermost first. A sample stands for the time until the next one. */
function microsByPath(profile: CpuProfile, spans: readonly Span[], root: string): [readonly Place[], number][] {
  const micros = new Map<number, number>();
  let at = profile.startTime;
  for (const [i, id] of profile.samples.entries()) {
    at += profile.timeDeltas[i] ?? 0;
    const end = i + 1 < profile.samples.length ? at + (profile.timeDeltas[i + 1] ?? 0) : profile.endTime;
    micros.set(id, (micros.get(id) ?? 0) + within(at, end, spans));
  }
  const places = new Map<number, { place: Place; parent: number | null }>();
  for (const { id, callFrame } of profile.nodes) {
    const place = { name: callFrame.functionName || "(anonymous)", module: moduleOf(callFrame, root) };
    places.set(id, { place, parent: null });
  }
  for (const { id, children = [] } of profile.nodes) {
    for (const child of children) {
      const entry = places.get(child);
      if (entry === undefined) {
        throw new Error(`the profile has no node ${child}`);
      }
      entry.parent = id;
    }
  }
  return [...micros]
    .filter(([, taken]) => taken > 0)
    .map(([id, taken]) => {
      const path: Place[] = [];
      for (let next = places.get(id); next !== undefined && next.parent !== null; next = places.get(next.parent)) {
        path.unshift(next.place);
      }
      return [path, taken];
    });
}

function within(from: number, to: number, spans: readonly Span[]): number {
  if (spans.length === 0) {
    return Math.max(0, to - from);
  }
  return spans.reduce((sum, span) => sum + Math.max(0, Math.min(to, span.to) - Math.max(from, span.from)), 0);
}

function add(shares: Map<string, Share>, key: string, place: Place, thread: string, micros: number): void {
  const share = shares.get(key) ?? { ...place, micros: 0, byThread: new Map<string, number>() };
  shares.set(key, share);
  share.micros += micros;
  share.byThread.set(thread, (share.byThread.get(thread) ?? 0) + micros);
}

function addPath(top: Frame, path: readonly Place[], micros: number): void {
  let frame = top;
  frame.micros += micros;
  for (const place of path) {
    const key = `${place.module} ${place.name}`;
    const callee: Frame = frame.callees.get(key) ?? { ...place, micros: 0, callees: new Map() };
    frame.callees.set(key, callee);
    callee.micros += micros;
    frame = callee;
  }
}

const ordered = (shares: ReadonlyMap<string, Share>): Share[] =>
  [...shares.values()].toSorted((a, b) => b.micros - a.micros);
