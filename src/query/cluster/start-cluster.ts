/** The cluster of a server, ready to be asked. */
import { pathToFileURL } from "node:url";

import type { ObjectStore } from "../../lake/store/object-store.js";
import type { ClusterService } from "../query-service.js";
import { ClusterQueries, type ClusterQueriesOptions } from "./cluster-queries.js";
import { parseClusterUri } from "./cluster-uri.js";

/** A cluster that a server may ask. */
export interface StartedCluster extends ClusterService {
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
  const base = store.uri.replace(/[?#].*$/u, "").replace(/\/$/u, "");
  return {
    queries,
    uriOf: (path) => {
      const file = store.localPath(path);
      return file === null ? `${base}/${path}` : pathToFileURL(file).href;
    },
    stop: () => {
      queries.stop();
    },
  };
}
