/** A cell that shows rows as points in the scene of a map, and in a table. */
import { Box } from "lucide-react";
import { type ReactElement, useEffect, useMemo, useRef, useState } from "react";

import { wordsOf } from "../../api/error.js";
import type { QueryResult } from "../../api/query.js";
import type { SqlState } from "../../api/use-query-sql.js";
import { resolvedColour, useThemeVersion } from "../../ui/colours.js";
import { Button } from "../../ui/controls/controls.js";
import { formatCount, formatNumber } from "../../ui/format.js";
import { Banner, EmptyState, ErrorPart, Skeleton } from "../../ui/states.js";
import { type CellContext, noColumns, QueryPart, ResultTable, useCellQuery } from "../cell-query.js";
import type { MapCell } from "../screen-model.js";
import css from "./map.module.css";
import { mapFileProblem } from "./map-file.js";
import { type MapPoints, maxPoints, pointsOf, pointText } from "./map-points.js";
import { useMapFile } from "./maps-api.js";
import type { MapScene } from "./scene.js";

export function MapView({ cell, context }: { readonly cell: MapCell; readonly context: CellContext }): ReactElement {
  const query = useCellQuery(cell.sql, context, maxPoints);
  return (
    <QueryPart title={cell.title} query={query} showsNone>
      {(result) => <Points cell={cell} result={result} state={query.state} />}
    </QueryPart>
  );
}

function Points({
  cell,
  result,
  state,
}: {
  readonly cell: MapCell;
  readonly result: QueryResult;
  readonly state: SqlState;
}): ReactElement {
  const points = useMemo(() => pointsOf(result), [result, result.rows, state.summary]);
  const [asTable, setAsTable] = useState(false);
  if (typeof points === "string") {
    return <Banner kind="warn">{points}</Banner>;
  }
  return (
    <>
      {cell.file === "" ? (
        <EmptyState icon={<Box />} title="No map is chosen">
          Edit the screen, and choose one. Administrators add maps.
        </EmptyState>
      ) : (
        <MapPart file={cell.file} points={points} result={result} />
      )}
      <div className={css.foot}>
        <span>
          {formatCount(points.count, "point")}
          {points.left === 0 ? "" : `, ${formatCount(points.left, "row")} without a place`}
        </span>
        {points.extent === null ? null : (
          <span className={css.scale}>
            {formatNumber(points.extent[0])}
            <span className={css.ramp} aria-hidden />
            {formatNumber(points.extent[1])}
          </span>
        )}
        <Button aria-expanded={asTable} onClick={() => setAsTable(!asTable)}>
          {asTable ? "Hide the table" : "Show as a table"}
        </Button>
      </div>
      {asTable ? <ResultTable label={cell.title} result={result} state={state} over={noColumns} /> : null}
    </>
  );
}

interface MapPartProps {
  readonly file: string;
  readonly points: MapPoints;
  readonly result: QueryResult;
}

function MapPart(props: MapPartProps): ReactElement {
  const { data, error, refetch } = useMapFile(props.file);
  const problem = useMemo(() => (data === undefined ? null : mapFileProblem(data)), [data]);
  if (error !== null) {
    return <ErrorPart error={error} title={`The map ${props.file} cannot be loaded`} onRetry={() => void refetch()} />;
  }
  if (problem !== null) {
    return <Banner kind="warn">{problem}</Banner>;
  }
  return data === undefined ? (
    <div className={css.scene}>
      <Skeleton />
    </div>
  ) : (
    <SceneView {...props} data={data} />
  );
}

function SceneView({ points, result, data }: MapPartProps & { readonly data: ArrayBuffer }): ReactElement {
  const host = useRef<HTMLDivElement>(null);
  const [scene, setScene] = useState<MapScene | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const [point, setPoint] = useState<number | null>(null);
  const theme = useThemeVersion();
  useEffect(() => {
    let made: MapScene | null = null;
    let isOver = false;
    const make = async (into: HTMLElement): Promise<void> => {
      try {
        const { createScene } = await import("./scene.js");
        const options = {
          host: into,
          file: data,
          onPoint: setPoint,
          onLost: () => setProblem("The graphics of the browser have stopped. Load the page again."),
        };
        made = isOver ? null : await createScene(options);
      } catch (error) {
        setProblem(wordsOf(error));
        return;
      }
      if (isOver) {
        made?.dispose();
      } else {
        setScene(made);
      }
    };
    if (host.current !== null) {
      void make(host.current);
    }
    return () => {
      isOver = true;
      made?.dispose();
      setScene(null);
    };
  }, [data]);
  useEffect(() => {
    scene?.setColours({
      background: resolvedColour("var(--surface)"),
      surface: resolvedColour("var(--border-strong)"),
      low: resolvedColour("var(--series-0)"),
      high: resolvedColour("var(--series-1)"),
      none: resolvedColour("var(--text-muted)"),
    });
  }, [scene, theme]);
  useEffect(() => {
    setPoint(null);
    scene?.setPoints(points);
  }, [scene, points]);
  if (problem !== null) {
    return <Banner kind="warn">{problem} The points are in the table.</Banner>;
  }
  const row = point === null ? undefined : points.rows[point];
  return (
    <>
      <div ref={host} className={css.scene} data-drawn={scene !== null} />
      <p className={css.point}>
        {row === undefined
          ? "Drag or arrow keys turn the map, with Shift they move it, + and − zoom, Home shows all."
          : pointText(result, row)}
      </p>
    </>
  );
}
