/** A screen about the telemetry of a shop: text, a variable, a chart beside a table, and log records. */
export const shopCells = (markdown: string) => [
  { kind: "markdown", id: "a", text: markdown },
  {
    kind: "variable",
    id: "v",
    name: "service",
    label: "Service",
    type: "text",
    value: "",
    sql: "SELECT DISTINCT service_name FROM log_entries ORDER BY 1",
  },
  {
    kind: "group",
    id: "g",
    cells: [
      {
        kind: "chart",
        id: "c",
        title: "Records by level",
        look: "bars",
        unit: "",
        sql: "SELECT date_bin(to_seconds($interval), time) AS time, level_name, count(*) AS records FROM log_entries WHERE $service = '' OR service_name = $service GROUP BY ALL ORDER BY time",
      },
      {
        kind: "table",
        id: "t",
        title: "Services",
        sql: "SELECT service_name, count(*) AS records FROM log_entries WHERE $service = '' OR service_name = $service GROUP BY ALL ORDER BY ALL",
      },
    ],
  },
  { kind: "log", id: "l", title: "Errors", where: "level_name = 'error'" },
];
