/**
 * Every page. A page is loaded when somebody goes there, so it may bring what it needs. Those with `navigation` are in
 * the navigation and the command palette, in this order; the others are reached from pages.
 */
import {
  Activity,
  Database,
  LayoutDashboard,
  ListTree,
  type LucideIcon,
  Network,
  Rocket,
  ScrollText,
} from "lucide-react";
import type { ComponentType } from "react";

export interface PageEntry {
  /** Below the base path; `$name` is a segment, read with `useParams({ strict: false })`. */
  readonly path: string;
  readonly title: string;
  readonly load: () => Promise<{ readonly default: ComponentType }>;
  readonly navigation?: {
    readonly group: (typeof navigationGroups)[number];
    readonly icon: LucideIcon;
    /** Further words that find it in the command palette. */
    readonly words?: string;
  };
  /** Only administrators see it in the navigation; the server decides what they may do. */
  readonly adminOnly?: boolean;
  /** False: it does not show what happened in a time range, so the shell offers none. */
  readonly timeRange?: boolean;
}

export const navigationGroups = ["", "Explore", "Ask", "Manage"] as const;

export const pages: readonly PageEntry[] = [
  {
    path: "/",
    title: "Overview",
    load: () => import("../overview/overview-page.js"),
    navigation: { group: "", icon: Activity, words: "home services errors" },
  },
  {
    path: "/logs",
    title: "Logs",
    load: () => import("../explore/logs/logs-page.js"),
    navigation: { group: "Explore", icon: ScrollText, words: "messages records tail patterns" },
  },
  {
    path: "/traces",
    title: "Traces",
    load: () => import("../explore/traces/traces-page.js"),
    navigation: { group: "Explore", icon: ListTree, words: "spans requests duration errors search" },
  },
  {
    path: "/traces/$id",
    title: "Trace",
    load: () => import("../explore/traces/trace-page.js"),
    timeRange: false,
  },
  {
    path: "/services",
    title: "Services",
    load: () => import("../explore/services/services-page.js"),
    navigation: { group: "Explore", icon: Network, words: "rate errors duration red calls topology" },
  },
  {
    path: "/services/$name",
    title: "Service",
    load: () => import("../explore/services/service-page.js"),
  },
  {
    path: "/sql",
    title: "SQL",
    load: () => import("../sql/sql-page.js"),
    navigation: { group: "Ask", icon: Database, words: "query editor select" },
  },
  {
    path: "/screens",
    title: "Screens",
    load: () => import("../screens/screens-page.js"),
    navigation: { group: "Ask", icon: LayoutDashboard, words: "notebook dashboard saved" },
    timeRange: false,
  },
  {
    path: "/screen/$name",
    title: "Screen",
    load: () => import("../screens/screen-page.js"),
  },
  {
    path: "/start",
    title: "Send data",
    load: () => import("../start/start-page.js"),
    navigation: { group: "Manage", icon: Rocket, words: "start first key ingestion otlp sdk" },
    timeRange: false,
  },
];
