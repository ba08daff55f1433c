/** All services as a list, and who calls whom, as a map and as a table. */
import { useNavigate } from "@tanstack/react-router";
import { List, Network, Table2, Waypoints } from "lucide-react";
import { type ReactElement, useMemo } from "react";

import { useQuerySql } from "../../api/use-query-sql.js";
import { servicePath } from "../../app/links.js";
import { useScope } from "../../app/scope.js";
import { textOf, useChangeSearch, useSearchParameters } from "../../app/search.js";
import { useTimeRange } from "../../app/time-range-context.js";
import { bucketsOf } from "../../ui/chart/buckets.js";
import { Button, Joined } from "../../ui/controls/controls.js";
import { formatCount } from "../../ui/format.js";
import { Banner, EmptyState, ErrorPart, LoadingLine, Skeleton } from "../../ui/states.js";
import { FindBar } from "../find-bar.js";
import { CallsTable } from "./calls-table.js";
import { audienceCondition, callsSql, readCalls, readServices, servicesSql, signalsSql } from "./service-data.js";
import { graphOf } from "./map/service-graph.js";
import { mapColours, ServiceMap } from "./map/service-map.js";
import { ServiceList } from "./service-list.js";
import css from "./services.module.css";

const views = [
  { id: "list", words: "List", icon: List },
  { id: "map", words: "Map", icon: Waypoints },
  { id: "calls", words: "Calls", icon: Table2 },
] as const;

export default function ServicesPage(): ReactElement {
  const search = useSearchParameters();
  const change = useChangeSearch();
  const navigate = useNavigate();
  const { resolved } = useTimeRange();
  const { audience } = useScope();
  const view = views.find(({ id }) => id === search["view"])?.id ?? "list";
  const words = textOf(search["q"]) ?? "";
  const own = audienceCondition(audience);
  const buckets = useMemo(() => bucketsOf(resolved, 160), [resolved]);
  const seconds = (resolved.endMs - resolved.beginMs) / 1000;

  const spans = useQuerySql(servicesSql(buckets, own), { parameters: own.parameters });
  const signals = useQuerySql(signalsSql(own), { parameters: own.parameters, enabled: view === "list" });
  const calls = useQuerySql(callsSql(own.sql), { parameters: own.parameters, enabled: view !== "list" });
  const services = useMemo(
    () => readServices(spans.result, signals.result, buckets),
    [spans.result, signals.result, buckets],
  );
  const edges = useMemo(() => readCalls(calls.result), [calls.result]);
  const graph = useMemo(() => graphOf(edges, services, words), [edges, services, words]);
  const contains = (name: string): boolean => name.toLowerCase().includes(words.toLowerCase());
  const shown = services.filter(({ name }) => contains(name));
  const shownCalls = edges.filter(({ caller, callee }) => contains(caller) || contains(callee));
  const running = spans.running || signals.running || calls.running;
  const error = spans.error ?? calls.error;
  const isReady =
    spans.result !== null && (view === "list" ? (signals.result ?? signals.error) : calls.result) !== null;
  const retry = (): void => {
    for (const { error: failed, run } of [spans, calls]) {
      if (failed !== null) {
        run();
      }
    }
  };
  const toPage = (name: string): void => void navigate({ to: servicePath(name) });

  return (
    <div className={css.page}>
      <FindBar
        label="Find a service"
        placeholder="Find a service"
        words={words}
        onWords={(q) => change({ q, place: undefined }, { replace: true })}
        found={
          !isReady
            ? ""
            : view === "list"
              ? formatCount(shown.length, "service")
              : formatCount(shownCalls.length, "pair")
        }
      >
        <Joined label="View">
          {views.map(({ id, words: label, icon: Icon }) => (
            <Button
              key={id}
              aria-pressed={view === id}
              onClick={() => change({ view: id === "list" ? undefined : id, place: undefined })}
            >
              <Icon aria-hidden /> {label}
            </Button>
          ))}
        </Joined>
      </FindBar>
      <LoadingLine running={running} />
      <div className={css.notes}>
        {error === null ? null : <ErrorPart error={error} title="The services could not be read" onRetry={retry} />}
        {signals.error === null || view !== "list" ? null : (
          <Banner kind="warn" title="Rows of each signal are not shown">
            {signals.error.message}
          </Banner>
        )}
      </div>
      {error !== null && (services.length === 0 || !isReady) ? (
        <div />
      ) : !isReady ? (
        <Skeleton rows={8} />
      ) : view === "list" ? (
        shown.length === 0 ? (
          <NoServices words={words} stale={spans.stale} onClear={() => change({ q: undefined })} />
        ) : (
          <ServiceList services={shown} seconds={seconds} stale={spans.stale} onOpen={toPage} />
        )
      ) : shownCalls.length === 0 ? (
        <NoCalls words={words} stale={calls.stale} onClear={() => change({ q: undefined })} />
      ) : view === "map" ? (
        <ServiceMap
          graph={graph}
          seconds={seconds}
          colour={mapColours.find((each) => each === search["colour"]) ?? "errors"}
          stale={calls.stale || spans.stale}
          onColour={(colour) => change({ colour: colour === "errors" ? undefined : colour }, { replace: true })}
        />
      ) : (
        <CallsTable calls={shownCalls} seconds={seconds} stale={calls.stale} onOpen={toPage} />
      )}
    </div>
  );
}

interface NothingProps {
  readonly words: string;
  readonly stale: boolean;
  readonly onClear: () => void;
}

function NoServices({ words, stale, onClear }: NothingProps): ReactElement {
  return words === "" ? (
    <EmptyState icon={<Network />} title="No service sent anything in this time range" stale={stale}>
      Choose a longer time range at the top, or send telemetry with the attribute <code>service.name</code>.
    </EmptyState>
  ) : (
    <EmptyState title="No service has such a name" stale={stale} actions={<Button onClick={onClear}>Show all</Button>}>
      Nothing in this time range contains what you are looking for.
    </EmptyState>
  );
}

function NoCalls({ words, stale, onClear }: NothingProps): ReactElement {
  return words === "" ? (
    <EmptyState icon={<Network />} title="No calls between services in this time range" stale={stale}>
      Calls come from spans of the kinds client and server with a common trace. Choose a longer time range at the top,
      or see that your services pass on the trace context.
    </EmptyState>
  ) : (
    <EmptyState
      title="No calls of such a service"
      stale={stale}
      actions={<Button onClick={onClear}>Show all</Button>}
    />
  );
}
