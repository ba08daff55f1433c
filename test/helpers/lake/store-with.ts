import type { ObjectStore } from "../../../src/lake/store/object-store.js";

/** A store that is another in some of what it does. Its methods may have private state, so they are called on it. */
export function storeWith(store: ObjectStore, changes: Partial<ObjectStore>): ObjectStore {
  return {
    uri: store.uri,
    put: (where, chunks, among) => store.put(where, chunks, among),
    putParts: (where, parts) => store.putParts(where, parts),
    remove: (where) => store.remove(where),
    probe: () => store.probe(),
    probeReads: () => store.probeReads(),
    size: (where, signal) => store.size(where, signal),
    list: (prefix) => store.list(prefix),
    localPath: (where) => store.localPath(where),
    remote: store.remote,
    ...changes,
  };
}
