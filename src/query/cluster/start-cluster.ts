/** The cluster of a server, ready to be asked. */
import { pathToFileURL } from "node:url";

import type { ObjectStore } from "../../lake/store/object-store.js";
import type { ClusterService } from "../query-service.js";
import { ClusterQueries, type ClusterQueriesOptions } from "./cluster-queries.js";
import { parseClusterUri } from "./cluster-uri.js";

/** A cluster that a server may ask. */
interface StartedCluster extends ClusterService {
  stop(): void;
}

/**
 * Nobody is asked anything before the first query.
 * @param uri `SVC_QUERY_CLUSTER_URI`
 * @throws ServiceError NOT_CONFIGURED for a URI that is none
 */
export function startCluster(
  uri: string,
  store: ObjectStore,
  o: Omit<ClusterQueriesOptions, "address">,
): StartedCluster {
  const queries = new ClusterQueries({ ...o, address: parseClusterUri(uri) });
  // Of a directory, the URI of something in it without that: so it is written as paths in it are.
  const inRoot = store.localPath("x");
  const base =
    inRoot === null ? store.uri.replace(/[?#].*$/u, "").replace(/\/$/u, "") : pathToFileURL(inRoot).href.slice(0, -2);
  return {
    queries,
    // Paths of a store are the same in a URI.
    uriOf: (path) => `${base}/${path}`,
    stop: () => {
      queries.stop();
    },
  };
}
