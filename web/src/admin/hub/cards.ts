/** Cards of the administration by section: the path of a page, and what is done there. */
export const sections: readonly { readonly title: string; readonly cards: readonly (readonly [string, string])[] }[] = [
  {
    title: "Access",
    cards: [
      ["/audiences", "What may be read and written, by whom, and which audiences are yours."],
      ["/admin/ingestion-keys", "What services send with: mint, see the last use, revoke."],
      ["/admin/analytics-keys", "What programs and dashboards read with, and what each may read."],
      ["/admin/groups", "People under one name, for grants. The group admins administers."],
    ],
  },
  {
    title: "Watch",
    cards: [
      ["/admin/usage", "Requests, bytes and records of keys and audiences over time."],
      ["/admin/audit", "Who changed which key, grant, group or rule, and when."],
      ["/admin/query-denials", "Rules that refuse queries, and whether a text would be refused."],
    ],
  },
  {
    title: "Stored data",
    cards: [
      ["/admin/retention", "How long rows are kept, by table and audience."],
      ["/admin/erasure", "Delete the rows of a service, a process, a trace or an attribute."],
      ["/admin/lake-checks", "Whether everything stored is there and whole, and what is done about it."],
    ],
  },
  {
    title: "Application",
    cards: [
      ["/admin/data-sources", "Further analytics servers that pages can ask."],
      ["/admin/export-screens", "Saved screens as a file, to keep or to take elsewhere."],
      ["/admin/import-screens", "Screens from files, with what would change."],
      ["/admin/maps", "Scenes in GLB files, for cells that place rows in space."],
    ],
  },
];
