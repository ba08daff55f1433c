/**
 * Every page. A page is loaded when somebody goes there, so it may bring what it needs. Those with `navigation` are in
 * the navigation and the command palette, in this order; the others are reached from pages.
 */
import {
  Activity,
  CalendarClock,
  ChartColumn,
  ChartLine,
  Cpu,
  Database,
  Download,
  Eraser,
  History,
  KeyRound,
  LayoutDashboard,
  ListTree,
  type LucideIcon,
  Map as MapIcon,
  Network,
  Rocket,
  ScanSearch,
  ScrollText,
  Server,
  Settings,
  ShieldBan,
  ShieldCheck,
  Stethoscope,
  Upload,
  UsersRound,
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
    /** In the command palette alone: another page of the navigation leads there. */
    readonly within?: true;
  };
  /** Others are told so in its place, and find no way there; the server decides what they may do. */
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
    load: () => import("../explore/traces/search/traces-page.js"),
    navigation: { group: "Explore", icon: ListTree, words: "spans requests duration errors search" },
  },
  {
    path: "/traces/compare",
    title: "Compare traces",
    load: () => import("../explore/traces/compare/compare-page.js"),
    timeRange: false,
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
    path: "/metrics",
    title: "Metrics",
    load: () => import("../explore/metrics/metrics-page.js"),
    navigation: { group: "Explore", icon: ChartLine, words: "counters gauges histograms quantiles rate chart" },
  },
  {
    path: "/processes",
    title: "Processes",
    load: () => import("../explore/processes/processes-page.js"),
    navigation: { group: "Explore", icon: Cpu, words: "hosts instances versions sdk pid" },
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
  {
    path: "/audiences",
    title: "Audiences",
    load: () => import("../admin/audiences/audiences-page.js"),
    navigation: { group: "Manage", icon: ShieldCheck, words: "access grants read mint own keys" },
    timeRange: false,
  },
  {
    path: "/admin",
    title: "Administration",
    load: () => import("../admin/hub/admin-page.js"),
    navigation: { group: "Manage", icon: Settings, words: "settings manage admin" },
    timeRange: false,
  },
  {
    path: "/admin/ingestion-keys",
    title: "Ingestion keys",
    load: () => import("../admin/keys/ingestion-keys-page.js"),
    navigation: { group: "Manage", icon: KeyRound, words: "mint revoke api key token", within: true },
    timeRange: false,
  },
  {
    path: "/admin/analytics-keys",
    title: "Analytics keys",
    load: () => import("../admin/keys/analytics-keys-page.js"),
    navigation: { group: "Manage", icon: ScanSearch, words: "mint revoke api key token grafana", within: true },
    adminOnly: true,
    timeRange: false,
  },
  {
    path: "/admin/groups",
    title: "Groups",
    load: () => import("../admin/groups/groups-page.js"),
    navigation: { group: "Manage", icon: UsersRound, words: "members administrators admins", within: true },
    adminOnly: true,
    timeRange: false,
  },
  {
    path: "/admin/usage",
    title: "Usage",
    load: () => import("../admin/usage/usage-page.js"),
    navigation: { group: "Manage", icon: ChartColumn, words: "requests bytes records volume cost", within: true },
    timeRange: false,
  },
  {
    path: "/admin/audit",
    title: "Audit",
    load: () => import("../admin/audit/audit-page.js"),
    navigation: { group: "Manage", icon: History, words: "who changed history", within: true },
    adminOnly: true,
    timeRange: false,
  },
  {
    path: "/admin/query-denials",
    title: "Query deny list",
    load: () => import("../admin/denials/denials-page.js"),
    navigation: { group: "Manage", icon: ShieldBan, words: "refuse block rule", within: true },
    adminOnly: true,
    timeRange: false,
  },
  {
    path: "/admin/retention",
    title: "Retention",
    load: () => import("../admin/lake/retention-page.js"),
    navigation: { group: "Manage", icon: CalendarClock, words: "keep days delete old rows age", within: true },
    adminOnly: true,
    timeRange: false,
  },
  {
    path: "/admin/erasure",
    title: "Erasure",
    load: () => import("../admin/lake/erasure-page.js"),
    navigation: { group: "Manage", icon: Eraser, words: "erase delete rows privacy gdpr forget", within: true },
    adminOnly: true,
    timeRange: false,
  },
  {
    path: "/admin/lake-checks",
    title: "Lake checks",
    load: () => import("../admin/lake/checks-page.js"),
    navigation: { group: "Manage", icon: Stethoscope, words: "repair missing objects orphans verify", within: true },
    adminOnly: true,
    timeRange: false,
  },
  {
    path: "/admin/data-sources",
    title: "Data sources",
    load: () => import("../admin/sources/data-sources-page.js"),
    navigation: { group: "Manage", icon: Server, words: "analytics servers", within: true },
    adminOnly: true,
    timeRange: false,
  },
  {
    path: "/admin/export-screens",
    title: "Export screens",
    load: () => import("../admin/screens/export-page.js"),
    navigation: { group: "Manage", icon: Download, words: "backup files", within: true },
    adminOnly: true,
    timeRange: false,
  },
  {
    path: "/admin/import-screens",
    title: "Import screens",
    load: () => import("../admin/screens/import-page.js"),
    navigation: { group: "Manage", icon: Upload, words: "restore files", within: true },
    adminOnly: true,
    timeRange: false,
  },
  {
    path: "/admin/maps",
    title: "Maps",
    load: () => import("../admin/maps/maps-page.js"),
    navigation: { group: "Manage", icon: MapIcon, words: "glb gltf scene", within: true },
    adminOnly: true,
    timeRange: false,
  },
];
